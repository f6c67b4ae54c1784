"""Records of answers."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.pairs import Answer

__all__ = ["AnnotatorCount", "AnswerArrays", "Comparison", "NewComparison", "Recorded", "Source", "new_id"]

Source = Literal["page", "api", "import", "virtual", "import:page", "import:api", "import:virtual"]
"""How an answer came into this study; `import:page` came by a file, in which it was an answer of the page."""


def new_id() -> str:
    """A fresh id for an answer, made by whoever gives it, so that sending it twice is sending it once."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class NewComparison:
    """One answer of one annotator about one pair as it was shown.

    Attributes:
        pair: the store's number of the pair.
        annotator: who answered.
        answer: what was said.
        left: id of the image on the left.
        right: id of the image on the right.
        shown_at: when the pair appeared, or None where it is not known.
        answered_at: when the answer was given; None takes the time of arrival.
        id: made by the client; the same id sent twice is one answer.
        supersedes: id of the earlier answer of the same annotator about the same pair that this one replaces.
        note: reason of a "cannot judge", or any remark.
        source: how the answer came.
        exclude: ids of images of this pair that are taken out of the study with it, for the reason in `note`.
        question: key of the question that was asked, empty for the main one.
    """

    pair: int
    annotator: str
    answer: Answer
    left: str
    right: str
    shown_at: float | None = None
    answered_at: float | None = None
    id: str = field(default_factory=new_id)
    supersedes: str | None = None
    note: str = ""
    source: Source = "page"
    exclude: tuple[str, ...] = ()
    question: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of the log. `answer` is None in the row that an undo writes; `hash` is its place in the chain (chain.py).

    `role` is `decision` where a lead has decided about the pair (decisions.py).
    """

    seq: int
    id: str
    pair: int
    annotator: str
    answer: Answer | None
    left: str
    right: str
    shown_at: float | None
    answered_at: float
    received_at: float
    supersedes: str | None
    superseded_by: str | None
    note: str
    source: Source
    hash: str
    question: str = ""
    role: Literal["answer", "decision"] = "answer"

    @property
    def withdrawn(self) -> bool:
        """Whether the row is an undo."""
        return self.answer is None

    @property
    def effective(self) -> bool:
        """Whether the answer counts: it is no undo, and nothing replaced or undid it."""
        return self.answer is not None and self.superseded_by is None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an answer that was sent: its number in the log, and whether this call wrote it."""

    seq: int
    id: str
    created: bool


@dataclass(frozen=True, slots=True)
class AnswerArrays:
    """The answers that count, as columns in the order of the log; all (n,) but `pairs`, which is (n, 2).

    Attributes:
        seq: number in the log.
        pair: the store's number of the pair.
        pairs: catalog rows (first, second), first < second.
        labels: P1 for (first, second): 1, 0.5, 0; NaN where nobody could judge.
        annotator: codes into `annotators`.
        annotators: names.
        reserved: whether the pair is held back to estimate accuracy.
        repeat: 0, or which repetition of the question it was.
        left_first: whether `first` was shown on the left.
        shown_at: NaN where it is not known.
        answered_at: when.
        last_seq: the log was read up to here; pass it as `after` next time.
        superseded: numbers ≤ `after` that no longer count because of what came since.
        last_decision: number of the newest row about a decision, made or taken back; 0 where there is none or where
            decisions were not asked for.
    """

    seq: NDArray[np.int64]
    pair: NDArray[np.int64]
    pairs: NDArray[np.int64]
    labels: NDArray[np.float64]
    annotator: NDArray[np.int64]
    annotators: tuple[str, ...]
    reserved: NDArray[np.bool_]
    repeat: NDArray[np.int64]
    left_first: NDArray[np.bool_]
    shown_at: NDArray[np.float64]
    answered_at: NDArray[np.float64]
    last_seq: int
    superseded: NDArray[np.int64]
    last_decision: int = 0

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class AnnotatorCount:
    """How much one annotator did, counting the answers to the main question that count.

    Attributes:
        annotator: who.
        answers: all of them, `equal` and `cannot_judge` included.
        equal: ties.
        cannot_judge: answers that say so.
        undone: rows of the log that were undone or replaced.
        first_at: time of the first answer, or None.
        last_at: time of the last answer, or None.
        seconds: median seconds from shown to answered over the latest answers, or None where it is not known.
    """

    annotator: str
    answers: int
    equal: int
    cannot_judge: int
    undone: int
    first_at: float | None
    last_at: float | None
    seconds: float | None
