"""`batch_bald`: the set of pairs whose answers together say most about the weights (BatchBALD; Kirsch et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from steelyard.acquire.candidates import Candidates
from steelyard.acquire.choice import Choice
from steelyard.acquire.greedy import Curvature, Outlook, Where
from steelyard.acquire.needs import needs
from steelyard.acquire.search import search_greedily
from steelyard.arrays import Floats
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["batch_bald"]

ENDING = "and together with the other pairs of this round it tells most"


class Joint(Outlook):
    """An outlook on draws of the weights, and on how the answers to the picked pairs would weigh them.

    I(y_1 … y_b; w) grows with a pick c by I(y_c; w | y_1 … y_b) = E_Y h(mean_t W_t(Y) p_t) − mean_t h(p_t), where W(Y) are the
    weights that the draws have once the answers Y to the pairs picked so far are known. There are Aᵇ such Y: all are followed
    while they are few, then a sample, each continued by an answer drawn from what it predicts.

    Attributes:
        answers_A_T_m: probability of each answer under each draw.
        weights_S_T: weights of the draws after each of S sets of answers; rows add up to 1.
        chance_S: how likely each set is; adds up to 1.
    """

    def __init__(
        self,
        posterior: Posterior,
        candidates: Candidates,
        curvature: Curvature,
        *,
        draws: int,
        sets: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(posterior, candidates, curvature)
        self._rng, self._sets = rng, sets
        values, vectors = np.linalg.eigh(self.covariance_D_D)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        steps = candidates.features_P_D @ (root @ rng.standard_normal((len(values), draws)))
        apart_T_m = self.mean_m + (steps[candidates.first_m] - steps[candidates.second_m]).T
        first, second = expit(apart_T_m - self.tau), expit(-apart_T_m - self.tau)
        every = [first, second] if self.tau == 0.0 else [first, second, np.maximum(1.0 - first - second, 0.0)]
        self.answers_A_T_m: NDArray[np.float32] = np.stack(every).astype(np.float32)
        self._known_m: Floats = entr(self.answers_A_T_m).sum(axis=0, dtype=np.float64).mean(axis=0)
        self.weights_S_T: NDArray[np.float32] = np.full((1, draws), 1.0 / draws, dtype=np.float32)
        self.chance_S: Floats = np.ones(1)

    def gain(self, where: Where) -> Floats:
        """I(y_c; w | answers to the picked pairs) of candidates, in nats."""
        open_m: Floats = np.zeros(len(self._known_m[where]))
        for answer_T_m in self.answers_A_T_m[:, :, where]:
            open_m += self.chance_S @ entr(self.weights_S_T @ answer_T_m)
        # Never quite 0, for rounding: what is worth nothing is still worth more than what was picked already.
        return np.asarray(np.maximum(open_m - self._known_m[where], 1e-12))

    def imagine(self, k: int) -> None:
        """Take candidate k for answered, in every way that it may be."""
        told_A_T = self.answers_A_T_m[:, :, k]
        found_S_A = np.maximum((self.weights_S_T @ told_A_T.T).astype(np.float64), 1e-12)
        found_S_A /= found_S_A.sum(axis=1, keepdims=True)
        sets, kinds = found_S_A.shape
        if sets * kinds <= self._sets:
            parent, answer = np.repeat(np.arange(sets), kinds), np.tile(np.arange(kinds), sets)
            chance = (self.chance_S[:, None] * found_S_A).reshape(-1)
        else:
            if sets < self._sets:  # the last time that sets differ in weight
                parent = self._rng.choice(sets, size=self._sets, p=self.chance_S)
            else:
                parent = np.arange(sets)
            steps = np.cumsum(found_S_A[parent], axis=1)
            answer = np.minimum((self._rng.random((len(parent), 1)) > steps).sum(axis=1), kinds - 1)
            chance = np.full(len(parent), 1.0 / len(parent))
        weights = self.weights_S_T[parent] * told_A_T[answer]
        self.weights_S_T = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
        self.chance_S = chance


@needs("model")
def batch_bald(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    draws: int = 128,
    sets: int = 256,
    candidates: int = 2_000,
    **options: Any,
) -> Choice:
    """Pick greedily by the joint mutual information of all picked answers and the weights.

    `pair_bald` moves the covariance after a pick and looks at pairs one by one; this follows the answers themselves, on draws.
    Draws can tell no more than log `draws` nats, so that late picks of large rounds are chosen by little.

    Args:
        posterior: what the model believes.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        draws: of the weights.
        sets: of answers to the picked pairs that are followed, at most.
        candidates: pairs looked at, or 4 per pair asked for if that is more; each costs `draws` × `sets` operations a pick.
        options: see `Search`.

    Raises:
        AcquireError: there is no posterior, or an option is unknown or out of range.
    """
    if draws < 2 or sets < 3 or candidates < 1:
        raise AcquireError(
            f"'draws' is 2 or more, 'sets' 3 or more and 'candidates' 1 or more, not {draws}, {sets} and {candidates}"
        )

    def look(posterior: Posterior, found: Candidates, curvature: Curvature) -> Joint:
        return Joint(posterior, found, curvature, draws=draws, sets=sets, rng=rng)

    return search_greedily(
        Joint.gain,
        posterior,
        n,
        taken=taken,
        rng=rng,
        strategy="batch_bald",
        ending=ENDING,
        options={**options, "candidates": max(candidates, 4 * n)},
        outlook=look,
    )
