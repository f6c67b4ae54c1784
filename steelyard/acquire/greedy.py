"""Greedy choice with the posterior covariance updated after every pick.

The answer to a picked pair z = h_i − h_j is not known yet, but how much it is expected to teach is: under the Laplace
posterior it adds σ̇ z zᵀ to the precision. Without ties as outcomes σ̇ is the same whatever is said; a tie as an outcome
bends the likelihood more than a decision does, and σ̇ is the mean over the three answers (`expected_curvature`). So
(Sherman–Morrison) with a = Σz and g = σ̇ / (1 + σ̇ zᵀΣz)

    Σ ← Σ − g a aᵀ        and for every candidate c:  c's variance ← variance − g (cᵀa)²

Nothing of size m × D is kept: cᵀa is a difference of two entries of (features @ a), so a pick costs O(P·D + m) for a
pool of P images and m candidate pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from steelyard.acquire.candidates import Candidates
from steelyard.arrays import Floats, Ints
from steelyard.errors import AcquireError
from steelyard.ranker.likelihood import expected_curvature

if TYPE_CHECKING:
    from steelyard.ranker.judges import Panel
    from steelyard.ranker.posterior import Posterior

__all__ = ["Curvature", "Outlook", "View", "Where", "information", "pick"]

Curvature = Literal["mean", "expected"]

Where = slice | Ints
View = TypeVar("View", bound="Outlook")

_BLOCK = 16384


def information(
    mean: Floats,
    variance: Floats,
    *,
    tau: float = 0.0,
    curvature: Curvature = "mean",
    panel: Panel | None = None,
) -> Floats:
    """How much one answer tells about the difference of two scores: σ̇, or its like for judges who may tie, lapse and differ.

    Args:
        mean: expected differences, any shape.
        variance: their variances, the same shape.
        tau: Rao–Kupper threshold; 0 is the RankNet likelihood (P10), where this is p(1−p).
        curvature: `mean` takes it at the expected difference; `expected` averages over the Gaussian difference,
            by the probit approximation E σ(Δ) ≈ σ(κΔ), κ = (1 + πv/8)^−½, so that E σ̇ ≈ κ σ̇(κΔ): a model that is
            not sure of a large difference still learns from it.
        panel: the judges who are asked; None is an ordinary one.
    """
    tells = expected_curvature if panel is None else panel.information
    if curvature == "mean":
        return tells(mean, tau)
    scale = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * variance)
    return np.asarray(scale * tells(scale * mean, tau))


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
        self.tau, self.panel = posterior.tau, posterior.panel
        self.curvature: Curvature = curvature
        self.covariance_D_D = np.array(posterior.covariance_D_D, dtype=np.float64)
        self.mean_m = candidates.differences(candidates.mean_P)
        self.variance_m = self.quadratic(self.covariance_D_D)
        # Picks move no mean, so at the mean the information stays what it is.
        self._at_mean_m = None
        if curvature == "mean":
            self._at_mean_m = self._information(slice(None))
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

    def information(self, where: Where = slice(None)) -> Floats:
        """σ̇ of the candidate pairs at some positions."""
        if self._at_mean_m is not None:
            return np.asarray(self._at_mean_m[where])
        return self._information(where)

    def _information(self, where: Where) -> Floats:
        told = information(
            self.mean_m[where],
            self.variance_m[where],
            tau=self.tau,
            curvature=self.curvature,
            panel=self.panel,
        )
        return told * self.tells(where)

    def tells(self, where: Where) -> Floats | float:
        """What an answer about candidates tells beside the usual one; 1 where all are new."""
        each = self.candidates.tells_m
        return 1.0 if each is None else each[where]

    def difference(self, k: int) -> Floats:
        """z of candidate k, shape (D,)."""
        pool = self.candidates.features_P_D
        return np.asarray(pool[self.candidates.first_m[k]] - pool[self.candidates.second_m[k]])

    def imagine(self, k: int) -> None:
        """Take candidate k for answered."""
        direction = self.covariance_D_D @ self.difference(k)
        gain = float(self.information(slice(k, k + 1))[0])
        self.shrink(direction, gain / (1.0 + gain * float(self.variance_m[k])))

    def shrink(self, direction_D: Floats, factor: float) -> Floats:
        """Take `factor` · a aᵀ off the covariance, a = `direction_D`; returns cᵀa of the candidates, shape (m,)."""
        across_m = self.candidates.differences(self.candidates.features_P_D @ direction_D)
        self.covariance_D_D -= factor * np.outer(direction_D, direction_D)
        self.variance_m = np.maximum(self.variance_m - factor * across_m**2, 0.0)
        return across_m


def pick(
    outlook: View,
    score: Callable[[View, Where], Floats],
    n: int,
    *,
    rng: np.random.Generator,
    noise: float = 0.0,
    balance: float = 0.0,
    uses_P: Floats | None = None,
    lazy: bool = False,
) -> tuple[Ints, Floats]:
    """Pick n candidates one by one, the best first, imagining each answered before the next.

    Args:
        outlook: what would be believed; changed by every pick.
        score: what the candidates at some positions are worth in an outlook, 0 or more.
        n: picks wanted.
        rng: source of the noise.
        noise: scale of Gumbel noise on the logarithm of the scores (as PowerBALD; 1 draws in proportion to them).
        balance: how strongly an image that was used already is avoided: each use of a pair's image divides its
            score by 1 + balance.
        uses_P: how often each image of the pool was used before, shape (P,); 0 unless given.
        lazy: a pick never raises another candidate's score, so an old score is an upper bound and only those that
            reach the best need a new one (lazy greedy; the picks are the same).

    Returns:
        Positions of the picked candidates in order, and their scores without noise and balance.

    Raises:
        AcquireError: noise or balance is negative, or a score is not finite.
    """
    for name, value in (("noise", noise), ("balance", balance)):
        if not (np.isfinite(value) and value >= 0):
            raise AcquireError(f"'{name}' is a number of 0 or more, not {value}")
    first_m, second_m = outlook.candidates.first_m, outlook.candidates.second_m
    m = len(first_m)
    # Noise and balance are factors on the score; those of picked candidates are 0.
    factor_m = np.exp(noise * rng.gumbel(size=m)) if noise else np.ones(m)
    if balance and uses_P is not None:
        factor_m *= (1.0 + balance) ** -(uses_P[first_m] + uses_P[second_m])
    picked: list[int] = []
    worth: list[float] = []
    scores_m = score(outlook, slice(None))
    while True:
        best = int(np.argmax(scores_m * factor_m))
        if not np.isfinite(scores_m[best]):
            pair = tuple(outlook.candidates.pairs[best].tolist())
            raise AcquireError(f"the score of pair {pair} is {scores_m[best]}; fit the model again")
        picked.append(best)
        worth.append(float(scores_m[best]))
        if len(picked) == min(n, m):
            return np.array(picked, dtype=np.int64), np.array(worth)
        factor_m[best] = -1.0
        if balance:
            for image in (first_m[best], second_m[best]):
                factor_m[(first_m == image) | (second_m == image)] /= 1.0 + balance
        outlook.imagine(best)
        if lazy:
            _rescore_best(outlook, score, scores_m, factor_m)
        else:
            scores_m = score(outlook, slice(None))


def _rescore_best(
    outlook: View, score: Callable[[View, Where], Floats], scores_m: Floats, factor_m: Floats
) -> None:
    """Bring old scores up to date from the top, until the best is a new one."""
    old_m = np.ones(len(scores_m), dtype=bool)
    width = 64
    while True:
        wanted_m = scores_m * factor_m
        best = int(np.argmax(wanted_m))
        if not old_m[best]:
            return
        top = (
            np.argpartition(-wanted_m, width - 1)[:width]
            if width < len(wanted_m)
            else np.arange(len(wanted_m))
        )
        top = top[old_m[top]]
        scores_m[top] = score(outlook, top)
        old_m[top] = False
        width *= 2
