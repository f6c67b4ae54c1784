"""Accuracy of relative labels: the share of test pairs that f orders as the grades do (PAPER.md, "Evaluation protocol").

*Overall*: images are drawn so that each grade is equally frequent and paired as in step 1. *Neighboring*: pairs of adjacent
grades separately, and the mean over them. Pairs of equal grade are left out. Two exactly equal scores count one half: that is
what guessing would earn, whereas counting them as wrong (or right) would reward breaking ties by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import ExperimentError
from steelyard.pairs import PairSet, form_pairs

__all__ = [
    "Accuracy",
    "TestPairs",
    "accuracy",
    "correct",
    "draw_test_pairs",
    "neighbor_names",
    "neighboring_pairs",
    "overall_pairs",
    "rank_correlation",
]


@dataclass(frozen=True)
class TestPairs:
    """What the accuracy of a fold and seed is measured on; the same for every method.

    Attributes:
        overall: pairs of different grade from grade-balanced draws, shape (n, 2). A pair may occur several times: small test
            sets are drawn from again and again, and dropping repeats would tip the balance towards the frequent grades.
        neighboring: for each adjacent pair of grades (g, g+1) in the order of the grades, pairs of shape (n, 2), each once;
            empty where a grade is missing.
    """

    __test__ = False  # not a test class, whatever its name looks like

    overall: NDArray[np.int64]
    neighboring: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of relative labels.

    Attributes:
        overall: on grade-balanced pairs; NaN without any.
        neighboring: mean over the adjacent pairs of grades that could be measured; NaN where none could.
        by_neighbor: one per pair of adjacent grades; NaN where a grade is missing from the test set.
    """

    overall: float
    neighboring: float
    by_neighbor: tuple[float, ...]


def overall_pairs(grades: ArrayLike, *, at_least: int = 1000, rng: np.random.Generator) -> NDArray[np.int64]:
    """Grade-balanced test pairs.

    One draw takes as many images of each grade as the rarest has, and pairs them as in step 1; pairs of equal grade are left out.
    Draws are repeated until there are enough pairs, so that a rare grade of five images does not leave five pairs.

    Args:
        grades: grade code of each image, shape (N,); −1 is never drawn.
        at_least: draw until there are this many pairs.
        rng: source of randomness.

    Returns:
        Pairs of rows, shape (n, 2), n ≥ `at_least`; empty when fewer than two grades are present.
    """
    codes = np.asarray(grades)
    present = [np.flatnonzero(codes == grade) for grade in np.unique(codes[codes >= 0])]
    if len(present) < 2:
        return np.empty((0, 2), dtype=np.int64)
    each = min(map(len, present))
    nothing = PairSet(len(codes))
    found: list[NDArray[np.int64]] = []
    count = 0
    while count < at_least:
        drawn = np.concatenate([rng.choice(rows, size=each, replace=False) for rows in present])
        pairs = form_pairs(drawn, taken=nothing, rng=rng)
        pairs = pairs[codes[pairs[:, 0]] != codes[pairs[:, 1]]]
        found.append(pairs)
        count += len(pairs)
    return np.concatenate(found)


def neighboring_pairs(
    grades: ArrayLike, grade: int, *, at_most: int = 1000, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Test pairs of grades g and g+1: all of them, or `at_most` drawn without repeats.

    Returns:
        Pairs of rows, shape (n, 2); empty where either grade is missing.
    """
    codes = np.asarray(grades)
    low, high = np.flatnonzero(codes == grade), np.flatnonzero(codes == grade + 1)
    every = len(low) * len(high)
    index = np.arange(every) if every <= at_most else rng.choice(every, size=at_most, replace=False)
    pairs = (
        np.stack([low[index // max(len(high), 1)], high[index % max(len(high), 1)]], axis=1)
        if every
        else None
    )
    return np.empty((0, 2), dtype=np.int64) if pairs is None else pairs.astype(np.int64)


def draw_test_pairs(
    grades: ArrayLike, count: int, *, size: int = 1000, rng: np.random.Generator
) -> TestPairs:
    """Test pairs of both kinds.

    Args:
        grades: grade code of each test image, shape (N,).
        count: number of grades G, so that there are G−1 neighbours whether or not this test set has them.
        size: at least this many overall pairs, at most this many of each neighbour.
        rng: source of randomness.
    """
    overall = overall_pairs(grades, at_least=size, rng=rng)
    return TestPairs(
        overall, tuple(neighboring_pairs(grades, g, at_most=size, rng=rng) for g in range(count - 1))
    )


def correct(scores: ArrayLike, grades: ArrayLike, pairs: ArrayLike) -> NDArray[np.float64]:
    """1 where f orders a pair as its grades do, 0 where it does not, ½ where the scores are exactly equal.

    Args:
        scores: f of each image, shape (N,).
        grades: grade code of each image, shape (N,).
        pairs: pairs of rows of different grade, shape (n, 2).

    Raises:
        ExperimentError: a score is not finite, or a pair has equal grades.
    """
    f, codes, rows = (
        np.asarray(scores, dtype=np.float64),
        np.asarray(grades),
        np.asarray(pairs).reshape(-1, 2),
    )
    if not np.isfinite(f).all():
        raise ExperimentError(
            f"the score of row {int(np.flatnonzero(~np.isfinite(f))[0])} is not finite; accuracy would be meaningless"
        )
    order = np.sign(codes[rows[:, 0]] - codes[rows[:, 1]])
    if (order == 0).any():
        raise ExperimentError(
            f"pair {rows[order == 0][0].tolist()} has equal grades; leave such pairs out of the test"
        )
    return np.asarray((np.sign(f[rows[:, 0]] - f[rows[:, 1]]) * order + 1) / 2, dtype=np.float64)


def accuracy(scores: ArrayLike, grades: ArrayLike, test: TestPairs) -> Accuracy:
    """Overall and neighbouring accuracy of the scores of a test set.

    Args:
        scores: f of each test image, shape (N,).
        grades: grade code of each test image, shape (N,).
        test: pairs of rows of that test set.

    Raises:
        ExperimentError: a score is not finite.
    """

    def share(pairs: NDArray[np.int64]) -> float:
        return float(correct(scores, grades, pairs).mean()) if len(pairs) else float("nan")

    each = tuple(share(pairs) for pairs in test.neighboring)
    measured = [value for value in each if not np.isnan(value)]
    return Accuracy(share(test.overall), float(np.mean(measured)) if measured else float("nan"), each)


def rank_correlation(scores: ArrayLike, grades: ArrayLike) -> tuple[float, float]:
    """Kendall's τ-b and Spearman's ρ of scores and grades; NaN when either is constant."""
    from scipy.stats import kendalltau, spearmanr

    f, codes = np.asarray(scores, dtype=np.float64), np.asarray(grades)
    if len(np.unique(f)) < 2 or len(np.unique(codes)) < 2:
        return float("nan"), float("nan")
    return float(kendalltau(f, codes).statistic), float(spearmanr(f, codes).statistic)


def neighbor_names(count: int) -> Sequence[str]:
    """Column names `0-1`, `1-2`, … of the adjacent pairs of G grades, by their codes."""
    return [f"{g}-{g + 1}" for g in range(count - 1)]
