"""How fast people answer, and whether their quick answers are worse than their slow ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats

__all__ = ["QuickAndSlow", "quick_and_slow", "quicker_half", "seconds_taken"]

_Z95 = 1.959963984540054


def seconds_taken(shown_at: ArrayLike, answered_at: ArrayLike) -> Floats:
    """Seconds from shown to answered, NaN where that is not known or clocks disagree, shape (n,)."""
    taken = np.asarray(answered_at, dtype=np.float64) - np.asarray(shown_at, dtype=np.float64)
    return np.asarray(np.where(taken >= 0, taken, np.nan), dtype=np.float64)


def quicker_half(seconds: Floats, annotator: ArrayLike) -> NDArray[np.bool_]:
    """Whether an answer is among the quicker half of its own annotator's; False where its time is not known.

    Args:
        seconds: of each answer, NaN where not known, shape (n,).
        annotator: codes, shape (n,).
    """
    who, quick = np.asarray(annotator), np.zeros(len(seconds), dtype=bool)
    for code in np.unique(who):
        own = (who == code) & ~np.isnan(seconds)
        if own.any():
            quick[own] = seconds[own] < np.median(seconds[own])
    return quick


class QuickAndSlow(NamedTuple):
    """Quick answers beside slow ones, each held against what was expected of its own pair.

    Attributes:
        quick: share of quick answers in line with what was expected.
        quick_expected: what that share should be: easy pairs are answered quickly.
        slow: share of the slow ones.
        slow_expected: what that should be.
        gap: (quick − quick_expected) − (slow − slow_expected); below 0 quick answers are worse than their pairs explain.
        low: lower end of its 95% interval.
        high: upper end.
        answers: how many of the fewer kind there are.
    """

    quick: float
    quick_expected: float
    slow: float
    slow_expected: float
    gap: float
    low: float
    high: float
    answers: int

    @property
    def deviation(self) -> float:
        """Standard error of the gap."""
        return (self.high - self.low) / (2 * _Z95)


def quick_and_slow(quick: NDArray[np.bool_], in_line: ArrayLike, expected: ArrayLike) -> QuickAndSlow | None:
    """Compare; None with fewer than ten answers of either kind.

    Args:
        quick: whether each answer was quick, shape (n,).
        in_line: 1 where it is as expected, 0 where not, shape (n,).
        expected: the probability of that, shape (n,).
    """
    right, chance = np.asarray(in_line, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    sizes = int(quick.sum()), int((~quick).sum())
    if min(sizes) < 10:
        return None
    left = right - chance
    gap = float(left[quick].mean() - left[~quick].mean())
    half = _Z95 * float(np.sqrt(left[quick].var(ddof=1) / sizes[0] + left[~quick].var(ddof=1) / sizes[1]))
    return QuickAndSlow(
        float(right[quick].mean()), float(chance[quick].mean()), float(right[~quick].mean()),
        float(chance[~quick].mean()), gap, gap - half, gap + half, min(sizes),
    )  # fmt: skip
