"""How several scales of the same images go together: correlations that noise has not watered down, and a composite score.

Scores are estimates, and the correlation of two estimates is nearer to 0 than that of what they estimate: by √(R₁R₂), where
R = Var(mean) / (Var(mean) + mean error variance) is the reliability of a scale (Spearman 1904; R of posterior means). So the
correlation of the means is divided by it. Its interval is a parametric bootstrap: joint draws from the two posteriors, which
are taken as independent given the answers, scatter around *their* mean correlation with √(R₁R₂) times the scatter of the
corrected correlation; docs/statistics.md derives it and says how often the interval holds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats

__all__ = ["ScaleCorrelation", "composite", "correlate_scales", "reliability"]

LEAST = 0.2
"""A scale that is less reliable than this says nothing about correlations yet."""


@dataclass(frozen=True)
class ScaleCorrelation:
    """How two scales go together over the same images. NaN where a scale is not reliable enough to say.

    Attributes:
        pearson: correlation of the scores, corrected for their uncertainty.
        pearson_low: lower end of its interval.
        pearson_high: upper end.
        spearman: the same of the ranks.
        spearman_low: lower end of its interval.
        spearman_high: upper end.
        observed: Pearson's correlation of the scores as they are, uncorrected.
        level: of the intervals.
        images: how many.
    """

    pearson: float
    pearson_low: float
    pearson_high: float
    spearman: float
    spearman_low: float
    spearman_high: float
    observed: float
    level: float
    images: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, None where nothing can be said."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def reliability(mean_N: ArrayLike, draws_B_N: ArrayLike) -> float:
    """The share of a scale's variance over images that is not error, 0 … 1.

    Args:
        mean_N: posterior means, shape (N,).
        draws_B_N: joint draws from the posterior, shape (B, N).
    """
    mean = np.asarray(mean_N, dtype=np.float64)
    error = np.asarray(draws_B_N, dtype=np.float64) - mean
    # What moves all images together moves no image past another.
    noise, signal = float(error.var(axis=1).mean()), float(mean.var())
    return signal / (signal + noise) if signal + noise > 0 else 0.0


def correlate_scales(
    means: tuple[ArrayLike, ArrayLike], draws: tuple[ArrayLike, ArrayLike], *, level: float = 0.95
) -> ScaleCorrelation:
    """How two scales go together.

    Args:
        means: posterior means of both, shape (N,) each.
        draws: joint draws from both posteriors, shape (B, N) each.
        level: of the intervals.
    """
    one, two = (np.asarray(mean, dtype=np.float64) for mean in means)
    first, second = (np.asarray(drawn, dtype=np.float64) for drawn in draws)
    reliable = reliability(one, first), reliability(two, second)
    observed = float(_pearson(one[None], two[None])[0])
    nothing = (float("nan"),) * 3
    pearson = spearman = nothing
    if min(reliable) >= LEAST and len(one) > 2 and np.isfinite(observed):
        loss = float(np.sqrt(reliable[0] * reliable[1]))
        pearson = _corrected(observed, _pearson(first, second), loss, level)
        ranks = float(_pearson(_ranked(one[None]), _ranked(two[None]))[0])
        spearman = _corrected(ranks, _pearson(_ranked(first), _ranked(second)), loss, level)
    return ScaleCorrelation(*pearson, *spearman, observed, level, len(one))


def _corrected(of_means: float, of_draws: Floats, loss: float, level: float) -> tuple[float, float, float]:
    scatter = (of_draws - of_draws.mean()) / loss
    low, high = np.quantile(scatter, [(1 - level) / 2, (1 + level) / 2])
    at = of_means / loss
    value, least, most = np.clip([at, at + low, at + high], -1.0, 1.0).tolist()
    return value, least, most


def composite(scores_Q_N: ArrayLike, stds_Q_N: ArrayLike, weights_Q: ArrayLike) -> tuple[Floats, Floats]:
    """The weighted mean of several standardised scales, and its uncertainty if the scales' errors are independent.

    Args:
        scores_Q_N: standardised scores, shape (Q, N).
        stds_Q_N: their uncertainties, shape (Q, N).
        weights_Q: what each scale counts, shape (Q,); one below 0 turns its scale round.
    """
    weights = np.asarray(weights_Q, dtype=np.float64)
    weights = weights / np.abs(weights).sum()
    stds = np.asarray(stds_Q_N, dtype=np.float64)
    return weights @ np.asarray(scores_Q_N, dtype=np.float64), np.sqrt(np.square(weights) @ np.square(stds))


def _pearson(one_B_N: Floats, two_B_N: Floats) -> Floats:
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (one_B_N, two_B_N))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(1) / np.sqrt(np.square(a).sum(1) * np.square(b).sum(1)))


def _ranked(scores_B_N: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(scores_B_N, axis=1), dtype=np.float64)
