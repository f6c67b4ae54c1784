"""What a study believes now: the newest model, moved by every answer since.

In continuous mode the next question already knows the last answer. A full fit after each would be wasteful, so the
newest model's posterior is moved by rank-one updates, and replaced when a new model arrives.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.loop.state import State
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import AnswerArrays, Model
from steelyard.store.store import Store
from steelyard.study.models import load_absent, usable_model

__all__ = ["Belief"]

# Beyond this many answers the curvatures of the fit are stale anyway; the trainer's next model brings them in.
_MOST_UPDATES = 2_000


class Belief:
    """The state of a study's loop, kept in step with the store.

    Attributes:
        state: pairs put up, and what is believed about the scores.
        model: the model it started from.
        start: its posterior before any answer since, None before the first model.
        announced: number of the newest model when we looked; `model` is an older one if that could not be read.
        absent: rows of images that it could not read; what the posterior says about them means nothing.
    """

    def __init__(self, folder: Path, store: Store, size: int) -> None:
        self._folder, self._store = folder, store
        self.state = State(size)
        self.start: Posterior | None = None
        self.model: Model | None = None
        self.absent: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.announced = 0
        self._last_pair = 0
        self._last_seq = 0
        self._observed: set[int] = set()

    def refresh(self) -> Belief:
        """Read what is new: pairs, a newer model, answers since."""
        columns = self._store.pairs.columns(after_id=self._last_pair)
        if len(columns):
            self.state.put_up(columns.rows, columns.round)
            self._last_pair = int(columns.id[-1])
        newest = self._store.models.newest()
        if newest is not None and newest.id != self.announced:
            self._start_from(*usable_model(self._folder, self._store))
            self.announced = newest.id
        if self.model is None:
            return self
        answers = self._store.answers.arrays(after=self._last_seq)
        if self._observed & set(answers.superseded.tolist()):
            # An answer that has moved the posterior was taken back: start again from the model.
            assert self.start is not None
            self._start_from(self.model, self.start)
            answers = self._store.answers.arrays(after=self._last_seq)
        self._observe(answers)
        return self

    def _start_from(self, model: Model, start: Posterior) -> None:
        if len(start) != self.state.taken.size:
            raise StudyError(
                f"{self._folder / model.path} is about {len(start)} images, but the study has {self.state.taken.size}; "
                "train again with: steelyard train"
            )
        self.start, self.absent = start, load_absent(self._folder / model.path)
        self.state.believe(start, round=model.round + 1)
        self.model, self._last_seq, self._observed = model, model.comparisons_seq, set()

    def _observe(self, answers: AnswerArrays) -> None:
        usable = ~np.isnan(answers.labels) & ~np.isin(answers.pairs, self.absent).any(axis=1)
        known = np.flatnonzero(usable)[: _MOST_UPDATES - len(self._observed)]
        self.state.observe(answers.pairs[known], answers.labels[known])
        self._observed.update(answers.seq[known].tolist())
        self._last_seq = answers.last_seq
