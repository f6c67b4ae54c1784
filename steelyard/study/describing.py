"""Computing what the model sees of the images a while at a time, so that people and models need not wait for all of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from steelyard.arrays import Rows
from steelyard.images.cache import UnreadableImages
from steelyard.progress import Progress
from steelyard.study.inputs import SO_FAR
from steelyard.study.models import load_absent, load_waiting

if TYPE_CHECKING:
    from steelyard.store.records import Model
    from steelyard.study.study import Study

__all__ = ["TURN_SECONDS", "Describer", "outgrown"]

TURN_SECONDS = 60.0
"""How long a study is described before somebody looks whether a model or pairs are wanted; most need no second turn."""
_TOGETHER = 256
_GROWTH = 2.0  # a model is made anew when so many times the images that it knows have been computed


class Describer:
    """Computes the rows of a study's images: first of those that people were asked about, then in order.

    Attributes:
        paused: whether the last turn ended because its time was over. Then a model can be made of what is there.
    """

    def __init__(self, study: Study) -> None:
        self._study, self.paused = study, False
        self._unread: set[int] = set()

    def turn(self, progress: Progress | None, *, seconds: float | None = None) -> None:
        """Compute for a while, or to the end.

        Raises:
            ImageError: no image at all can be read.
            RankerError: features are needed and the catalog has none, or the other way round.
        """
        study, end = self._study, time.monotonic() + (TURN_SECONDS if seconds is None else seconds)
        tried = False
        while study.config.ranker.inputs != "activations":  # of which not even the shape is known before
            asked, others = self._missing()
            left = len(asked) + len(others)
            if not left:
                break
            if tried and time.monotonic() > end and left + len(self._unread) < len(study.catalog):
                self.paused, study.patient = True, False
                return
            self._compute(np.concatenate([asked, others])[:_TOGETHER], left, progress)
            tried = True
        self.paused, study.patient = False, True
        study.seen(progress)  # all are there, or have been tried

    def catch_up(self, progress: Progress | None) -> None:
        """Compute what people were asked about since: an answer about an image that nothing is known of teaches nothing."""
        asked, others = self._missing()
        if len(asked):
            self._compute(asked, len(asked) + len(others), progress)

    def _missing(self) -> tuple[Rows, Rows]:
        """Images that were not tried yet: those that people were asked about, and the others."""
        from steelyard.ranker.inputs import missing_inputs

        study = self._study
        missing = missing_inputs(study.catalog, study.config.ranker, study.folder / "cache")
        todo = np.setdiff1d(missing, list(self._unread)).astype(np.int64)
        asked = np.intersect1d(study.store.pairs.columns().rows, todo)
        return asked, np.setdiff1d(todo, asked)

    def _compute(self, rows: Rows, left: int, progress: Progress | None) -> None:
        from steelyard.ranker.inputs import read_inputs

        study, images = self._study, len(self._study.catalog)

        def tell(done: int, _total: int, text: str) -> None:
            if progress is not None:
                progress(images - left + done, images, text)

        try:
            read_inputs(
                study.catalog.subset(rows), study.config.ranker, cache=study.folder / "cache", progress=tell
            )
        except UnreadableImages as error:
            self._unread.update(int(rows[position]) for position in error.positions)


def outgrown(study: Study, model: Model | None) -> bool:
    """Whether far more images have been computed since than a model knows, or all are now."""
    if model is None or not load_waiting(study.folder / model.path):
        return False
    if study.described:
        return True
    from steelyard.ranker.inputs import missing_inputs

    images = len(study.catalog)
    knows = images - len(load_absent(study.folder / model.path, images=images))
    there = images - len(missing_inputs(study.catalog, study.config.ranker, study.folder / "cache"))
    return min(there, SO_FAR) >= _GROWTH * knows
