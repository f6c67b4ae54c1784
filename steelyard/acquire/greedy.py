"""Greedy choice with the posterior covariance updated after every pick.

The answer to a picked pair z = h_i − h_j is not known yet, but how much it will teach is: under the Laplace posterior
it adds σ̇ z zᵀ to the precision whatever it says. So (Sherman–Morrison) with a = Σz and g = σ̇ / (1 + σ̇ zᵀΣz)

    Σ ← Σ − g a aᵀ        and for every candidate c:  c's variance ← variance − g (cᵀa)²

Nothing of size m × D is kept: cᵀa is a difference of two entries of (features @ a), so a pick costs O(P·D + m) for a
pool of P images and m candidate pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.candidates import Candidates
from steelyard.errors import AcquireError
from steelyard.ranker.likelihood import expected_curvature

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["Curvature", "Outlook", "information", "pick"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Curvature = Literal["mean", "expected"]

_BLOCK = 16384
_NEVER = -np.inf


def information(mean: Floats, variance: Floats, *, tau: float = 0.0, curvature: Curvature = "mean") -> Floats:
    """How much one answer tells about the difference of two scores: σ̇, or its like for an annotator who may tie.

    Args:
        mean: expected differences, any shape.
        variance: their variances, the same shape.
        tau: Rao–Kupper threshold; 0 is the RankNet likelihood (P10), where this is p(1−p).
        curvature: `mean` takes it at the expected difference; `expected` averages over the Gaussian difference,
            by the probit approximation E σ(Δ) ≈ σ(κΔ), κ = (1 + πv/8)^−½, so that E σ̇ ≈ κ σ̇(κΔ): a model that is
            not sure of a large difference still learns from it.
    """
    if curvature == "mean":
        return expected_curvature(mean, tau)
    scale = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * variance)
    return np.asarray(scale * expected_curvature(scale * mean, tau))


class Outlook:
    """What will be believed about the candidate pairs once the picked ones are answered.

    Attributes:
        candidates: the pool and its pairs.
        mean_m: expected differences of the candidates; picks do not move them.
        variance_m: their variances, falling with every pick.
        covariance_D_D: of the weights.
    """

    def __init__(self, posterior: Posterior, candidates: Candidates, curvature: Curvature = "mean") -> None:
        if curvature not in ("mean", "expected"):
            raise AcquireError(f"'curvature' is 'mean' or 'expected', not {curvature!r}")
        self.candidates = candidates
        self.tau = posterior.tau
        self.curvature: Curvature = curvature
        self.covariance_D_D = np.array(posterior.covariance_D_D, dtype=np.float64)
        self.mean_m = candidates.differences(candidates.mean_P)
        self.variance_m = self.quadratic(self.covariance_D_D)
        if not np.isfinite(self.variance_m).all():
            raise AcquireError("the posterior covariance is not finite; fit the model again")

    def quadratic(self, matrix_D_D: Floats) -> Floats:
        """zᵀAz for every candidate pair, shape (m,), in blocks; never below 0."""
        pool, first, second = self.candidates.features_P_D, self.candidates.first_m, self.candidates.second_m
        turned = pool @ matrix_D_D
        diagonal = np.einsum("pd,pd->p", turned, pool)
        result = diagonal[first] + diagonal[second]
        for start in range(0, len(first), _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] -= 2.0 * np.einsum("md,md->m", turned[first[block]], pool[second[block]])
        return np.asarray(np.maximum(result, 0.0))

    def information(self) -> Floats:
        """σ̇ of every candidate pair, shape (m,)."""
        return information(self.mean_m, self.variance_m, tau=self.tau, curvature=self.curvature)

    def difference(self, k: int) -> Floats:
        """z of candidate k, shape (D,)."""
        pool = self.candidates.features_P_D
        return np.asarray(pool[self.candidates.first_m[k]] - pool[self.candidates.second_m[k]])

    def imagine(self, k: int) -> None:
        """Take candidate k for answered."""
        direction = self.covariance_D_D @ self.difference(k)
        one = slice(k, k + 1)
        gain = information(self.mean_m[one], self.variance_m[one], tau=self.tau, curvature=self.curvature)[0]
        factor = float(gain / (1.0 + gain * self.variance_m[k]))
        self.shrink(direction, factor)

    def shrink(self, direction_D: Floats, factor: float) -> Floats:
        """Take `factor` · a aᵀ off the covariance, a = `direction_D`; returns cᵀa of the candidates, shape (m,)."""
        across_m = self.candidates.differences(self.candidates.features_P_D @ direction_D)
        self.covariance_D_D -= factor * np.outer(direction_D, direction_D)
        self.variance_m = np.maximum(self.variance_m - factor * across_m**2, 0.0)
        return across_m


def pick(
    outlook: Outlook,
    score: Callable[[], Floats],
    n: int,
    *,
    rng: np.random.Generator,
    noise: float = 0.0,
    balance: float = 0.0,
    uses_P: Floats | None = None,
) -> tuple[Ints, Floats]:
    """Pick n candidates one by one, the best first, imagining each answered before the next.

    Args:
        outlook: what would be believed; changed by every pick.
        score: what each candidate is worth now, shape (m,), 0 or more.
        n: picks wanted.
        rng: where the noise comes from.
        noise: scale of Gumbel noise on the logarithm of the scores (as PowerBALD; 1 draws in proportion to them).
        balance: how strongly an image that was used already is avoided: each use of a pair's image divides its
            score by 1 + balance.
        uses_P: how often each image of the pool was used before, shape (P,); 0 unless given.

    Returns:
        Positions of the picked candidates in order, and their scores without noise and balance.

    Raises:
        AcquireError: noise or balance is negative, or a score is not finite.
    """
    for name, value in (("noise", noise), ("balance", balance)):
        if not (np.isfinite(value) and value >= 0):
            raise AcquireError(f"'{name}' is a number of 0 or more, not {value}")
    candidates = outlook.candidates
    m = len(candidates)
    # Noise and balance work on logarithms: a factor on the score is a term there.
    terms_m = rng.gumbel(size=m) * noise if noise else np.zeros(m)
    if balance and uses_P is not None:
        terms_m -= np.log1p(balance) * (uses_P[candidates.first_m] + uses_P[candidates.second_m])
    plain = not noise and not balance
    picked: list[int] = []
    worth: list[float] = []
    open_m = np.ones(m, dtype=bool)
    while len(picked) < min(n, m):
        scores_m = score()
        if plain:
            wanted_m = np.where(open_m, scores_m, _NEVER)
        else:
            wanted_m = np.where(open_m, np.log(np.maximum(scores_m, 1e-300)) + terms_m, _NEVER)
        best = int(np.argmax(wanted_m))
        if not np.isfinite(scores_m[best]):
            raise AcquireError(
                f"the score of pair {tuple(candidates.pairs[best].tolist())} is {scores_m[best]}; fit the model again"
            )
        open_m[best] = False
        picked.append(best)
        worth.append(float(scores_m[best]))
        if balance:
            for image in (candidates.first_m[best], candidates.second_m[best]):
                touched = (candidates.first_m == image) | (candidates.second_m == image)
                terms_m[touched] -= np.log1p(balance)
        if len(picked) < n:
            outlook.imagine(best)
    return np.array(picked, dtype=np.int64), np.array(worth)
