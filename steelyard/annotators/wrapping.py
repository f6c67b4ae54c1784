"""Annotators that change the answers of another: a tired one, one that prefers a side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from steelyard.annotators.virtual import VirtualAnnotator, check_above, check_share
from steelyard.arrays import Floats
from steelyard.errors import PairError

__all__ = ["SideBiasedAnnotator", "TiringAnnotator"]


@dataclass
class TiringAnnotator:
    """Makes slips that grow with the number of answers since the last break: a slip exchanges left and right.

    The share of slips rises from 0 towards `worst`, half of it after `stamina` answers. The only annotator with a memory.

    Args:
        annotator: who answers while awake.
        stamina: answers after which half of the tiring is done.
        worst: share of slips when worn out; 0.5 is guessing.
        pause: answers after which a break is taken of its own accord; 0 never.
    """

    annotator: VirtualAnnotator
    stamina: int = 200
    worst: float = 0.3
    pause: int = 0
    answered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_above("stamina", self.stamina, 0.0)
        check_share("worst", self.worst)
        check_above("pause", self.pause, 0.0, equal=True)

    def rest(self) -> None:
        """Take a break."""
        self.answered = 0

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """The wrapped annotator's answers, some of them exchanged."""
        given = self.annotator.answer(pairs, rng)
        since = self.answered + np.arange(len(given))
        self.answered += len(given)
        if self.pause:
            since %= self.pause
            self.answered %= self.pause
        slips = rng.random(len(given)) < self.worst * since / (since + self.stamina)
        return np.asarray(np.where(slips, 1.0 - given, given))


@dataclass
class SideBiasedAnnotator:
    """Prefers a side: takes it instead of "equal", and now and then whatever is there.

    Args:
        annotator: who answers without the bias.
        side: the preferred one; the first image of a pair is on the left.
        strength: share of answers that go to that side regardless.
        ties: share of "equal" that become that side.
    """

    annotator: VirtualAnnotator
    side: Literal["left", "right"] = "left"
    strength: float = 0.05
    ties: float = 0.5

    def __post_init__(self) -> None:
        if self.side not in ("left", "right"):
            raise PairError(f"a side is 'left' or 'right', not {self.side!r}")
        check_share("strength", self.strength)
        check_share("ties", self.ties)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """The wrapped annotator's answers, some of them moved to the side."""
        given = self.annotator.answer(pairs, rng)
        luck = rng.random(len(given))
        moved = (luck < self.strength) | (
            (given == 0.5) & (luck < self.strength + (1.0 - self.strength) * self.ties)
        )
        return np.asarray(np.where(moved & ~np.isnan(given), 1.0 if self.side == "left" else 0.0, given))
