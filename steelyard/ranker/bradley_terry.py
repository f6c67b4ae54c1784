"""The likeliest scores of a set of answers: Bradley and Terry's model, Rao and Kupper's where a tie is an outcome.

    maximise Σ log P(answer | θ_i − θ_j) − Σ θ_i² / 2σ²

Without σ an image that won every comparison would have no finite score, and images that no chain of answers joins no common
scale. The likelihood is that of likelihood.py, concave, so Newton's method with conjugate gradients finds the one maximum.
"""

from __future__ import annotations

import numpy as np

from steelyard.arrays import Floats, Pairs
from steelyard.ranker.likelihood import curvature, log_likelihood, slope
from steelyard.ranker.sparse_gaussian import SparseGaussian

__all__ = ["likeliest_scores", "summed"]

_STEPS = 100


def likeliest_scores(
    pairs: Pairs, answers: Floats, images: int, *, prior: float, tau: float = 0.0, start: Floats | None = None
) -> Floats:
    """The posterior mode, shape (N,).

    Args:
        pairs: rows (i, j) of each answer, shape (n, 2).
        answers: P1 for (i, j), shape (n,).
        images: N.
        prior: σ; a large one gives the plain maximum of the likelihood where there is one.
        tau: half-width of a tie; 0 is Bradley and Terry, where a tie is half a win.
        start: where to begin, shape (N,).
    """
    i, j = pairs.T
    theta = np.zeros(images) if start is None else start
    value = _value(theta, pairs, answers, prior, tau)
    for _ in range(_STEPS):
        at = theta[i] - theta[j]
        pull = slope(at, answers, tau)
        gradient = summed(pairs, pull, images) - theta / prior**2
        step = SparseGaussian(images, pairs, curvature(at, answers, tau), prior**-2).solve(gradient)
        if float(gradient @ step) < 1e-12:  # twice what is left to gain
            break
        size = 1.0
        while (moved := _value(theta + size * step, pairs, answers, prior, tau)) < value and size > 1e-6:
            size /= 2  # a whole step may go too far where answers leave little curvature
        theta, value = theta + size * step, moved
    return np.asarray(theta, dtype=np.float64)


def summed(pairs: Pairs, pull: Floats, images: int) -> Floats:
    """What comparisons pull at their first images, less what they pull at their second ones, shape (N,)."""
    i, j = pairs.T
    ends = np.bincount(i, pull, minlength=images) - np.bincount(j, pull, minlength=images)
    return np.asarray(ends, dtype=np.float64)


def _value(theta: Floats, pairs: Pairs, answers: Floats, prior: float, tau: float) -> float:
    said = log_likelihood(theta[pairs[:, 0]] - theta[pairs[:, 1]], answers, tau)
    return float(said.sum() - 0.5 * np.square(theta / prior).sum())
