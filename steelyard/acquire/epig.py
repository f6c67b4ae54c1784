"""`epig`: the pairs whose answers say most about all the other pairs (expected predictive information gain)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.acquire.candidates import Candidates
from steelyard.acquire.choice import Choice
from steelyard.acquire.greedy import Curvature, Outlook, Where
from steelyard.acquire.needs import needs
from steelyard.acquire.search import search_greedily
from steelyard.arrays import Floats
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet
from steelyard.ranker.likelihood import expected_curvature

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["epig"]

Weight = Literal["slope", "square", "flat"]

ENDING = "and your answer helps to order many other images"


class Foresight(Outlook):
    """An outlook that also knows what each candidate would explain of the target pairs.

    With M = mean over targets of σ̇* z* z*ᵀ the mean of σ̇* (z*ᵀΣz)² is zᵀ ΣMΣ z: a quadratic form, so the number of
    targets costs nothing per pick. With a = Σu for a picked u, b = ΣMa and g as in `greedy`, the pick changes it by

        ΣMΣ ← ΣMΣ − g (a bᵀ + b aᵀ) + g² (aᵀMa) a aᵀ.

    Attributes:
        explained_m: zᵀΣMΣz of the candidates.
    """

    def __init__(
        self, posterior: Posterior, candidates: Candidates, targets_D_D: Floats, curvature: Curvature
    ) -> None:
        super().__init__(posterior, candidates, curvature)
        self.targets_D_D = targets_D_D
        self.explained_m = self.quadratic(self.covariance_D_D @ targets_D_D @ self.covariance_D_D)

    def shrink(self, direction_D: Floats, factor: float) -> Floats:
        """As in `Outlook`, and the same for what is explained of the targets."""
        turned = self.targets_D_D @ direction_D
        b_m = self.candidates.differences(self.candidates.features_P_D @ (self.covariance_D_D @ turned))
        a_m = super().shrink(direction_D, factor)
        change_m = factor * a_m * (factor * float(direction_D @ turned) * a_m - 2.0 * b_m)
        self.explained_m = np.maximum(self.explained_m + change_m, 0.0)
        return a_m


@needs("model")
def epig(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    targets: int = 4_000,
    even: float = 0.0,
    weight: Weight = "slope",
    balance: float = 1.0,
    **options: Any,
) -> Choice:
    """Pick by the expected fall in predictive variance over target pairs z*:

        mean over z* of σ̇* (z*ᵀΣz)² · σ̇ / (1 + σ̇ zᵀΣz)

    Args:
        posterior: what the model believes.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        targets: pairs whose prediction should become certain, drawn from the pool.
        even: share of target images drawn evenly along the scale instead of evenly among the images, so that rare
            severities count as much as common ones.
        weight: what a target counts: `slope` σ̇*, `square` σ̇*² (variance of the probability), `flat` 1.
        balance: see `Search`; by default each use of an image halves what its other pairs are worth, because a new image
            tells more than its features let the model expect.
        options: see `Search`.

    Raises:
        AcquireError: there is no posterior, or an option is unknown or out of range.
    """
    if targets < 1:
        raise AcquireError(f"'targets' is 1 or more, not {targets}")
    if not 0 <= even <= 1:
        raise AcquireError(f"'even' is a share between 0 and 1, not {even}")
    if weight not in ("slope", "square", "flat"):
        raise AcquireError(f"'weight' is 'slope', 'square' or 'flat', not {weight!r}")

    def look(posterior: Posterior, candidates: Candidates, curvature: Curvature) -> Foresight:
        matrix = target_matrix(candidates, targets, tau=posterior.tau, even=even, weight=weight, rng=rng)
        return Foresight(posterior, candidates, matrix, curvature)

    return search_greedily(
        fall,
        posterior,
        n,
        taken=taken,
        rng=rng,
        strategy="epig",
        ending=ENDING,
        options={"balance": balance, **options},
        outlook=look,
    )


def fall(outlook: Foresight, where: Where) -> Floats:
    """Expected fall in the targets' variance by candidates, σ̇ zᵀΣMΣz / (1 + σ̇v)."""
    information = outlook.information(where)
    return np.asarray(
        outlook.explained_m[where] * information / (1.0 + information * outlook.variance_m[where])
    )


def target_matrix(
    candidates: Candidates, targets: int, *, tau: float, even: float, weight: Weight, rng: np.random.Generator
) -> Floats:
    """M = mean over sampled target pairs of σ̇* z* z*ᵀ, shape (D, D)."""
    mean_P = candidates.mean_P
    chance = (1.0 - even) / len(mean_P) + even * along_the_scale(mean_P)
    a, b = rng.choice(len(mean_P), size=(2, targets), p=chance / chance.sum())
    z = candidates.features_P_D[a] - candidates.features_P_D[b]  # a pair of the same image counts 0
    slope = expected_curvature(mean_P[a] - mean_P[b], tau)
    weights = {"slope": slope, "square": slope**2, "flat": np.ones(targets)}[weight]
    return np.asarray((z * weights[:, None]).T @ z / targets)


def along_the_scale(mean_P: Floats, bins: int = 12) -> Floats:
    """Probabilities that make every stretch of the scale equally likely, shape (P,)."""
    low, high = np.quantile(mean_P, (0.01, 0.99))
    place = np.clip((mean_P - low) / max(high - low, 1e-12) * bins, 0, bins - 1).astype(np.int64)
    counts = np.bincount(place, minlength=bins)
    return np.asarray(1.0 / counts[place] / np.count_nonzero(counts))
