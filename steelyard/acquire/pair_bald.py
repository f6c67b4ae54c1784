"""`pair_bald`: the pairs about which the model disagrees with itself (BALD on the difference of two scores)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr, expit

from steelyard.acquire.candidates import Candidates
from steelyard.acquire.choice import Choice
from steelyard.acquire.greedy import Curvature, Outlook, Where
from steelyard.acquire.needs import needs
from steelyard.acquire.search import search_greedily
from steelyard.arrays import Floats
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["disagreement", "expected_disagreement", "pair_bald"]


ENDING = "and it disagrees with itself about them"

# Trapezoidal rule on ±7.5 standard deviations. For these integrands (analytic up to ±iπ) it converges exponentially: nine digits
# while the deviation of a difference is below 4, four below 8 (see the tests).
_NODES = np.linspace(-7.5, 7.5, 61)
_WEIGHTS = np.exp(-0.5 * _NODES**2)
_WEIGHTS /= _WEIGHTS.sum()
_BLOCK = 8192


class SharedDraws(Outlook):
    """An outlook on the draws themselves: each draw of the weights serves both images of a pair (P9).

    After an imagined answer the draws are drawn in towards their mean along the picked direction, so that their covariance is the
    updated one: with Σ = LLᵀ and y = Lᵀz the root becomes L (I − κ yyᵀ), κ = (1 − √(1 − g yᵀy)) / yᵀy.

    Attributes:
        draws_P_T: deviations of the scores of the pool from their mean, one column a draw.
    """

    def __init__(self, posterior: Posterior, candidates: Candidates, curvature: Curvature = "mean") -> None:
        super().__init__(posterior, candidates, curvature)
        values, vectors = np.linalg.eigh(self.covariance_D_D)
        # The symmetric root leaves the draws of a fresh posterior (identity covariance) as they are.
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        self.draws_P_T = candidates.features_P_D @ root * np.sqrt(len(values))

    def imagine(self, k: int) -> None:
        """Take candidate k for answered."""
        count = self.draws_P_T.shape[1]
        y = (
            self.draws_P_T[self.candidates.first_m[k]] - self.draws_P_T[self.candidates.second_m[k]]
        ) / np.sqrt(count)
        square = float(y @ y)
        gain = float(self.information(slice(k, k + 1))[0])
        if square > 0.0:
            kappa = (1.0 - np.sqrt(1.0 - gain * square / (1.0 + gain * square))) / square
            self.draws_P_T -= kappa * np.outer(self.draws_P_T @ y, y)
        super().imagine(k)


@needs("model")
def pair_bald(
    posterior: Posterior | None, n: int, /, *, taken: PairSet, rng: np.random.Generator, **options: Any
) -> Choice:
    """Pick by the mutual information of the answer and the weights: h(mean p) − mean h(p).

    Over the draws where the posterior is made of draws, over the Gaussian difference (by quadrature) otherwise.

    Args:
        posterior: what the model believes.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        options: see `Search`.

    Raises:
        AcquireError: there is no posterior, or an option is unknown or out of range.
    """
    drawn = posterior is not None and posterior.kind == "draws"
    # Over a Gaussian it never rises when the variance falls, so old scores are upper bounds; draws promise no such thing.
    return search_greedily(
        among_draws if drawn else gaussian,
        posterior,
        n,
        taken=taken,
        rng=rng,
        strategy="pair_bald",
        ending=ENDING,
        options=options,
        outlook=SharedDraws if drawn else Outlook,
        lazy=not drawn,
    )


def gaussian(outlook: Outlook, where: Where) -> Floats:
    """Disagreement about candidates whose difference is Gaussian."""
    found = expected_disagreement(outlook.mean_m[where], outlook.variance_m[where], outlook.tau)
    return found * outlook.tells(where)


def expected_disagreement(mean_m: Floats, variance_m: Floats, tau: float = 0.0) -> Floats:
    """`disagreement` about Gaussian differences, by quadrature, shape (m,)."""
    deviation_m = np.sqrt(variance_m)
    result = np.empty(len(mean_m))
    for start in range(0, len(mean_m), _BLOCK):
        part = slice(start, start + _BLOCK)
        differences = mean_m[part, None] + deviation_m[part, None] * _NODES
        result[part] = disagreement(differences, _WEIGHTS, tau)
    return result


def among_draws(outlook: Outlook, where: Where) -> Floats:
    """Disagreement of the draws about candidates."""
    assert isinstance(outlook, SharedDraws)
    draws, mean = outlook.draws_P_T, outlook.mean_m[where]
    first, second = outlook.candidates.first_m[where], outlook.candidates.second_m[where]
    weights = np.full(draws.shape[1], 1.0 / draws.shape[1])
    result = np.empty(len(mean))
    for start in range(0, len(mean), _BLOCK):
        part = slice(start, start + _BLOCK)
        differences = mean[part, None] + draws[first[part]] - draws[second[part]]
        result[part] = disagreement(differences, weights, outlook.tau)
    return result * outlook.tells(where)


def disagreement(differences_m_T: Floats, weights_T: Floats, tau: float = 0.0) -> Floats:
    """h(mean p) − mean h(p) in nats, p the probabilities of the answers under each draw of the difference.

    Args:
        differences_m_T: draws of m differences, shape (m, T).
        weights_T: of the draws, shape (T,), adding up to 1.
        tau: half-width of a tie (Rao–Kupper); 0 knows two answers.

    Returns:
        Shape (m,), 0 or more.
    """
    first, second = expit(differences_m_T - tau), expit(-differences_m_T - tau)
    answers = [first, second] if tau == 0.0 else [first, second, np.maximum(1.0 - first - second, 0.0)]
    gap = sum(entr(p @ weights_T) - entr(p) @ weights_T for p in answers)
    return np.asarray(np.maximum(gap, 0.0))
