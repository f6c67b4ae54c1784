"""Records of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.pairs import Pair

__all__ = ["Expected", "KnownKind", "Leased", "NewPair", "PairColumns", "StoredPair"]

Expected = Literal["first", "second", "equal"]
"""A known answer: the image with the smaller catalog row is the one, the other, or neither."""

KnownKind = Literal["warm-up", "gold"]
"""What a pair with a known answer is for; its strategy's name."""


@dataclass(frozen=True, slots=True)
class NewPair:
    """A pair to ask about. The order of the two rows does not matter.

    Attributes:
        first: catalog row of one image.
        second: catalog row of the other.
        round: the turn of the loop that chose it.
        strategy: what chose it.
        reason: why, in one sentence.
        score: how much it was worth to the strategy, or None.
        reserved: drawn at random and held back to estimate accuracy.
        raters: how many different people are asked.
        repeat: 0 for the first time; 1, 2 … for asking about the same two images again (agreement with oneself).
        expected: the known answer of a pair that warms people up or checks them; such a pair is never open (`known.py`).
        asked_of: whose further opinion is wanted about a pair that is there and has its answers: it is opened for one person more,
            and waits for this one while there is anything else to hand out.
    """

    first: int
    second: int
    round: int = 0
    strategy: str = ""
    reason: str = ""
    score: float | None = None
    reserved: bool = False
    raters: int = 1
    repeat: int = 0
    expected: Expected | None = None
    asked_of: str | None = None


@dataclass(frozen=True, slots=True)
class StoredPair:
    """A pair in the store; `first` has the smaller catalog row. `open` means that answers are still wanted."""

    id: int
    first: str
    second: str
    first_row: int
    second_row: int
    round: int
    strategy: str
    reason: str
    score: float | None
    reserved: bool
    raters: int
    repeat: int
    open: bool
    created: float
    expected: Expected | None = None
    retired: float | None = None


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Pairs as columns, in the order of their ids: `rows` is (n, 2) int64, the others (n,).

    `known` marks those whose answer is known: they are no questions of the study.
    """

    id: NDArray[np.int64]
    rows: NDArray[np.int64]
    round: NDArray[np.int64]
    open: NDArray[np.bool_]
    reserved: NDArray[np.bool_]
    known: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True)
class Leased:
    """A pair handed to one annotator, with its sides, until `expires`."""

    pair: int
    annotator: str
    left: str
    right: str
    left_row: int
    right_row: int
    round: int
    strategy: str
    reason: str
    reserved: bool
    repeat: int
    expires: float

    def shown(self) -> Pair:
        """The pair as it is shown."""
        return Pair(self.left, self.right, self.round, self.strategy, self.reason, self.pair)
