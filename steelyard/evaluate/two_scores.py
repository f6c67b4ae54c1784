"""Two scores of the same images, one from the model and one from the answers alone: where do they differ beyond chance?

They are put on one scale: the model's scores times the factor by which its left-out predictions fit the answers best, moved so
that both have the same middle. An image differs where

1. the two scores are further apart than both uncertainties allow (95%), and
2. the answers about it contradict what the model, without each pair's own answers, expected of them. The chance of a sum of
   surprises as large is bounded by Chernoff's inequality – exact probabilities, no normal approximation: a single slip against
   odds of 100 : 1 is no evidence –, with room for the uncertainty of the image's own score; and of the images that are named at
   most one in ten is named by chance (Benjamini and Hochberg).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.evaluate.misfit import expectations

__all__ = ["TwoScores", "chance_of_surprise", "compare_scores", "named"]

BY_CHANCE = 0.1
_Z95 = 1.959963984540054
_LARGEST = 40.0  # of the exponent's parameter; the sum of surprises cannot ask for more


@dataclass(frozen=True)
class TwoScores:
    """The model's scores on the scale of the answers, and where they differ.

    Attributes:
        placed: the model's score in logits of the answers, shape (N,).
        deviation: its deviation, shape (N,).
        surprise: sum of how much more severe than expected the image came out, shape (N,).
        p_value: chance of a surprise as large, at most, shape (N,).
        differs: whether the two scores differ, shape (N,).
    """

    placed: Floats
    deviation: Floats
    surprise: Floats
    p_value: Floats
    differs: NDArray[np.bool_]


def compare_scores(
    alone: Floats,
    alone_deviation: Floats,
    model: Floats,
    model_deviation: Floats,
    *,
    scale: float,
    spread: float,
    probabilities: ArrayLike,
    answers: ArrayLike,
    pairs: ArrayLike,
) -> TwoScores:
    """Compare.

    Args:
        alone: scores from the answers alone, shape (N,).
        alone_deviation: of those.
        model: the model's scores; NaN where it has none.
        model_deviation: of those.
        scale: of the model's differences, by its left-out predictions.
        spread: of its deviations.
        probabilities: P(first), P(tie), P(second) of each answer by the model without the pair's answers, shape (n, 3).
        answers: P1, shape (n,).
        pairs: rows (i, j), shape (n, 2).
    """
    images = len(alone)
    asked = np.zeros(images, dtype=bool)
    asked[np.unique(np.asarray(pairs, dtype=np.int64))] = True
    known = asked & ~np.isnan(model)
    weight = 1.0 / (np.square(alone_deviation) + np.square(spread * model_deviation))
    middle = float(np.average((alone - scale * model)[known], weights=weight[known])) if known.any() else 0.0
    placed, deviation = middle + scale * model, spread * model_deviation
    surprise, p_value = chance_of_surprise(probabilities, answers, pairs, images, np.nan_to_num(deviation))
    apart = alone - placed
    far = np.abs(apart) > _Z95 * np.sqrt(np.square(alone_deviation) + np.square(deviation))
    found = known & far & (np.sign(apart) == np.sign(surprise)) & named(np.where(known, p_value, np.nan))
    return TwoScores(placed, deviation, surprise, p_value, found)


def chance_of_surprise(
    probabilities: ArrayLike, answers: ArrayLike, pairs: ArrayLike, images: int, deviation: Floats
) -> tuple[Floats, Floats]:
    """For each image the sum of (y − E) over its answers, and how likely one as large is, at most.

    With K(t) = Σ log E exp(t (y − E)) the chance of a sum of S or more is at most exp(−max_t (tS − K(t))). An error of the
    image's own score is in all its answers; where the Gaussian law has S² / 2V it has S² / 2(V + V²s²), so the exponent is
    divided by 1 + Vs².

    Args:
        probabilities: shape (n, 3); rows of NaN take no part.
        answers: P1, shape (n,).
        pairs: rows (i, j), shape (n, 2).
        images: N.
        deviation: s, of each image's score in logits, shape (N,).
    """
    index = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    p, y, at, expected, variance = expectations(probabilities, answers)
    image = np.concatenate([index[at, 0], index[at, 1]])
    sign = np.concatenate([np.ones(len(y)), -np.ones(len(y))])
    away = sign[:, None] * np.tile(np.array([1.0, 0.5, 0.0]) - expected[:, None], (2, 1))
    chance = np.tile(p, (2, 1))
    total = np.bincount(image, sign * np.tile(y - expected, 2), minlength=images)
    noise = np.bincount(image, np.tile(variance, 2), minlength=images)
    # K′ grows with t, so the best t is where K′(t) = S: halved until found, for all images at once.
    towards = np.where(total < 0, -1.0, 1.0)
    away *= towards[image][:, None]
    goal, low, high = np.abs(total), np.zeros(images), np.full(images, _LARGEST)
    for _ in range(30):
        t = (low + high) / 2
        mass = chance * np.exp(t[image][:, None] * away)
        slope = np.bincount(image, (mass * away).sum(axis=1) / mass.sum(axis=1), minlength=images)
        low, high = np.where(slope < goal, t, low), np.where(slope < goal, high, t)
    t = (low + high) / 2
    grown = np.bincount(
        image, np.log((chance * np.exp(t[image][:, None] * away)).sum(axis=1)), minlength=images
    )
    exponent = np.maximum(t * goal - grown, 0.0) / (1.0 + noise * np.square(deviation))
    return np.asarray(total, dtype=np.float64), np.minimum(2.0 * np.exp(-exponent), 1.0)


def named(p_value: Floats, by_chance: float = BY_CHANCE) -> NDArray[np.bool_]:
    """Benjamini and Hochberg: which of these to name so that at most this share of them is named by chance; NaN is none."""
    tested = np.flatnonzero(~np.isnan(p_value))
    order = tested[np.argsort(p_value[tested], kind="stable")]
    below = np.flatnonzero(p_value[order] <= by_chance * np.arange(1, len(order) + 1) / max(1, len(order)))
    found = np.zeros(len(p_value), dtype=bool)
    if len(below):
        found[order[: below[-1] + 1]] = True
    return found
