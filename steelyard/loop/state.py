"""What a loop knows between two questions: which pairs were put up, and what is believed about the scores."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats, Pairs
from steelyard.loop.hearing import Opinions
from steelyard.pairs import PairSet
from steelyard.ranker.judges import Said
from steelyard.ranker.posterior import Posterior

__all__ = ["State"]


class State:
    """Pairs put up and the belief about the scores.

    Args:
        images: how many may be asked about.

    Attributes:
        taken: every pair that was ever put up, or that is set apart.
        posterior: what is believed about the scores, None before the first model.
        round: the round that the next pairs belong to; 0 before the first model.
        opinions: what was said about asked pairs, where somebody else may be asked about them too; None where nobody may.
    """

    def __init__(self, images: int) -> None:
        self.taken = PairSet(images)
        self.posterior: Posterior | None = None
        self.round = 0
        self.opinions: Opinions | None = None
        self._put_up: Counter[int] = Counter()
        self._apart = 0

    @property
    def asked(self) -> int:
        """Different pairs put up so far."""
        return len(self.taken) - self._apart

    @property
    def since(self) -> int:
        """Pairs put up in this round."""
        return self._put_up[self.round]

    def put_up(self, pairs: Pairs, rounds: ArrayLike | None = None) -> None:
        """Pairs are asked now, or were in other rounds."""
        self.taken.add(pairs)
        if rounds is None:
            self._put_up[self.round] += len(pairs)
        else:
            self._put_up.update(np.asarray(rounds).tolist())

    def set_apart(self, pairs: Pairs) -> None:
        """Pairs that are never to be asked, though nobody was asked about them either: their answer is known."""
        before = len(self.taken)
        self.taken.add(pairs)
        self._apart += len(self.taken) - before

    def believe(self, posterior: Posterior, round: int | None = None) -> None:
        """A model was fitted: the next round begins."""
        self.posterior = posterior
        self.round = self.round + 1 if round is None else round

    def observe(self, pairs: Pairs, answers: Floats, said: Said | None = None) -> None:
        """Move the belief by answers that came after the model, each by a rank-one update (continuous mode)."""
        assert self.posterior is not None
        for n, (pair, answer) in enumerate(zip(pairs, answers.tolist(), strict=True)):
            own = None if said is None else said[np.array([n])]
            self.posterior = self.posterior.observe(pair, answer, own)
