"""Is a stated probability right, and does uncertainty know where the errors are?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import ExperimentError

__all__ = ["Calibration", "Quantile", "calibration", "error_by_variance", "proportions", "uncertainty_auroc"]


@dataclass(frozen=True)
class Calibration:
    """How stated pair probabilities compare with what happened.

    Attributes:
        stated: mean stated probability of each non-empty bin, shape (B,).
        observed: share that came true, shape (B,).
        count: weight of each bin, shape (B,).
        ece: expected calibration error, the count-weighted mean of |stated − observed|.
        brier: mean squared error of the probabilities.
    """

    stated: NDArray[np.float64]
    observed: NDArray[np.float64]
    count: NDArray[np.float64]
    ece: float
    brier: float


@dataclass(frozen=True)
class Quantile:
    """One slice of the pairs, from the most certain to the least."""

    variance: float
    accuracy: float
    count: int


def calibration(probability: ArrayLike, outcome: ArrayLike, *, bins: int = 10) -> Calibration:
    """Reliability curve, ECE and Brier score of P(i ≻ j).

    A pair has no first image by nature, so each is turned to the side that is stated as likelier; bins run from ½ to 1.

    Args:
        probability: stated P(i more severe than j), shape (n,).
        outcome: 1 where it was, 0 where not, ½ for a tie, shape (n,).
        bins: equal-width bins between ½ and 1.

    Raises:
        ExperimentError: shapes differ, nothing given, or a probability outside 0 … 1.
    """
    p, y = np.asarray(probability, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
    if p.shape != y.shape or not p.size:
        raise ExperimentError(f"{p.shape} probabilities cannot be compared with {y.shape} outcomes")
    if not ((p >= 0) & (p <= 1)).all():  # NaN fails too
        raise ExperimentError(f"a probability lies between 0 and 1, not {p[~((p >= 0) & (p <= 1))][0]}")
    turned = p < 0.5
    p, y = np.where(turned, 1 - p, p), np.where(turned, 1 - y, y)
    which = np.minimum(((p - 0.5) * 2 * bins).astype(np.int64), bins - 1)
    count = np.bincount(which, minlength=bins).astype(np.float64)
    used = count > 0
    stated = np.bincount(which, weights=p, minlength=bins)[used] / count[used]
    observed = np.bincount(which, weights=y, minlength=bins)[used] / count[used]
    ece = float((count[used] / count.sum() * np.abs(stated - observed)).sum())
    return Calibration(stated, observed, count[used], ece, float(((p - y) ** 2).mean()))


def uncertainty_auroc(uncertainty: ArrayLike, wrong: ArrayLike) -> float:
    """How well uncertainty tells wrong from right: the chance that a wrong one is the more uncertain of the two; ½ is blind.

    Args:
        uncertainty: anything that grows with doubt, shape (n,).
        wrong: whether the prediction was wrong, shape (n,).

    Returns:
        NaN when all are right or all are wrong.
    """
    from scipy.stats import rankdata

    doubt, bad = np.asarray(uncertainty, dtype=np.float64), np.asarray(wrong, dtype=bool)
    many = int(bad.sum())
    if many in (0, len(bad)):
        return float("nan")
    ranks = rankdata(doubt)
    return float((ranks[bad].sum() - many * (many + 1) / 2) / (many * (len(bad) - many)))


def error_by_variance(variance: ArrayLike, right: ArrayLike, *, slices: int = 5) -> list[Quantile]:
    """Accuracy in equally large slices of growing variance.

    Args:
        variance: of each prediction, shape (n,).
        right: 1, ½ or 0, shape (n,).
        slices: how many.
    """
    v, y = np.asarray(variance, dtype=np.float64), np.asarray(right, dtype=np.float64)
    order = np.argsort(v, kind="stable")
    return [
        Quantile(float(v[rows].mean()), float(y[rows].mean()), len(rows))
        for rows in np.array_split(order, slices)
        if len(rows)
    ]


def proportions(grades: ArrayLike, count: int) -> NDArray[np.float64]:
    """Share of each grade 0 … G−1 among images (what was asked, say), shape (G,); zeros when there are none."""
    codes = np.asarray(grades, dtype=np.int64)
    codes = codes[codes >= 0]
    shares = np.bincount(codes, minlength=count).astype(np.float64)
    return np.asarray(shares / max(len(codes), 1), dtype=np.float64)
