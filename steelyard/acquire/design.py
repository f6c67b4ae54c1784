"""What the asked pairs leave open, whatever was answered: the covariance of an experimental design.

The model's own covariance misleads a choice in two ways. Where the model is already sure of an answer its curvature σ̇
is near 0, so the pair seems to have taught nothing and its direction is asked about again and again; and the prior that
the evidence prefers is so tight that answers seem to settle little, and the picks of a round repeat each other. A
design knows neither: under a wide prior every asked pair counts as one full answer,

    Σ⁻¹ = I / s + Σ_asked ¼ z zᵀ,     z = h_i − h_j.

The model still says which answers are open (σ̇ of candidates and targets). On real data this is worth more than any other
choice that was tried; docs/acquire.md has the figures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.candidates import Candidates
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

__all__ = ["design_covariance"]

Floats = NDArray[np.float64]

_SPREAD = 8.0  # prior variance of the difference of two typical images, in squared logits
_FULL = 0.25  # σ̇ of an open answer
_MOST = 4096  # of more asked pairs so many stand for all


def design_covariance(posterior: Posterior, candidates: Candidates, taken: PairSet) -> Floats:
    """Covariance of the weights after the asked pairs, under a wide prior.

    Args:
        posterior: whose features the pairs are measured in.
        candidates: the pool, for what a typical difference is.
        taken: the asked pairs.

    Returns:
        Shape (D, D).
    """
    pool = candidates.features_P_D
    width = pool.shape[1]
    typical = 2.0 * float(np.sum(np.var(pool, axis=0)))
    precision = np.eye(width) * (typical / _SPREAD if typical > 0 else 1.0)
    if len(taken):
        asked = some_pairs(taken, _MOST)
        first = np.asarray(posterior.features_N_D[asked[:, 0]], dtype=np.float64)
        z = first - posterior.features_N_D[asked[:, 1]]
        precision += (_FULL * len(taken) / len(asked)) * (z.T @ z)
    covariance = np.linalg.inv(precision)
    return np.asarray((covariance + covariance.T) / 2.0)


def some_pairs(taken: PairSet, most: int) -> NDArray[np.int64]:
    """All pairs of a set, or `most` that are picked by their own numbers: the same for the same set, in linear time."""
    if len(taken) <= most:
        return taken.to_array()
    keys = np.fromiter(taken._keys, dtype=np.int64, count=len(taken))
    scattered = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # wraps around: Fibonacci hashing
    keys = np.sort(keys[np.argpartition(scattered, most)[:most]])
    return np.stack([keys // taken.size, keys % taken.size], axis=1)
