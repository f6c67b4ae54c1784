"""Records of grades."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steelyard.store.records.answers import Source, new_id

__all__ = ["Grade", "GradeArrays", "NewGrade"]


@dataclass(frozen=True, slots=True)
class NewGrade:
    """One absolute grade of one image by one annotator; fields as in `NewComparison`."""

    image: str
    annotator: str
    grade: int
    shown_at: float | None = None
    answered_at: float | None = None
    id: str = field(default_factory=new_id)
    supersedes: str | None = None
    note: str = ""
    source: Source = "page"


@dataclass(frozen=True, slots=True)
class Grade:
    """A row of the log of grades. `grade` is None in the row that an undo writes."""

    seq: int
    id: str
    image: str
    image_row: int
    annotator: str
    grade: int | None
    shown_at: float | None
    answered_at: float
    received_at: float
    supersedes: str | None
    superseded_by: str | None
    note: str
    source: Source
    hash: str

    @property
    def effective(self) -> bool:
        """Whether the grade counts: it is no undo, and nothing replaced or undid it."""
        return self.grade is not None and self.superseded_by is None


@dataclass(frozen=True, slots=True)
class GradeArrays:
    """The grades that count, as columns in the order of the log; all (n,)."""

    seq: NDArray[np.int64]
    row: NDArray[np.int64]
    grade: NDArray[np.int64]
    annotator: NDArray[np.int64]
    annotators: tuple[str, ...]
    answered_at: NDArray[np.float64]
    last_seq: int

    def __len__(self) -> int:
        return len(self.seq)
