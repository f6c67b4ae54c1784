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

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.candidates import Candidates
from steelyard.acquire.random_pairs import unsorted_pairs
from steelyard.arrays import Floats
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

__all__ = ["design_covariance"]


_SPREAD = 8.0  # prior variance of the difference of two typical images, in squared logits
_FULL = 0.25  # σ̇ of an open answer
_MANY, _SAMPLE = 4096, 2048  # of more than so many asked pairs a sample stands for all

# Reading a large set costs more than choosing one pair, so a sample serves until the set has grown by 2%. It only sets the
# proportions of the information matrix; its size is always taken from the set as it is now.
_GROWTH = 1.02
_samples: WeakKeyDictionary[PairSet, tuple[int, NDArray[np.int64]]] = WeakKeyDictionary()


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
        asked = taken.to_array() if len(taken) <= _MANY else _sample_of(taken)
        z = posterior.features_N_D[asked[:, 0]] - posterior.features_N_D[asked[:, 1]]
        precision += (_FULL * len(taken) / len(asked)) * np.asarray(z.T @ z, dtype=np.float64)
    covariance = np.linalg.inv(precision)
    return np.asarray((covariance + covariance.T) / 2.0)


def _sample_of(taken: PairSet) -> NDArray[np.int64]:
    """A sample of a large set, taken again once the set has grown by more than 2%."""
    known = _samples.get(taken)
    if known is not None and len(taken) <= _GROWTH * known[0]:
        return known[1]
    sample = some_pairs(taken, _SAMPLE)
    _samples[taken] = (len(taken), sample)
    return sample


def some_pairs(taken: PairSet, count: int) -> NDArray[np.int64]:
    """Pairs of a set, picked by their own numbers: the same ones for the same set, in linear time. Shape (count, 2)."""
    pairs = unsorted_pairs(taken)
    keys = pairs[:, 0] * taken.size + pairs[:, 1]
    scattered = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # wraps around: Fibonacci hashing
    chosen = np.argpartition(scattered, count)[:count]
    return np.asarray(pairs[chosen[np.argsort(keys[chosen])]])
