"""Passwords: which are refused, how they are kept, and that checking them does not stop the server."""

from __future__ import annotations

import base64
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from steelyard.web.problems import Problem

__all__ = ["Passwords"]

AT_ONCE = 2  # each hash takes 64 MB and a core
WAITING = 16  # requests that may wait for a hash; each holds one of the server's threads
STRONG_ENOUGH = 3  # zxcvbn's scale of 0 to 4: more than 10⁸ guesses


class Passwords:
    """Argon2, a few at a time."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._nobody = _nobodys(self._hasher)
        self._hashing = threading.Semaphore(AT_ONCE)
        self._room = threading.Semaphore(AT_ONCE + WAITING)

    def refuse_weak(self, password: str, words: Sequence[str] = ()) -> None:
        """Refuse a password that a list of common ones, a keyboard or the person's name leads to.

        Args:
            password: the new one.
            words: what an attacker would try first: the person's name, the study's.

        Raises:
            Problem: 422, with what is wrong and what to do.
        """
        from zxcvbn import zxcvbn  # its lists are loaded when somebody sets a password, not before

        # It looks at 72 characters at most; as many random ones are enough for anybody.
        found = zxcvbn(password[:72], user_inputs=[word for word in words if word])
        if found["score"] < STRONG_ENOUGH:
            why = str(found["feedback"]["warning"]).rstrip(".")
            raise Problem(
                422,
                f"This password is too easy to guess{f' ({why[0].lower()}{why[1:]})' if why else ''}. "
                "Four or five unrelated words work well and are easy to remember.",
                code="password",
            )

    def hash(self, password: str) -> str:
        """What is kept of a password."""
        with self._turn():
            return self._hasher.hash(password)

    def verify(self, known: str | None, password: str) -> bool:
        """Whether a password is the right one; without a known one it is not, and takes as long to say so."""
        with self._turn():
            try:
                return self._hasher.verify(known or self._nobody, password) and known is not None
            except (VerificationError, InvalidHashError):
                return False

    def outdated(self, known: str) -> bool:
        """Whether a hash was made with weaker settings than today's."""
        return self._hasher.check_needs_rehash(known)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        # Whoever floods the door with passwords must not take all threads from those who are inside.
        if not self._room.acquire(blocking=False):
            raise Problem(
                503, "Many people are signing in; try again in a moment.", headers={"Retry-After": "1"}
            )
        try:
            with self._hashing:
                yield
        finally:
            self._room.release()


def _nobodys(hasher: PasswordHasher) -> str:
    """A hash that no password has, with today's settings: checking one against it takes as long as against any other.

    Random bytes do: to hash a random password for it, as one might, would keep every start of a server waiting.
    """
    salt, digest = (
        base64.b64encode(secrets.token_bytes(n)).decode().rstrip("=")
        for n in (hasher.salt_len, hasher.hash_len)
    )
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2{hasher.type.name.lower()}$v=19${costs}${salt}${digest}"
