"""Is one method better than another, or was it luck?

McNemar's test with Holm's correction is the paper's. It is made for each deal of the images into folds, whose test parts do not
overlap, and several deals are brought together by a rule that holds for dependent tests. It still treats pairs as independent that
share images, so its p-values are optimistic; the interval over splits, with folds nested in deals, is the one to trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.errors import ExperimentError

__all__ = [
    "Interval",
    "McNemar",
    "against",
    "crossing",
    "crossing_interval",
    "holm",
    "mcnemar",
    "of_several_deals",
    "over_splits",
]


@dataclass(frozen=True)
class McNemar:
    """McNemar's test of two methods on the same pairs.

    Attributes:
        only_first: pairs that only the first ordered rightly.
        only_second: pairs that only the second ordered rightly.
        p_value: exact (binomial) below 25 discordant pairs, else χ² with continuity correction.
    """

    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class Interval:
    """A difference with its interval.

    Attributes:
        difference: mean of first − second.
        low: lower end.
        high: upper end.
        cells: how many paired values it rests on.
    """

    difference: float
    low: float
    high: float
    cells: int


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """McNemar's test on paired outcomes.

    Args:
        first: whether the first method was right, shape (n,): 1 or 0; a half (tied scores) counts as wrong.
        second: the same of the second method on the same pairs.

    Raises:
        ExperimentError: shapes differ.
    """
    from scipy.special import bdtr, erfc

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ExperimentError(
            f"McNemar's test needs outcomes on the same pairs, not shapes {a.shape} and {b.shape}"
        )
    right_a, right_b = a > 0.5, b > 0.5
    only_a, only_b = int((right_a & ~right_b).sum()), int((~right_a & right_b).sum())
    discordant = only_a + only_b
    if discordant == 0:
        return McNemar(0, 0, 1.0)
    if discordant < 25:  # both tails of the binomial with a chance of one half, which are equally heavy
        p_value = min(1.0, 2 * float(bdtr(min(only_a, only_b), discordant, 0.5)))
    else:
        chi_square = (abs(only_a - only_b) - 1) ** 2 / discordant
        p_value = float(erfc(np.sqrt(chi_square / 2)))  # its upper tail with one degree of freedom
    return McNemar(only_a, only_b, p_value)


def holm(p_values: ArrayLike, *, level: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Holm's step-down correction.

    Returns:
        Corrected p-values and whether each is at most `level`, both of shape (m,).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    # The smallest counts m times, the next m − 1 times, …, and none less than the one before.
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return corrected, corrected <= level


def against(
    proposed: str,
    outcomes: Mapping[str, ArrayLike],
    *,
    deals: ArrayLike | None = None,
    level: float = 0.05,
) -> dict[str, tuple[float, bool]]:
    """The proposed method against each other one by McNemar's test, Holm-corrected over the comparisons.

    Args:
        proposed: the method compared with all others.
        outcomes: of each method on the same pairs, shape (n,).
        deals: which deal of the images each pair was tested in, shape (n,); each is tested by itself (`of_several_deals`).
        level: of significance.

    Returns:
        For each other method the corrected p-value and whether it differs significantly.

    Raises:
        ExperimentError: the proposed method has no outcomes.
    """
    if proposed not in outcomes:
        raise ExperimentError(f"no outcomes of {proposed!r} to compare with; there are {', '.join(outcomes)}")
    mine = np.asarray(outcomes[proposed], dtype=np.float64)
    deal = np.zeros(len(mine)) if deals is None else np.asarray(deals)
    others = [name for name in outcomes if name != proposed]
    p_values = []
    for name in others:
        right = np.asarray(outcomes[name], dtype=np.float64)
        p_values.append(
            of_several_deals([mcnemar(mine[deal == d], right[deal == d]).p_value for d in np.unique(deal)])
        )
    corrected, rejected = holm(p_values, level=level)
    return {name: (float(p), bool(r)) for name, p, r in zip(others, corrected, rejected, strict=True)}


def over_splits(
    first: ArrayLike, second: ArrayLike, *, test_to_train: float, level: float = 0.95
) -> Interval:
    """Mean paired difference over the cells of a repeated cross-validation, with Nadeau and Bengio's corrected t interval.

    Cells (fold × deal) are not independent: training sets overlap, and every deal tests the same images again. As if they were, an
    interval is two to three times too narrow. With s² the variance of the J paired differences it is

        mean ± t(J − 1) · √((1/J + n_test/n_train) s²),

    which does not go to 0 with more and more deals of the same images. Values are paired by cell.

    Args:
        first: one value a cell, shape (J,).
        second: the same cells of the other method.
        test_to_train: images of the test part for each of the training part.
        level: of the interval.

    Returns:
        The interval; of a single cell it is everything.

    Raises:
        ExperimentError: shapes differ or there are no cells.
    """
    from scipy.special import stdtrit

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ExperimentError(
            f"a paired interval needs the same cells of both methods, not shapes {a.shape} and {b.shape}"
        )
    change = a - b
    mean, cells = float(change.mean()), len(change)
    if cells == 1:
        return Interval(mean, -np.inf, np.inf, 1)
    error = np.sqrt((1.0 / cells + test_to_train) * change.var(ddof=1))
    half = float(stdtrit(cells - 1, (1.0 + level) / 2.0) * error)
    return Interval(mean, mean - half, mean + half, cells)


def of_several_deals(p_values: ArrayLike) -> float:
    """One p-value from those of several deals of the same images: twice their median, at most 1.

    It holds however the deals depend on each other (Rüger); with one deal it is that deal's own.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not p.size:
        return 1.0
    return float(p[0]) if len(p) == 1 else min(1.0, 2.0 * float(np.median(p)))


