"""Do annotators agree with each other and with themselves, and does the side matter?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.errors import ExperimentError
from steelyard.evaluate.shares import share_interval

__all__ = ["SideBias", "cohen_kappa", "fleiss_kappa", "raw_agreement", "side_bias"]


@dataclass(frozen=True)
class SideBias:
    """How often the left image was called the more severe.

    Attributes:
        left: answers `left`.
        right: answers `right`.
        share: left / (left + right); NaN without such answers.
        p_value: two-sided binomial test against one half.
        low: lower end of the 95% interval (Wilson) of the share.
        high: upper end.
    """

    left: int
    right: int
    share: float
    p_value: float
    low: float
    high: float


def raw_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Share of items on which two answers are the same; NaN without items.

    Args:
        first: answers, shape (n,), any labels.
        second: answers about the same items, shape (n,).
    """
    a, b = _two(first, second)
    return float((a == b).mean()) if len(a) else float("nan")


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Cohen's κ of two answers about the same items: (p_o − p_e) / (1 − p_e).

    Returns:
        NaN without items or when chance alone explains full agreement (everybody always says the same).
    """
    a, b = _two(first, second)
    if not len(a):
        return float("nan")
    labels = np.unique(np.concatenate([a, b]))
    expected = float(sum((a == label).mean() * (b == label).mean() for label in labels))
    return float("nan") if expected >= 1 else float(((a == b).mean() - expected) / (1 - expected))


def fleiss_kappa(counts: ArrayLike) -> float:
    """Fleiss' κ of many raters, also when items were rated by different numbers of people (two or more).

    Args:
        counts: how many raters gave item n the answer c, shape (n, C).

    Raises:
        ExperimentError: an item has fewer than two answers.
    """
    table = np.asarray(counts, dtype=np.float64)
    raters = table.sum(axis=1)
    if table.ndim != 2 or (raters < 2).any():
        raise ExperimentError(
            "Fleiss' kappa needs a table (items, answers) with at least two answers per item; drop the others"
        )
    if not len(table):
        return float("nan")
    observed = ((table * (table - 1)).sum(axis=1) / (raters * (raters - 1))).mean()
    shares = table.sum(axis=0) / table.sum()
    expected = float((shares**2).sum())
    return float("nan") if expected >= 1 else float((observed - expected) / (1 - expected))


def side_bias(left: int, right: int) -> SideBias:
    """Whether one side is chosen more often than chance; sides are shown at random, so half is expected."""
    from scipy.stats import binomtest

    total = left + right
    if total == 0:
        return SideBias(0, 0, *[float("nan")] * 4)
    p_value = float(binomtest(left, total, 0.5).pvalue)
    return SideBias(left, right, left / total, p_value, *share_interval(left / total, total))


def _two(first: ArrayLike, second: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(first), np.asarray(second)
    if a.shape != b.shape or a.ndim != 1:
        raise ExperimentError(
            f"two lists of answers about the same items are needed, not shapes {a.shape} and {b.shape}"
        )
    return a, b
