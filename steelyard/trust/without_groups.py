"""Scores of images as if nobody had compared or graded any image of their group: what the model would say of a new patient.

A score of an image that was compared, or whose grade was taught, is better than the score of an image that comes tomorrow.
Whatever is measured on known images, to be said about new ones, is measured on these scores instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.judges import Said
from steelyard.ranker.likelihood import check_answers
from steelyard.ranker.posterior import Posterior

__all__ = ["scores_without_groups"]


def scores_without_groups(
    posterior: Posterior,
    rows: Rows,
    groups: NDArray[np.int64],
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    taught: Floats | None = None,
    said: Said | None = None,
) -> tuple[Floats, Floats]:
    """Means and deviations of scores, each without the answers and grades that name an image of the same group.

    Removing them moves the mode by one Newton step: with X the rows (differences of features of answers, features of taught
    grades), g = ℓ′ and h = −ℓ″ of what is removed, an answer times what it counts, Σ₋ = (Σ⁻¹ − Xᵀ diag(h) X)⁻¹ and w₋ = w − Σ₋Xᵀg.

    Args:
        posterior: of kind `laplace`, fitted on exactly these answers and grades.
        rows: images whose scores are wanted, shape (n,).
        groups: a number for each image of the posterior, shape (N,).
        pairs: answered pairs, shape (m, 2).
        answers: P1, shape (m,).
        taught: grades that the head itself has learnt (P6), NaN where none, shape (N,).
        said: who gave the answers, where the posterior knows its judges.

    Returns:
        Two arrays of shape (n,).

    Raises:
        RankerError: another kind of posterior, or shapes that do not fit.
    """
    if posterior.kind != "laplace":
        raise RankerError(f"answers can be taken back from a laplace posterior, not from {posterior.kind}")
    index = check_pairs(pairs, len(posterior), error=RankerError)
    given = check_answers(answers, ties=posterior.tau > 0)
    if len(index) != len(given) or np.shape(groups) != (len(posterior),):
        raise RankerError(
            f"give one answer for each of {len(index)} pairs (not {len(given)}) and one group for each of "
            f"{len(posterior)} images (not {np.shape(groups)})"
        )
    if posterior.effects is not None:
        return _with_effects(posterior, np.asarray(rows), groups, index, given, said)
    weights, covariance = posterior.weights_D, posterior.covariance_D_D
    z = _features(posterior, index[:, 0]) - _features(posterior, index[:, 1])
    gap = z @ weights
    pull, bend = posterior.slopes(gap, given, said)
    design, first, second = z, groups[index[:, 0]], groups[index[:, 1]]
    own = _features(posterior, rows)
    graded = np.flatnonzero(np.isfinite(taught)) if taught is not None else np.zeros(0, dtype=np.int64)
    if taught is not None and len(graded):
        phi = _features(posterior, graded)
        error = taught[graded] - (phi @ weights + posterior.offset_N[graded])
        covariance = _with_bias(covariance, phi)
        design = np.vstack([np.pad(z, ((0, 0), (0, 1))), np.pad(phi, ((0, 0), (0, 1)), constant_values=1.0)])
        pull, bend = np.concatenate([pull, 2 * error]), np.concatenate([bend, np.full(len(graded), 2.0)])
        first, second = np.append(first, groups[graded]), np.append(second, groups[graded])
        own = np.pad(own, ((0, 0), (0, 1)), constant_values=1.0)
    mean, variance = posterior.mean[rows].copy(), posterior.variance[rows].copy()
    for group in np.unique(groups[rows]):
        about = np.flatnonzero((first == group) | (second == group))
        mine = np.flatnonzero(groups[rows] == group)
        if not len(about):
            continue
        gain = design[about] @ covariance
        inner = gain @ design[about].T
        # Σ₋ = Σ + ΣXᵀ (diag(1/h) − XΣXᵀ)⁻¹ XΣ (Woodbury); the floor is for answers that could not be surer.
        back = np.linalg.inv(np.diag(1.0 / np.maximum(bend[about], 1e-9)) - inner)
        reach = own[mine] @ gain.T
        mean[mine] -= reach @ (pull[about] + back @ (inner @ pull[about]))
        if len(graded):  # a posterior's variance is that of features·w, without the bias
            reach = own[mine, :-1] @ gain[:, :-1].T
        variance[mine] += np.einsum("km,mn,kn->k", reach, back, reach)
    return mean, np.sqrt(np.maximum(variance, 0.0))


def _with_effects(
    posterior: Posterior,
    rows: Rows,
    groups: NDArray[np.int64],
    pairs: Pairs,
    answers: Floats,
    said: Said | None,
) -> tuple[Floats, Floats]:
    """The same step in the space of scores: images have effects of their own, and heads with such learn no grades."""
    pull, bend = posterior.slopes(posterior.difference(pairs)[0], answers, said)
    mean, variance = posterior.mean[rows].copy(), posterior.variance[rows].copy()
    for group in np.unique(groups[rows]):
        about = np.flatnonzero((groups[pairs] == group).any(axis=1))
        mine = np.flatnonzero(groups[rows] == group)
        if not len(about):
            continue
        named, place = np.unique(np.concatenate([rows[mine], pairs[about].ravel()]), return_inverse=True)
        scores = posterior.covariance_of(named)
        first, second = place[len(mine) :].reshape(-1, 2).T
        apart = scores[first] - scores[second]  # covariances of the differences with the scores
        inner = apart[:, first] - apart[:, second]
        back = np.linalg.inv(np.diag(1.0 / np.maximum(bend[about], 1e-9)) - inner)
        reach = apart[:, place[: len(mine)]].T
        mean[mine] -= reach @ (pull[about] + back @ (inner @ pull[about]))
        variance[mine] += np.einsum("km,mn,kn->k", reach, back, reach)
    return mean, np.sqrt(np.maximum(variance, 0.0))


def _features(posterior: Posterior, rows: Rows) -> Floats:
    return np.asarray(posterior.features_N_D[rows], dtype=np.float64)


def _with_bias(covariance: Floats, phi: Floats) -> Floats:
    """Joint covariance of (w, b) from that of w alone: b's prior is flat, so the grades alone tie it to w."""
    count = 2.0 * len(phi)
    tied = covariance @ (2.0 * phi.sum(axis=0)) / count
    corner = 1.0 / count + float(2.0 * phi.sum(axis=0) @ tied) / count
    return np.block([[covariance, -tied[:, None]], [-tied[None, :], np.array([[corner]])]])
