"""Scores with intervals from the answers alone, without looking at any image: Bradley–Terry, Rao–Kupper where there are ties.

    P(answer | Δ = θ_i − θ_j) as in likelihood.py,    θ_i ~ N(0, σ²) independently

The Gaussian prior is weak, and needed: an image that won every comparison has no finite score without it, and images that no
chain of answers joins have no common scale. An image that nobody was asked about has the score 0 ± σ.

The posterior is approximated by expectation propagation (Minka; Rasmussen and Williams, section 3.6): each answer is replaced
by a Gaussian observation of its Δ with the moments that the answer leaves. Laplace's approximation at the mode, which the rest
of this room uses where features tie images together, takes σ for half to four fifths of what it is where an image has few
answers, and 95% intervals made with that hold 71 to 89% (docs/statistics.md). σ and the half-width of ties τ maximise the marginal likelihood. numpy, and
scipy's sparse matrices: 10,000 images and 50,000 answers take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats, Ints, Pairs
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.bradley_terry import likeliest_scores, summed
from steelyard.ranker.likelihood import check_answers, curvature, log_likelihood, outcomes, slope
from steelyard.ranker.sparse_gaussian import SparseGaussian

__all__ = ["AnswersAlone", "fit_alone"]

_WIDEST = (
    5.0  # answers that never contradict each other would have ever wider scores; odds of 150 : 1 are enough
)
_NARROWEST = 0.05
_USUAL, _UNUSUAL = 1.5, 0.7  # log σ ~ N(log 1.5, 0.7²): it matters where there is about one answer an image
_SWEEPS = 60
_SETTLED = 3e-3
_DRAWS_ON_THE_WAY, _DRAWS = 16, 64
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_FEW_WEIGHTS = _FEW_WEIGHTS / _FEW_WEIGHTS.sum()


@dataclass(frozen=True)
class AnswersAlone:
    """Scores in logits of the answers, with their uncertainty.

    Attributes:
        score: posterior mean of every image, shape (N,); higher is more severe, 0 the middle.
        deviation: its posterior deviation, shape (N,); the 95% interval is score ± 1.96 × deviation.
        answers: how many answers each image has, shape (N,).
        prior: σ, the deviation of the prior.
        tau: half-width of a tie, 0 where there are none.
        pairs: rows (i, j) of the answers that were used, shape (n, 2).
        given: the answers, P1, shape (n,).
        mean_without: mean of θ_i − θ_j as if nobody had answered the pair, shape (n,).
        variance_without: its variance, shape (n,).
    """

    score: Floats
    deviation: Floats
    answers: Ints
    prior: float
    tau: float
    pairs: Pairs
    given: Floats
    mean_without: Floats
    variance_without: Floats

    @property
    def asked(self) -> Ints:
        """Rows of images with answers."""
        return np.flatnonzero(self.answers).astype(np.int64)

    def outcomes(self) -> Floats:
        """P(first), P(tie), P(second) of each answer's pair as if nobody had answered it, shape (n, 3)."""
        return outcomes(self.mean_without, self.variance_without, self.tau)


def fit_alone(
    pairs: ArrayLike,
    answers: ArrayLike,
    images: int,
    *,
    rng: np.random.Generator,
    prior: float | None = None,
    tau: float | None = None,
) -> AnswersAlone:
    """Fit scores to answers.

    Args:
        pairs: rows (i, j) of each answer, shape (n, 2), n ≥ 1.
        answers: P1 for (i, j), shape (n,): 1, 0.5 or 0.
        images: N; rows without answers have the score 0.
        rng: for variances where there are too many images to invert a matrix.
        prior: σ; None estimates it, between 0.05 and 5 logits.
        tau: half-width of a tie; None estimates it, 0 counts a tie as half a win. Without ties it is 0.

    Raises:
        RankerError: no answers, or shapes, answers or settings that do not fit.
    """
    index = check_pairs(pairs, images, error=RankerError)
    given = check_answers(answers, ties=tau is None or tau > 0)
    if not len(index) or len(index) != len(given):
        raise RankerError(
            f"{len(index)} pairs and {len(given)} answers; scores need some, and one answer for each pair"
        )
    if prior is not None and not (np.isfinite(prior) and prior > 0):
        raise RankerError(f"the deviation of the prior is a number above 0, not {prior}")
    asked, local = np.unique(index, return_inverse=True)
    ties = bool((given == 0.5).any())
    sites = _Sites(
        local.reshape(-1, 2).astype(np.int64), given, len(asked), int(rng.integers(2**63)),
        prior=_USUAL if prior is None else prior, tau=(0.5 if ties else 0.0) if tau is None else tau,
    )  # fmt: skip
    sites.settle(free_prior=prior is None, free_tau=tau is None and ties)
    score, deviation = np.zeros(images), np.full(images, sites.prior)
    score[asked], deviation[asked] = sites.mean, np.sqrt(sites.own)
    counts = np.bincount(index.reshape(-1), minlength=images).astype(np.int64)
    return AnswersAlone(
        score, deviation, counts, sites.prior, sites.tau, index, given, *sites.without_the_pair()
    )


