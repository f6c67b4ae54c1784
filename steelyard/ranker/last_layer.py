"""What answers leave open of a last layer's weights: Laplace's covariance at their mode. numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.likelihood import check_answers, curvature

__all__ = ["mode_covariance"]


def mode_covariance(
    inputs_N_D: NDArray[np.floating],
    weights_D: ArrayLike,
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    precision: ArrayLike,
    tau: float,
    sample_weight: ArrayLike | None,
) -> Floats:
    """(diag(λ) + Σ_pairs h z zᵀ)⁻¹, shape (D, D); arguments and errors as for `Posterior.laplace`."""
    d = inputs_N_D.shape[1]
    prior = np.broadcast_to(np.asarray(precision, dtype=np.float64), (d,))
    if not (np.isfinite(prior).all() and (prior > 0).all()):
        raise RankerError(f"the prior precision is above 0, not {precision!r}")
    information = np.diag(prior)
    given = check_answers(answers, ties=tau > 0)
    rows = check_pairs(pairs, len(inputs_N_D), error=RankerError, same=True)
    if len(rows) != len(given):
        raise RankerError(f"{len(rows)} pairs have {len(given)} answers; give one for each")
    if len(rows):
        left = np.asarray(inputs_N_D[rows[:, 0]], dtype=np.float64)
        z = left - inputs_N_D[rows[:, 1]]
        h = curvature(z @ np.asarray(weights_D, dtype=np.float64).reshape(-1), given, tau)
        if sample_weight is not None:
            h = h * np.asarray(sample_weight, dtype=np.float64)
        root = z * np.sqrt(h)[:, None]
        information = information + root.T @ root
    covariance = np.linalg.inv(information)
    return np.asarray((covariance + covariance.T) / 2, dtype=np.float64)
