"""Records of pairs whose answer is known, and of what people said about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.pairs import Answer
from steelyard.store.records.pairs import Expected, KnownKind

__all__ = ["KnownAnswer", "KnownAnswers", "KnownPair", "NewKnown"]


@dataclass(frozen=True, slots=True)
class NewKnown:
    """A pair whose answer is known.

    Attributes:
        worse: catalog row of the image that the answer names; of either where `equal`.
        other: catalog row of the other one.
        kind: `warm-up` (with feedback) or `gold` (hidden).
        equal: the known answer is that neither is.
    """

    worse: int
    other: int
    kind: KnownKind
    equal: bool = False


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A pair whose answer is known, as the store has it; `expected` is about `first`, which has the smaller row."""

    id: int
    first: str
    second: str
    first_row: int
    second_row: int
    kind: KnownKind
    expected: Expected
    retired: bool


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """One answer about such a pair as it was shown: what was said, and what is known."""

    pair: KnownPair
    said: Answer
    expected: Answer


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """The answers that count about pairs whose answer is known, in the order of the log; all (n,).

    Attributes:
        seq: number in the log.
        pair: the store's number of the pair.
        labels: P1 for (first, second), as it was said: 1, 0.5, 0; NaN where nobody could judge.
        expected: P1 as it is known.
        warmup: whether it was for warming up, with feedback; else it was hidden among the others.
        annotator: codes into `annotators`.
        annotators: names.
        shown_at: NaN where it is not known.
        answered_at: when.
    """

    seq: NDArray[np.int64]
    pair: NDArray[np.int64]
    labels: NDArray[np.float64]
    expected: NDArray[np.float64]
    warmup: NDArray[np.bool_]
    annotator: NDArray[np.int64]
    annotators: tuple[str, ...]
    shown_at: NDArray[np.float64]
    answered_at: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seq)
