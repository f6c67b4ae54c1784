"""What labels cost: 1 s a comparison, 20 s a grade, or what was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.errors import ExperimentError

__all__ = ["Cost", "cost", "cost_of_pairs", "measured_seconds"]

PAIR_SECONDS = 1.0
GRADE_SECONDS = 20.0


@dataclass(frozen=True)
class Cost:
    """Labels and the time they take.

    Attributes:
        relative: comparisons.
        absolute: grades.
        seconds: of work.
    """

    relative: int
    absolute: int
    seconds: float


def cost(
    relative: int, absolute: int, *, pair_seconds: float = PAIR_SECONDS, grade_seconds: float = GRADE_SECONDS
) -> Cost:
    """Seconds for so many comparisons and grades.

    >>> cost(4106, 2475).seconds  # the paper's proposed method
    53606.0

    Raises:
        ExperimentError: a negative count or time.
    """
    if min(relative, absolute, pair_seconds, grade_seconds) < 0:
        raise ExperimentError(
            f"labels and seconds are 0 or more, not {relative}, {absolute}, {pair_seconds:g} s and {grade_seconds:g} s"
        )
    return Cost(relative, absolute, relative * pair_seconds + absolute * grade_seconds)


def cost_of_pairs(
    pairs: ArrayLike, *, pair_seconds: float = PAIR_SECONDS, grade_seconds: float = GRADE_SECONDS
) -> Cost:
    """Cost of labelled pairs when every distinct image in them is graded as well (the paper's multi-task labels).

    Args:
        pairs: shape (n, 2).
        pair_seconds: a comparison.
        grade_seconds: a grade.
    """
    rows = np.asarray(pairs).reshape(-1, 2)
    return cost(len(rows), len(np.unique(rows)), pair_seconds=pair_seconds, grade_seconds=grade_seconds)


def measured_seconds(seconds: ArrayLike) -> float:
    """A typical measured answer time: the median, because people take breaks; NaN without measurements.

    Args:
        seconds: time of each answer, shape (n,).
    """
    times = np.asarray(seconds, dtype=np.float64)
    times = times[np.isfinite(times) & (times > 0)]
    return float(np.median(times)) if len(times) else float("nan")
