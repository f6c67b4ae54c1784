"""Predictions that know nothing of the answers they are held against, and the two put side by side.

Made when a model is fitted and kept with it: which answers it has learnt from cannot be told later, when some of them have
been withdrawn or changed and others have come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.pairs import PairSet, random_pairs, unique_pairs
from steelyard.ranker.judges import Said
from steelyard.ranker.left_out import left_out
from steelyard.ranker.posterior import Posterior
from steelyard.trust.accuracy import Judged

__all__ = ["POOL_PAIRS", "Predictions", "judge", "predict"]

POOL_PAIRS = 4_000  # random pairs that stand for all pairs of the pool: ± half a point at worst, and shared by all models


@dataclass(frozen=True)
class Predictions:
    """What a model says about pairs.

    Attributes:
        pairs: different pairs that it has learnt from, rows (i, j) with i < j, in ascending order, shape (m, 2).
        margin: f(x_i) − f(x_j) in deviations as if the pair had not been answered, shape (m,); NaN where the ranker cannot tell.
        pool: random pairs of the pool, whether learnt from or not, shape (k, 2).
        pool_margin: the same of those, as the model has it, shape (k,).
    """

    pairs: Pairs
    margin: Floats
    pool: Pairs
    pool_margin: Floats

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """As named arrays that safetensors can hold."""
        return {
            "pairs": self.pairs,
            "margin": self.margin,
            "pool": self.pool,
            "pool_margin": self.pool_margin,
        }

    def without(self, rows: Rows) -> Predictions:
        """For a pool that has lost these images since."""
        if not len(rows):
            return self
        kept = ~np.isin(self.pool, rows).any(axis=1)
        return Predictions(self.pairs, self.margin, self.pool[kept], self.pool_margin[kept])


def predict(
    posterior: Posterior,
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    learns_reserved: bool,
    pool: Rows,
    rng: np.random.Generator,
    said: Said | None = None,
) -> Predictions:
    """Predictions of a model that was just fitted.

    Args:
        posterior: of the model.
        pairs: rows (i, j) of the answers that it learnt from, shape (n, 2).
        answers: P1, shape (n,).
        learns_reserved: whether the ranker can tell what it would say without a pair's answers (the convex one).
        pool: rows of the images that the study is about.
        rng: draws the random pairs of the pool.
        said: who gave the answers.
    """
    index, given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2), np.asarray(answers, dtype=np.float64)
    if learns_reserved and posterior.kind == "laplace":
        found = left_out(posterior, index, given, said)
        learnt, margin = found.pairs, _margin(found.mean, found.variance)
    else:
        learnt = unique_pairs(np.sort(index, axis=1)).pairs
        margin = np.full(len(learnt), np.nan)
    drawn = random_pairs(POOL_PAIRS, len(posterior), taken=PairSet(len(posterior)), rng=rng, rows=pool)
    return Predictions(learnt, margin, drawn, _margin(*posterior.difference(drawn)))


def judge(
    predictions: Predictions, posterior: Posterior, pairs: Pairs, answers: Floats, random: NDArray[np.bool_]
) -> Judged:
    """Hold answers against predictions.

    Pairs that the model has not learnt from are predicted plainly; those of which it cannot tell what it would say without
    their answers are left out, as are answers of people who could not judge.

    Args:
        predictions: of the model.
        posterior: of the same model.
        pairs: rows (i, j) with i < j, one for each answer that counts today, shape (n, 2).
        answers: P1, NaN where nobody could judge, shape (n,).
        random: whether each answer is about a pair that was drawn at random.
    """
    clear = ~np.isnan(answers)
    unique, _, place, count = unique_pairs(pairs[clear])
    given = answers[clear]
    margin = _known_margins(predictions, unique, len(posterior))
    unseen = np.isinf(margin)
    margin[unseen] = _margin(*posterior.difference(unique[unseen]))
    agree = np.where(margin[place] == 0, 0.5, (margin[place] > 0) == (given == 1)) * (given != 0.5)
    told = ~np.isnan(margin)
    drawn = np.bincount(place, random[clear], minlength=len(unique)) > 0
    return Judged(
        np.abs(margin)[told],
        (np.bincount(place, given != 0.5, minlength=len(unique)) / count)[told],
        (np.bincount(place, agree, minlength=len(unique)) / count)[told],
        drawn[told],
    )


def _known_margins(predictions: Predictions, pairs: Pairs, images: int) -> Floats:
    """Left-out margins of pairs; infinite where the model has not learnt from a pair."""
    margin = np.full(len(pairs), np.inf)
    if not len(predictions.pairs):
        return margin
    known, asked = (p[:, 0] * images + p[:, 1] for p in (predictions.pairs, pairs))
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    found = known[at] == asked
    margin[found] = predictions.margin[at[found]]
    return margin


def _margin(mean: Floats, variance: Floats) -> Floats:
    # Where nothing is open (two equal images, no dropout) the difference is as certain as a number can be.
    return np.asarray(mean / np.sqrt(np.maximum(variance, 1e-12)), dtype=np.float64)
