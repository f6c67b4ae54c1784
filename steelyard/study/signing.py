"""Signing a finished study: what is vouched for besides the logs, and keys that do not lie in the database."""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path

from steelyard.errors import MissingExtraError, StudyError
from steelyard.store.signature import Signature, Signing
from steelyard.study.study import Study

__all__ = ["Key", "changed_since", "configuration_hash", "proof_holds", "sign_study"]


class Key:
    """A private Ed25519 key in a file that whoever owns the database does not have.

    Attributes:
        public: its public key, as base64 of its 32 bytes.
    """

    def __init__(self, path: str | Path) -> None:
        """Read a key.

        Raises:
            StudyError: the file cannot be read or holds no Ed25519 key without a password.
            MissingExtraError: `cryptography` is not installed.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ModuleNotFoundError:
            raise MissingExtraError("signing with a key", "sign") from None
        try:
            key = load_pem_private_key(Path(path).read_bytes(), password=None)
        except OSError as error:
            raise StudyError(f"{path}: the key cannot be read: {error.strerror}") from error
        except (TypeError, ValueError) as error:
            raise StudyError(f"{path}: {_WANTED} ({error})") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise StudyError(f"{path}: {_WANTED}")
        self._key = key
        self.public = base64.b64encode(key.public_key().public_bytes_raw()).decode()

    def sign(self, statement: bytes) -> str:
        """The signature of a statement, as base64."""
        return base64.b64encode(self._key.sign(statement)).decode()


def proof_holds(one: Signature) -> bool:
    """Whether the key that a signature names has signed what it says.

    Anybody can make a key, so compare `one.key` with the one that its owner gave you.

    Raises:
        MissingExtraError: `cryptography` is not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError:
        raise MissingExtraError("verifying a signature made with a key", "sign") from None
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(one.key or "", validate=True))
        key.verify(base64.b64decode(one.proof or "", validate=True), one.statement)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def sign_study(
    study: Study, signer: str, meaning: str, *, via: str, key: Key | None = None, now: float | None = None
) -> Signature:
    """Vouch for a study as it is now.

    Args:
        study: open.
        signer: who signs.
        meaning: what that says ("reviewed and approved").
        via: how the signer was known: `password`, `local` or `command line`.
        key: signs too, so that a forger needs more than the database.
        now: seconds since 1970; None asks the database.
    """
    bound = Signing(signer, meaning, via, configuration_hash(study), study.catalog.fingerprint())
    return study.store.audit.sign(bound, key=key, now=now)


def configuration_hash(study: Study) -> str:
    """SHA-256 of `study.toml`, as `sha256sum` prints it."""
    try:
        return hashlib.sha256((study.folder / "study.toml").read_bytes()).hexdigest()
    except OSError as error:
        raise StudyError(f"{study.folder}/study.toml cannot be read: {error.strerror}") from error


def changed_since(study: Study, one: Signature) -> list[str]:
    """What is not any more as it was when somebody signed, in words; empty: the signature is about the present state."""
    newest = study.store.models.newest()
    found = []
    if one.answers_since:
        found.append(f"{one.answers_since} row{'s' * (one.answers_since > 1)} in the log of answers")
    if one.grades_since:
        found.append(f"{one.grades_since} row{'s' * (one.grades_since > 1)} in the log of grades")
    if (newest.fingerprint if newest else None) != one.model:
        found.append("another model")
    if configuration_hash(study) != one.configuration:
        found.append("another configuration")
    if study.catalog.fingerprint() != one.catalog:
        found.append("another catalog")
    return found


_WANTED = "expected a private Ed25519 key in PEM without a password; make one with: openssl genpkey -algorithm ed25519"
