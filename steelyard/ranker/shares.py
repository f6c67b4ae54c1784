"""The steps of an epoch, and what each process computes of a step.

Steps, places and draws are those of one process, however many there are: a process takes every n-th pair of a step, with the draws
that belong to their places. What has to be weighed so that the sums come out the same is said here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Rows

__all__ = ["Share", "share_of", "steps_of"]


@dataclass(frozen=True)
class Share:
    """What one process computes of one step.

    Attributes:
        step: the examples of the whole step.
        places: which of them this process computes.
        owner: for each place, the process that computes it; -1 for all of them.
        processes: how many there are.
    """

    step: Rows
    places: Rows
    owner: Rows
    processes: int

    @property
    def weight(self) -> float:
        """What an example counts here, so that over all processes each counts once."""
        return 1 / self.processes if self.processes > 1 and self.owner[0] < 0 else 1.0

    @property
    def part(self) -> float:
        """How much of the step's mean comes from here; over all processes 1."""
        return self.weight * len(self.places) / len(self.step)

    def image_weights(self, rows: NDArray[np.int64], images: int) -> Floats:
        """The same for each image of the step: an image whose pairs lie in two processes counts a half in each.

        Args:
            rows: the image of each place, shape (…, examples).
            images: how many there are.
        """
        if self.processes == 1 or self.owner[0] < 0:
            return np.full(images, self.weight)
        seen = np.zeros((images, self.processes), dtype=bool)
        seen[rows, np.broadcast_to(self.owner, rows.shape)] = True
        return np.asarray(1 / seen.sum(axis=1))


def steps_of(order: Rows, batch: int) -> list[Rows]:
    """The steps of an epoch, of `batch` examples each; the last one takes what is left."""
    cuts = list(range(0, len(order), batch))
    if len(cuts) > 1 and len(order) - cuts[-1] == 1:
        cuts.pop()  # batch norm has nothing to say about a single example; it joins the step before
    return [order[at:end] for at, end in zip(cuts, [*cuts[1:], len(order)], strict=True)]


def share_of(step: Rows, rank: int, processes: int) -> Share:
    """What process `rank` computes of a step; one with fewer examples than processes is computed by all of them."""
    places = np.arange(len(step))
    if len(step) < processes:
        return Share(step, places, np.full(len(step), -1), processes)
    return Share(step, places[rank::processes], places % processes, processes)
