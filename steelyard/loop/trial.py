"""The loop with a virtual annotator: choose, answer, learn, round by round – what a study does, without people and a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.annotators import VirtualAnnotator
from steelyard.arrays import Floats, Pairs, Rows
from steelyard.loop.chance import Chance, Purpose
from steelyard.loop.choose import next_pairs
from steelyard.loop.learn import fit, starting_point
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.progress import Progress
from steelyard.ranker.learner import Learner
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.ranker import Ranker

__all__ = ["Trial"]


class Trial:
    """One loop from its first pair on.

    Args:
        policy: how is asked.
        chance: where randomness comes from.
        learner: fits; its `pool` is what may be asked about.
        annotator: answers about any image of the learner's inputs.
        features: gives a row for each image of the pool, for strategies that need them.
        options: of the strategy, from the first model on.

    Attributes:
        state: what is known; it counts the rows of the pool 0 … P−1, so that no strategy can even name another image.
        pairs: asked so far, as rows of all inputs, shape (n, 2).
        answers: what was said, NaN where a pair could not be judged: it costs an answer and teaches nothing.
        ranker: of the last fit.
    """

    def __init__(
        self,
        policy: Policy,
        chance: Chance,
        learner: Learner,
        annotator: VirtualAnnotator,
        features: Callable[[], NDArray[Any]],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.policy, self.chance, self.learner, self.annotator = policy, chance, learner, annotator
        self.pool: Rows = np.arange(learner.size) if learner.pool is None else learner.pool
        self.state = State(len(self.pool))
        self.pairs: Pairs = np.empty((0, 2), dtype=np.int64)
        self.answers: Floats = np.empty(0)
        self.ranker: Ranker | None = None
        self._features, self._options = features, options
        self._first: Ranker | None = None

    def choose(self, round: int) -> Pairs:
        """The pairs of a round, as rows of the pool."""
        return next_pairs(
            self.state,
            self.policy.schedule.total(round) - len(self.pairs),
            policy=self.policy,
            chance=self.chance,
            features=lambda: (self._features(), np.empty(0, dtype=np.int64)),
            answered=lambda: (np.searchsorted(self.pool, self.pairs), self.answers),
            options=self._options if self.state.posterior is not None else None,
        ).pairs

    def answer(self, chosen: Pairs) -> tuple[Pairs, Floats]:
        """Ask about pairs of the pool; returns them as rows of all inputs, with the answers."""
        pairs = self.pool[chosen]
        said = self.annotator.answer(pairs, self.chance.rng(Purpose.ANSWERS, self.state.round))
        self.state.put_up(chosen)
        self.pairs, self.answers = np.concatenate([self.pairs, pairs]), np.concatenate([self.answers, said])
        return pairs, said

    def learn(self, grades: Floats | None = None, *, progress: Progress | None = None) -> Ranker:
        """Fit on all answers so far, with grades as a second task if there are any (P6)."""
        earlier = [lambda one=one: one for one in (self._first, self.ranker) if one is not None]
        start = starting_point(self.learner, earlier)
        ranker = fit(self.learner, self.pairs, self.answers, grades=grades, start=start, progress=progress)
        if grades is None:
            self._first, self.ranker = self._first or ranker, ranker
        return ranker

    def believe(self, posterior: Posterior) -> None:
        """What the last fit says about the pool: the next round begins."""
        self.state.believe(posterior)
