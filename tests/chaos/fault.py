"""What a fault is."""

from __future__ import annotations

import contextlib
import random
import time
from typing import TYPE_CHECKING, ClassVar

from tests.waiting import until

if TYPE_CHECKING:
    from tests.chaos.world import World


class Fault:
    """One kind of misfortune.

    Attributes:
        name: kind and detail, as in `kill-server`; `--faults kill` takes every kind that begins so.
        only: the database it makes sense with; empty for both.
    """

    name: ClassVar[str]
    only: ClassVar[str] = ""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng

    def strike(self) -> None:
        """Let it happen."""
        raise NotImplementedError

    def mend(self) -> None:
        """Do what a person has to do; nothing where the software recovers by itself."""

    def suffer(self, seconds: float = 6.0) -> None:
        """Leave it for a while: until people have noticed, and a little longer."""
        before = self.world.failed()
        with contextlib.suppress(TimeoutError):  # a fault that nobody notices is fine
            until(lambda: self.world.failed() > before + 2, "an attempt that fails", seconds=seconds)
        time.sleep(self.rng.uniform(0.0, 1.0))