class _Sites:
    """Each answer as a Gaussian observation of its difference: precision r and precision times mean b."""

    def __init__(
        self, pairs: Pairs, given: Floats, images: int, seed: int, *, prior: float, tau: float
    ) -> None:
        self.pairs, self.given, self.images, self.seed = pairs, given, images, seed
        self.prior, self.tau = prior, tau
        i, j = pairs.T
        mode = likeliest_scores(pairs, given, images, prior=prior, tau=tau)
        at = mode[i] - mode[j]
        self.r = curvature(at, given, tau)  # Laplace's sites are a good start
        self.b = slope(at, given, tau) + self.r * at
        self._look(_DRAWS_ON_THE_WAY)

    def _look(self, draws: int) -> None:
        """Mean and variance of every score and of every answered difference, by the sites as they are."""
        i, j = self.pairs.T
        gaussian = SparseGaussian(self.images, self.pairs, self.r, self.prior**-2)
        self.mean: Floats = gaussian.solve(summed(self.pairs, self.b, self.images), tolerance=1e-8)
        # The same draws in every sweep: the sweeps settle although variances are estimated.
        self.own, self.apart = gaussian.variances(np.random.default_rng(self.seed), draws)
        self.difference: Floats = self.mean[i] - self.mean[j]

    def settle(self, *, free_prior: bool, free_tau: bool) -> None:
        """Sweep over the answers until sites, σ and τ stay."""
        for _ in range(_SWEEPS):
            before = self.difference, self.prior, self.tau
            self._sweep()
            self._look(_DRAWS_ON_THE_WAY)
            if free_prior:
                self.prior = self._better_prior()
            if free_tau:
                self.tau = self._best_tau()
            moved = np.sqrt(np.square(self.difference - before[0]).mean() / self.apart.mean())
            if max(moved, abs(np.log(self.prior / before[1])), abs(self.tau - before[2])) < _SETTLED:
                break
        self._look(_DRAWS)

    def _better_prior(self) -> float:
        """MacKay: as many scores as the answers determine have the variance of the prior; a usual σ counts a little."""
        told = self.images - self.own.sum() / self.prior**2
        counted = max(told + np.log(self.prior / _USUAL) / _UNUSUAL**2, 1e-3)
        step = np.sqrt(np.square(self.mean).sum() / counted) / self.prior
        return float(np.clip(self.prior * np.clip(step, 0.5, 2.0), _NARROWEST, _WIDEST))

    def _sweep(self) -> None:
        """All answers at once: take an answer's site out, put the answer itself in, keep the moments."""
        left = np.maximum(1.0 - self.r * self.apart, 1e-3)  # variances may be estimates
        variance = self.apart / left
        mean = (self.difference - self.b * self.apart) / left
        at = mean[:, None] + np.sqrt(variance)[:, None] * _NODES
        mass = np.exp(log_likelihood(at, self.given[:, None], self.tau)) * _WEIGHTS
        mass /= mass.sum(axis=1, keepdims=True)
        first = (mass * at).sum(axis=1)
        second = (mass * np.square(at - first[:, None])).sum(axis=1)
        r = np.clip(
            1.0 / second - 1.0 / variance, 1e-9, None
        )  # the likelihood is log-concave: never negative
        self.r, self.b = r, first * (r + 1.0 / variance) - mean / variance

    def _best_tau(self) -> float:
        """The half-width of ties for differences as uncertain as they are."""
        from scipy.optimize import minimize_scalar

        at = self.difference[:, None] + np.sqrt(self.apart)[:, None] * _FEW_NODES
        given = self.given[:, None]

        def cost(log_tau: float) -> float:
            return -float((log_likelihood(at, given, float(np.exp(log_tau))) @ _FEW_WEIGHTS).sum())

        return float(np.exp(minimize_scalar(cost, bounds=(np.log(0.01), np.log(5.0)), method="bounded").x))

    def without_the_pair(self) -> tuple[Floats, Floats]:
        """Mean and variance of each answer's difference with all sites of its pair taken out."""
        sign = np.where(self.pairs[:, 0] > self.pairs[:, 1], -1.0, 1.0)
        low, high = np.sort(self.pairs, axis=1).T
        _, place = np.unique(low * np.int64(self.images) + high, return_inverse=True)
        place = place.reshape(-1)
        r, b = np.bincount(place, self.r)[place], sign * np.bincount(place, sign * self.b)[place]
        left = np.maximum(1.0 - r * self.apart, 1e-3)
        return (self.difference - b * self.apart) / left, self.apart / left