def crossing(ratio: ArrayLike, rise: ArrayLike) -> float:
    """Where a rising curve first reaches 0, between its points by a straight line; NaN where it never does.

    The curve is made to rise first (isotonic regression), so that one lucky round is not taken for the goal.

    Args:
        ratio: shares of labels, ascending, shape (K,).
        rise: accuracy less the goal, shape (K,).
    """
    from scipy.optimize import isotonic_regression

    x, y = np.asarray(ratio, dtype=np.float64), isotonic_regression(np.asarray(rise, dtype=np.float64)).x
    there = np.flatnonzero(y >= 0)
    if not len(there):
        return float("nan")
    k = int(there[0])
    if k == 0 or y[k] == y[k - 1]:
        return float(x[k])
    return float(x[k - 1] - y[k - 1] * (x[k] - x[k - 1]) / (y[k] - y[k - 1]))


def crossing_interval(
    ratio: ArrayLike, rises: ArrayLike, *, test_to_train: float, rng: np.random.Generator, level: float = 0.95
) -> tuple[float, float]:
    """Between which shares of labels the mean of some cells' curves reaches 0; NaN for an end that is beyond the last.

    Whole cells are drawn again, so that rounds of a cell go together, and the mean's deviations are widened to those of
    `over_splits`.

    Args:
        ratio: shares of labels, ascending, shape (K,).
        rises: accuracy less the goal, shape (J, K).
        test_to_train: images of the test part for each of the training part.
        rng: source of randomness.
        level: of the interval.
    """
    values = np.asarray(rises, dtype=np.float64)
    cells, mean = len(values), values.mean(axis=0)
    wide = np.sqrt(1.0 + cells * test_to_train)
    drawn = rng.integers(cells, size=(1000, cells))
    found = [crossing(ratio, mean + wide * (values[some].mean(axis=0) - mean)) for some in drawn]
    ends = np.quantile(
        np.nan_to_num(found, nan=np.inf), [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf"
    )
    low, high = np.where(np.isfinite(ends), ends, np.nan).tolist()
    return low, high
