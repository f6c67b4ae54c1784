"""Where the randomness of a loop comes from: a seed, a fold, a purpose – and nothing else.

Neither the method nor what was computed before has a part in it, so that all methods of a fold and seed begin with the same
pairs and weights, and a study asks what a cell of fold 0 with the same seed asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

__all__ = ["Chance", "Purpose"]


class Purpose(IntEnum):
    """What randomness is for. The numbers are part of every published run: add at the end, change none."""

    START = 0  # the first pairs
    VALIDATION = 1  # pairs that stop a network early, and the answers to them
    TEST = 2  # pairs that accuracy is measured on
    ANSWERS = 3  # what a virtual annotator gets wrong
    SELECT = 4  # the pairs of later rounds
    WEIGHTS = 5  # a network's first weights and its training
    SIDES = 6  # which image of a pair is shown on the left
    GRADING = 7  # images suggested for grading
    POOL = 8  # pairs that stand for all pairs of the pool
    FORECAST = 9  # what further answers would bring
    KNOWN = 10  # pairs whose answer follows from their grades
    ADJUDICATION = 13  # which image of a pair is on the left for whoever decides about it
    SCALES = 15  # how scales of several questions go together
    RELIABILITY = 16  # intervals of figures about people


@dataclass(frozen=True)
class Chance:
    """Random numbers for every purpose of one loop.

    >>> Chance(7).rng(Purpose.TEST).integers(100) == Chance(7, fold=0).rng(Purpose.TEST).integers(100)
    True
    """

    seed: int
    fold: int = 0

    def rng(self, purpose: Purpose, *numbers: int) -> np.random.Generator:
        """A generator of its own for each purpose and numbers."""
        return np.random.default_rng([self.seed, self.fold, int(purpose), *numbers])

    def choice(self, round: int, since: int = 0) -> np.random.Generator:
        """For choosing pairs.

        Args:
            round: the round they belong to; 0 before the first model.
            since: pairs already put up in that round; left out where it is 0, as for a round chosen in one go.
        """
        more = (since,) if since else ()
        return self.rng(Purpose.SELECT, round, *more) if round else self.rng(Purpose.START, *more)

    def weights(self) -> int:
        """Seed of a network's weights and training."""
        return int(self.rng(Purpose.WEIGHTS).integers(2**31))
