"""What a model says about a pair as if nobody had answered it: the honest prediction for pairs that it has learnt from.

All answers about a pair are left out together. Had one been left in – another rater's, or a repetition's – the model would be
asked what it has been told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Pairs
from steelyard.errors import PairError
from steelyard.pairs import check_pairs, unique_pairs
from steelyard.ranker.judges import Said
from steelyard.ranker.posterior import Posterior

__all__ = ["LeftOut", "forget", "left_out", "predicted", "without_own_answers"]


@dataclass(frozen=True)
class LeftOut:
    """Predictions for pairs, each without its own answers.

    Attributes:
        pairs: different pairs, rows (i, j) with i < j, shape (m, 2).
        mean: of f(x_i) − f(x_j), shape (m,).
        variance: of the same, shape (m,).
        answered: how many answers were left out of each, shape (m,).
        place: which of the m pairs each answer is about, shape (n,).
    """

    pairs: Pairs
    mean: Floats
    variance: Floats
    answered: NDArray[np.int64]
    place: NDArray[np.int64]


def left_out(posterior: Posterior, pairs: ArrayLike, answers: ArrayLike, said: Said | None = None) -> LeftOut:
    """Score differences of answered pairs as the Laplace fit would have had them without any answer about that pair.

    The answers about a pair all pull along its z. Removing them moves the mode by one Newton step: with v = zᵀΣz,
    G = Σℓ′ and H = −Σℓ″ over the pair's answers at the mode, each times what an answer counts, Δ₋ = Δ − G·v / (1 − H·v) and v₋ = v / (1 − H·v).

    Args:
        posterior: of kind `laplace`, fitted with exactly these answers about these pairs, and with others or none.
        pairs: rows (i, j) of each answer, shape (n, 2); in either order, as often as answered.
        answers: P1 for (i, j), shape (n,).
        said: who gave each answer, where the posterior knows its judges.

    Raises:
        PairError: the shapes do not fit.
    """
    index, given = check_pairs(pairs, len(posterior)), np.asarray(answers, dtype=np.float64).reshape(-1)
    if len(index) != len(given):
        raise PairError(f"{len(index)} pairs have {len(given)} answers; give one for each")
    turned = index[:, 0] > index[:, 1]
    index, given = np.sort(index, axis=1), np.where(turned, 1.0 - given, given)
    unique, _, place, count = unique_pairs(index)
    mean, variance = posterior.difference(unique)
    at = mean[place]
    shown = None if said is None else replace(said, left_first=said.left_first ^ turned)
    pulls, bends = posterior.slopes(at, given, shown)
    pull = np.bincount(place, pulls, minlength=len(unique))
    bend = np.bincount(place, bends, minlength=len(unique))
    # H·v is the leverage of the pair's answers, below 1; the guard is for rounding only.
    left = np.maximum(1.0 - bend * variance, 1e-6)
    return LeftOut(
        unique,
        np.asarray(mean - pull * variance / left, dtype=np.float64),
        np.asarray(variance / left, dtype=np.float64),
        count,
        place,
    )


def without_own_answers(posterior: Posterior, pairs: ArrayLike, answers: ArrayLike) -> Floats:
    """Left-out differences f(x_i) − f(x_j) of each answer's pair, in the order given, shape (n,)."""
    return predicted(posterior, pairs, answers)[0]


def predicted(
    posterior: Posterior, pairs: ArrayLike, answers: ArrayLike, said: Said | None = None
) -> tuple[Floats, Floats]:
    """The same with their variances, and with who gave the answers."""
    index = check_pairs(pairs, len(posterior))
    found = left_out(posterior, index, answers, said)
    sign = np.where(index[:, 0] > index[:, 1], -1.0, 1.0)
    return np.asarray(sign * found.mean[found.place]), np.asarray(found.variance[found.place])


def forget(posterior: Posterior, pairs: ArrayLike, answers: ArrayLike, said: Said | None = None) -> Posterior:
    """A Laplace posterior as if some of the answers it was fitted with had not been given, all scores at once.

    For each pair in turn the step of `left_out`, taken by the weights: with g = Σz, w₋ = w − G·g / (1 − H·v) and
    Σ₋ = Σ + H·g gᵀ / (1 − H·v). A step ends at a mode of what is left, so the next one starts from there.

    Args:
        posterior: of kind `laplace`, fitted with these answers and others or none.
        pairs: rows (i, j) of each answer to forget, shape (n, 2).
        answers: P1, shape (n,).
        said: who gave them, where the posterior knows its judges.
    """
    index, given = check_pairs(pairs, len(posterior)), np.asarray(answers, dtype=np.float64).reshape(-1)
    turned = index[:, 0] > index[:, 1]
    index, given = np.sort(index, axis=1), np.where(turned, 1.0 - given, given)
    shown = None if said is None else replace(said, left_first=said.left_first ^ turned)
    fitted, _ = posterior.difference(index)
    # As they bent the posterior when it was fitted: never more than all of it.
    bends = posterior.slopes(fitted, given, shown)[1]
    weights, covariance = posterior.weights_D.copy(), posterior.covariance_D_D.copy()
    offset, effects = posterior.offset_N, posterior.effects
    unique, _, place, _ = unique_pairs(index)
    for k in range(len(unique)):
        its = np.flatnonzero(place == k)
        i, j = unique[k]
        z = np.asarray(posterior.features_N_D[i], dtype=np.float64) - posterior.features_N_D[j]
        gain = covariance @ z
        spread, at = float(z @ gain), float(z @ weights + offset[i] - offset[j])
        if effects is not None:
            cross, apart = effects.difference(unique[k : k + 1])
            gain, spread = gain + cross[0], spread + 2 * float(z @ cross[0]) + float(apart[0])
        own = None if shown is None else shown[its]
        pull = float(posterior.slopes(np.full(len(its), at), given[its], own)[0].sum())
        bend = float(bends[its].sum())
        left = max(1.0 - bend * spread, 1e-6)
        weights -= gain * (pull / left)
        covariance += np.outer(gain, gain) * (bend / left)
        if effects is not None:
            effects, grown = effects.after(unique[k], z, gain, -pull / left, -bend / left)
            offset = offset + grown
    return Posterior(
        offset, posterior.features_N_D, weights, covariance, posterior.kind, posterior.tau,
        posterior.share, posterior.temper, posterior.panel, effects,
    )  # fmt: skip
