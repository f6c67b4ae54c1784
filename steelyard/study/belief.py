"""What a study believes now: the newest model, moved by every answer since.

In continuous mode the next question already knows the last answer. A full fit after each would be wasteful, so the
newest model's posterior is moved by rank-one updates, and replaced when a new model arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.loop.state import State
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import AnswerArrays, Model
from steelyard.study.models import load_absent, usable_model

if TYPE_CHECKING:
    from steelyard.study.study import Study

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
        absent: rows of images that it could not read or that joined later; what the posterior says about them means nothing.
    """

    def __init__(self, study: Study) -> None:
        self._study, self._folder, self._store = study, study.folder, study.store
        self._begin(len(study.catalog))

    def _begin(self, images: int) -> None:
        self.state = State(images)
        self.start: Posterior | None = None
        self.model: Model | None = None
        self.absent: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.announced = 0
        self._last_pair = 0
        self._last_seq = 0
        self._observed: set[int] = set()
        self._excluded: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def refresh(self) -> Belief:
        """Read what is new: images, pairs, a newer model, answers since."""
        self._study.follow()
        if len(self._study.catalog) != self.state.taken.size:
            self._begin(len(self._study.catalog))  # pairs are kept by rows among so many
        columns = self._store.pairs.columns(after_id=self._last_pair)
        if len(columns):
            self.state.put_up(columns.rows[~columns.known], columns.round[~columns.known])
            self.state.set_apart(columns.rows[columns.known])
            self._last_pair = int(columns.id[-1])
        newest = self._store.models.newest()
        if newest is not None and newest.id != self.announced:
            self._start_from(*usable_model(self._folder, self._store, images=self.state.taken.size))
            self.announced = newest.id
        if self.model is None:
            return self
        answers = self._store.answers.arrays(after=self._last_seq)
        before, self._excluded = self._excluded, self._store.images.excluded_rows()
        moved = self._observed & set(answers.superseded.tolist())
        if moved or not np.array_equal(before, self._excluded):
            # What has moved the posterior was taken back, or is about an image that was taken out: start from the model.
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
        self.start = start
        self.absent = load_absent(self._folder / model.path, images=len(start))
        self.state.believe(start, round=model.round + 1)
        self.model, self._last_seq, self._observed = model, model.comparisons_seq, set()

    def _observe(self, answers: AnswerArrays) -> None:
        out = np.union1d(self.absent, self._excluded)
        usable = ~np.isnan(answers.labels) & ~np.isin(answers.pairs, out).any(axis=1)
        known = np.flatnonzero(usable)[: _MOST_UPDATES - len(self._observed)]
        self.state.observe(answers.pairs[known], answers.labels[known])
        self._observed.update(answers.seq[known].tolist())
        self._last_seq = answers.last_seq
