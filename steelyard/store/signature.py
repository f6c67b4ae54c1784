"""Signatures: somebody vouches for a study as it is – who, when, with which meaning, and for exactly what.

A signature is an entry of the audit log of a fixed form, so it is append-only and part of that log's hash chain like
every other. It binds the heads of the three logs at that moment (and so everything up to there), the newest model, the
configuration and the catalog. `Store.check` holds every signature against the chain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.chain import LOGS, Head, read_heads
from steelyard.store.database import Database
from steelyard.store.errors import StoreError
from steelyard.store.evidence import append_audit, head, parsed
from steelyard.store.records import AuditEntry
from steelyard.store.schema import audit, models

__all__ = ["SIGNED", "Signature", "Signing", "read_signatures", "sign", "signed_heads", "unfounded"]

SIGNED = "signed"
"""The action of an audit entry that is a signature."""


@dataclass(frozen=True, slots=True)
class Signing:
    """What is to be signed; see `Signature`."""

    signer: str
    meaning: str
    via: str
    configuration: str
    catalog: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Who vouched for what.

    Attributes:
        seq: its number in the audit log.
        at: when.
        signer: who.
        meaning: what the signature says, in the signer's words ("reviewed and approved").
        via: how the signer was known: `password`, `local` (nobody signs in there) or `command line`.
        heads: where the three logs ended; everything up to there is what was signed.
        model: fingerprint of the newest model, None where there was none.
        configuration: SHA-256 of `study.toml`.
        catalog: fingerprint of the catalog.
        answers_since: rows of the log of answers that came after it.
        grades_since: rows of the log of grades that came after it.
        key: the public key whose owner also signed `statement`, as base64; None for none.
        proof: that Ed25519 signature, as base64.
    """

    seq: int
    at: float
    signer: str
    meaning: str
    via: str
    heads: tuple[Head, ...]
    model: str | None
    configuration: str
    catalog: str
    answers_since: int = 0
    grades_since: int = 0
    key: str | None = None
    proof: str | None = None

    @property
    def statement(self) -> bytes:
        """What a key signs: canonical JSON of everything above but the number."""
        return statement(self.at, self.signer, _detail(self))


def statement(at: float, signer: str, detail: Mapping[str, Any]) -> bytes:
    """The bytes that a key signs."""
    bound = {name: detail[name] for name in _BOUND}
    return json.dumps({"at": at, "signer": signer, **bound}, sort_keys=True, separators=(",", ":")).encode(
        "ascii"
    )


def sign(database: Database, signing: Signing, key: Any, now: float | None) -> Signature:
    """See `Audit.sign`."""
    fields.name(signing.signer, "a signer's name")
    if not fields.text(signing.meaning, "the meaning of a signature", most=500).strip():
        raise StoreError('the meaning of a signature says what it stands for ("reviewed and approved")')
    with database.writing() as connection:
        at = database.clock(connection, now)
        database.lock_log(connection)  # from here on no log grows until the signature is written
        newest = sa.select(models.c.fingerprint).order_by(models.c.id.desc()).limit(1)
        detail = {
            "meaning": signing.meaning,
            "via": signing.via,
            "heads": [str(head(connection, log)) for log in LOGS],
            "model": connection.execute(newest).scalar(),
            "configuration": signing.configuration,
            "catalog": signing.catalog,
        }
        if key is not None:
            detail |= {"key": key.public, "proof": key.sign(statement(at, signing.signer, detail))}
        seq = append_audit(database, connection, at, signing.signer, SIGNED, detail)
    return _signature(seq, at, signing.signer, detail)


def read_signatures(connection: Connection) -> list[Signature]:
    """Every signature, oldest first, and how much came after each."""
    now = {log: head(connection, log).seq for log in LOGS}
    return [
        replace(
            one,
            answers_since=now["comparisons"] - one.heads[0].seq,
            grades_since=now["grades"] - one.heads[1].seq,
        )
        for one in _read(connection)
    ]


def signed_heads(connection: Connection) -> list[Head]:
    """Every head that somebody signed, and who."""
    return [
        replace(bound, noted=f"signed by {one.signer!r}, audit row {one.seq}")
        for one in _read(connection)
        for bound in one.heads
    ]


def unfounded(connection: Connection) -> list[str]:
    """What is wrong with signatures, in sentences: one names a model that is gone, or is no signature at all."""
    found = []
    known = set(connection.execute(sa.select(models.c.fingerprint)).scalars())
    for entry in _entries(connection):
        try:
            one = _signature(entry.seq, entry.at, entry.actor, entry.detail)
        except (KeyError, TypeError, ValueError, StoreError):
            found.append(f"audit row {entry.seq} says that {entry.actor!r} signed, but is no signature")
            continue
        if one.model is not None and one.model not in known:
            found.append(
                f"the model {one.model} that {one.signer!r} signed (audit row {one.seq}) is not announced any more"
            )
    return found


_BOUND = ("meaning", "via", "heads", "model", "configuration", "catalog")


def _detail(one: Signature) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _BOUND} | {"heads": [str(bound) for bound in one.heads]}


def _signature(seq: int, at: float, signer: str, detail: Mapping[str, Any]) -> Signature:
    heads = read_heads(" ".join(detail["heads"]))
    if tuple(bound.log for bound in heads) != LOGS:
        raise StoreError("a signature binds the heads of all three logs")
    texts = {name: str(detail[name]) for name in ("meaning", "via", "configuration", "catalog")}
    return Signature(
        seq=seq,
        at=at,
        signer=signer,
        meaning=texts["meaning"],
        via=texts["via"],
        heads=tuple(heads),
        model=detail["model"],
        configuration=texts["configuration"],
        catalog=texts["catalog"],
        key=detail.get("key"),
        proof=detail.get("proof"),
    )


def _read(connection: Connection) -> list[Signature]:
    found = []
    for entry in _entries(connection):
        try:
            found.append(_signature(entry.seq, entry.at, entry.actor, entry.detail))
        except (KeyError, TypeError, ValueError, StoreError):
            continue  # `unfounded` says so
    return found


def _entries(connection: Connection) -> Sequence[AuditEntry]:
    columns = (audit.c.seq, audit.c.at, audit.c.actor, audit.c.action, audit.c.hash)
    query = sa.select(*columns, sa.cast(audit.c.detail, sa.Text).label("detail"))
    rows = connection.execute(query.where(audit.c.action == SIGNED).order_by(audit.c.seq)).mappings()
    return [AuditEntry(**{**row, "detail": parsed(row["detail"])}) for row in rows]
