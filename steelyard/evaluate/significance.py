"""Is one method better than another, or was it luck?

McNemar's test with Holm's correction is the paper's. It treats pooled test pairs as independent, which they are not (pairs
share images, folds share training images), so its p-values are optimistic; the paired bootstrap over whole cells is the
interval to trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.errors import ExperimentError

__all__ = ["Interval", "McNemar", "against", "bootstrap_difference", "holm", "mcnemar"]


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
    """A difference with its bootstrap interval.

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
    proposed: str, outcomes: Mapping[str, ArrayLike], *, level: float = 0.05
) -> dict[str, tuple[McNemar, float, bool]]:
    """The proposed method against each other one, Holm-corrected over the comparisons.

    Args:
        proposed: the method compared with all others.
        outcomes: of each method on the same pooled pairs, shape (n,).
        level: of significance.

    Returns:
        For each other method its test, the corrected p-value and whether it differs significantly.

    Raises:
        ExperimentError: the proposed method has no outcomes.
    """
    if proposed not in outcomes:
        raise ExperimentError(f"no outcomes of {proposed!r} to compare with; there are {', '.join(outcomes)}")
    tests = {name: mcnemar(outcomes[proposed], right) for name, right in outcomes.items() if name != proposed}
    corrected, rejected = holm([test.p_value for test in tests.values()], level=level)
    return {
        name: (test, float(p), bool(different))
        for (name, test), p, different in zip(tests.items(), corrected, rejected, strict=True)
    }


def bootstrap_difference(
    first: ArrayLike, second: ArrayLike, *, rng: np.random.Generator, level: float = 0.95, draws: int = 10_000
) -> Interval:
    """Percentile bootstrap of the mean paired difference, resampling whole cells (fold × seed).

    A cell is the unit because everything inside it – training images, test images, test pairs – is shared by the two methods;
    values are paired by cell. Folds of one data set overlap in their training images, so this, too, speaks about this data set.

    Args:
        first: one value a cell, shape (cells,).
        second: the same cells of the other method.
        rng: source of randomness.
        level: of the interval.
        draws: bootstrap resamples.

    Raises:
        ExperimentError: shapes differ or there are no cells.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ExperimentError(
            f"a paired bootstrap needs the same cells of both methods, not shapes {a.shape} and {b.shape}"
        )
    change = a - b
    means = change[rng.integers(len(change), size=(draws, len(change)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(change.mean()), float(low), float(high), len(change))
