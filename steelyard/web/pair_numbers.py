"""Numbers of pairs outside the server, where hidden pairs must not be told from others.

A pair's number in the store says when it was put up, and pairs with known answers were put up together, by a lead. In a study
that hides such pairs among the others, numbers over HTTP are those of the store, shuffled with a secret of the study. Once
begun, it stays so. What was handed out before under the store's own number is still taken under it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from steelyard.store.errors import NotHandedOutError, StoreError
from steelyard.study import Study

__all__ = ["PairNumbers"]

_BEGIN = 2**50  # above every number of a store, and whole in a browser's arithmetic
_HALF = 24  # bits
_SIZE = 1 << _HALF
_ROUNDS = 6
_NUMBER = re.compile(r"\b(pair|number) \d+")
_SINCE, _KEY = "pair numbers since", "pair key"


class PairNumbers:
    """Translates between numbers of the store and those that go over HTTP.

    Args:
        study: whose store keeps the secret, made when it is first needed.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._secret: bytes | None = None
        self._since: float | None = None

    def public(self, id: int) -> int:
        """The number of a pair as it is told."""
        return _BEGIN + self._shuffled(id, range(_ROUNDS)) if self.begun() else id

    def stored(self, number: int, annotator: str) -> int:
        """The number in the store.

        Raises:
            NotHandedOutError: a number of the store for a pair that was not handed to this annotator under it.
        """
        if number >= _BEGIN:
            return self._shuffled((number - _BEGIN) % (_SIZE * _SIZE), reversed(range(_ROUNDS)))
        if self.begun():
            handed = self._study.store.known.handed_at(annotator, [number]).get(number)
            if handed is None or self._since is None or handed >= self._since:
                raise NotHandedOutError(
                    f"pair {number} was not handed to {annotator!r}; ask for pairs and answer those"
                )
        return number

    @contextmanager
    def unnamed(self) -> Iterator[None]:
        """What is refused inside is told without numbers of the store."""
        try:
            yield
        except StoreError as error:
            if error.public is not None and self.begun():
                error.public = _NUMBER.sub(r"\1 …", error.public)
            raise

    def begun(self) -> bool:
        """Whether numbers are shuffled; begins with it where pairs are hidden, so ask before the first is handed out."""
        if self._since is None:
            store, settings = self._study.store, self._study.store.settings
            since = settings.get(_SINCE)
            if since is None and self._study.config.people.gold_rate > 0:
                with (
                    store.database.reading() as connection
                ):  # by the clock that says when a pair is handed out
                    now = store.database.clock(connection, None)
                since = settings.keep(_SINCE, now)
            self._since = None if since is None else float(since)
        return self._since is not None

    def _shuffled(self, number: int, rounds: Iterable[int]) -> int:
        """A Feistel network: the same rounds backwards lead back, whatever a round computes."""
        left, right = divmod(number, _SIZE)
        for k in rounds:
            left, right = right, left ^ self._mixed(right, k)
        return right * _SIZE + left

    def _mixed(self, half: int, k: int) -> int:
        if self._secret is None:
            settings = self._study.store.settings
            self._secret = bytes.fromhex(settings.keep(_KEY, secrets.token_hex(32)))
        secret: bytes = self._secret
        mixed = hashlib.blake2b(half.to_bytes(4, "big") + bytes([k]), key=secret, digest_size=_HALF // 8)
        return int.from_bytes(mixed.digest(), "big")
