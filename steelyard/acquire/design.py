"""What the asked pairs leave open, whatever was answered: the covariance of an experimental design.

The model's own covariance misleads a choice in two ways. Where the model is already sure of an answer its curvature σ̇
is near 0, so the pair seems to have taught nothing and its direction is asked about again and again; and the prior that
the evidence prefers is so tight that answers seem to settle little, and the picks of a round repeat each other. A
design knows neither: under a wide prior every asked pair counts as one full answer,

    Σ⁻¹ = I / s + Σ_asked ¼ z zᵀ,     z = h_i − h_j.

Where it is known what the answers about a pair were worth (`Heard`), it counts as so many.

The model still says which answers are open (σ̇ of candidates and targets). On real data this is worth more than any other
choice that was tried; docs/acquire.md has the figures.
"""

from __future__ import annotations

import numpy as np

from steelyard.acquire.candidates import Candidates
from steelyard.acquire.heard import Heard
from steelyard.arrays import Floats
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

__all__ = ["design_covariance"]


_SPREAD = 8.0  # prior variance of the difference of two typical images, in squared logits
_FULL = 0.25  # σ̇ of an open answer
_MANY = 4096  # of more asked pairs a sample stands for all; it only sets the proportions of the information matrix


def design_covariance(
    posterior: Posterior, candidates: Candidates, taken: PairSet, heard: Heard | None = None
) -> Floats:
    """Covariance of the weights after the asked pairs, under a wide prior.

    Args:
        posterior: whose features the pairs are measured in.
        candidates: the pool, for what a typical difference is.
        taken: the asked pairs.
        heard: what was said about them is worth; None counts each as one answer.

    Returns:
        Shape (D, D).
    """
    pool = candidates.features_P_D
    width = pool.shape[1]
    typical = 2.0 * float(np.sum(np.var(pool, axis=0)))
    precision = np.eye(width) * (typical / _SPREAD if typical > 0 else 1.0)
    if len(taken):
        asked = taken.to_array() if len(taken) <= _MANY else taken.sample()
        z = posterior.features_N_D[asked[:, 0]] - posterior.features_N_D[asked[:, 1]]
        counted = z if heard is None else z * heard.worth_of(asked, taken)[:, None]
        precision += (_FULL * len(taken) / len(asked)) * np.asarray(counted.T @ z, dtype=np.float64)
    covariance = np.linalg.inv(precision)
    return np.asarray((covariance + covariance.T) / 2.0)
