"""From answers to a ranker: which answers teach, and what a fit starts from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Pairs
from steelyard.errors import RankerError
from steelyard.progress import Progress

if TYPE_CHECKING:
    from steelyard.ranker.judges import Said
    from steelyard.ranker.learner import Learner
    from steelyard.ranker.ranker import Ranker

__all__ = ["fit", "starting_point", "teaching"]

log = logging.getLogger("steelyard")


def teaching(
    answers: Floats, reserved: NDArray[np.bool_] | None = None, *, learns_reserved: bool
) -> NDArray[np.bool_]:
    """Which answers teach: not those of somebody who could not judge, nor those held back from a ranker that cannot leave
    them out again when it is measured.

    Args:
        answers: P1, NaN where a pair could not be judged.
        reserved: answers held back to measure accuracy with.
        learns_reserved: of the ranker.
    """
    keep = ~np.isnan(answers)
    return keep if reserved is None or learns_reserved else keep & ~reserved


def fit(
    learner: Learner,
    pairs: Pairs,
    answers: Floats,
    *,
    reserved: NDArray[np.bool_] | None = None,
    grades: Floats | None = None,
    start: Ranker | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    said: Said | None = None,
) -> Ranker:
    """Fit on the answers that teach; arguments as for `Learner.fit` and `teaching`."""
    keep = teaching(answers, reserved, learns_reserved=learner.learns_reserved)
    return learner.fit(
        pairs[keep], answers[keep], grades=grades, start=start, folder=folder, progress=progress,
        said=None if said is None else said[keep],
    )  # fmt: skip


def starting_point(learner: Learner, earlier: Sequence[Callable[[], Ranker]]) -> Ranker | None:
    """The ranker that the next fit starts from, as `warm_start` says; None for pretrained or random weights.

    Args:
        learner: whose next fit; the convex ranker has one optimum and needs no start.
        earlier: give the rankers fitted before, oldest first. One that cannot be read, or is of another kind, is passed over:
            another start is better than no training.
    """
    config = learner.config
    if config.kind == "convex" or config.warm_start == "scratch":
        return None
    for load in earlier if config.warm_start == "round0" else reversed(earlier):
        try:
            ranker = load()
        except RankerError as error:
            log.warning("%s – the next model starts from another one", error)
            continue
        if ranker.config.kind == "network":
            return ranker
    return None
