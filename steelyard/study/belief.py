"""What a study believes now: the newest model, moved by every answer since.

In continuous mode the next question already knows the last answer. A full fit after each would be wasteful, so the
newest model's posterior is moved by rank-one updates, and replaced when a new model arrives. What the model has learnt and
what teaches no more – it was taken back, or a lead has decided about its pair – is taken out of it in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.loop.hearing import Hearing, Opinions
from steelyard.loop.learn import teaching
from steelyard.loop.state import State
from steelyard.ranker.left_out import forget
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import AnswerArrays, Model
from steelyard.study.judging import said_by
from steelyard.study.learning import some_answers
from steelyard.study.models import learnt_reserved, load_absent, usable_model

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
        self._hearing: Hearing | None = None
        self._once_more: set[tuple[int, int]] = set()

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
        started = newest is not None and newest.id != self.announced
        if newest is not None and started:
            self._start_from(*usable_model(self._folder, self._store, images=self.state.taken.size))
            self.announced = newest.id
        if self.model is None:
            return self
        before, self._excluded = self._excluded, self._store.images.excluded_rows()
        answers = self._store.answers.lessons(after=self._last_seq)
        moved = len(answers.superseded) > 0 or answers.last_decision > self._last_seq
        if moved or not np.array_equal(before, self._excluded):
            # What has moved the posterior teaches no more, or is about an image that was taken out: start from the model.
            assert self.start is not None
            self._start_from(self.model, self.start)
            started = True
        self._hear(None if started else answers)
        self._observe(self._since_the_model(self.model) if started else answers)
        return self

    def opinions(self, annotator: str | None = None) -> Opinions | None:
        """What was said about asked pairs, for choosing what to ask somebody again; None where the study asks nobody again.

        Args:
            annotator: who is going to be asked; None is whoever is best asked.
        """
        posterior = self.state.posterior
        if self._hearing is None or posterior is None:
            return None
        up = [*map(tuple, self._store.pairs.open_rows().tolist()), *self._once_more]
        return self._hearing.opinions(
            posterior, up=np.array(up, dtype=np.int64).reshape(-1, 2), annotator=annotator
        )

    def once_more(self, pair: tuple[int, int]) -> None:
        """Somebody else is asked about a pair: it is not chosen again before it has a further answer, nor where the store refused."""
        self._once_more.add((min(pair), max(pair)))

    def _hear(self, new: AnswerArrays | None) -> None:
        """Keep the answers for `opinions`; None reads all anew."""
        if not self._study.config.ask.second_opinions:
            self._hearing = None
            return
        if new is None or self._hearing is None:
            self._hearing, new = Hearing(self.state.taken.size), self._store.answers.lessons()
        self._hearing.add(new.pairs, new.labels, said_by(new), new.reserved)
        self._once_more.difference_update(map(tuple, new.pairs.tolist()))

    def _since_the_model(self, model: Model) -> AnswerArrays:
        """What has come since the model; what it learnt and teaches no more is taken out of the posterior."""
        learnt_upto = model.comparisons_seq
        since = self._store.answers.lessons(after=learnt_upto)
        if not len(since.superseded) and since.last_decision <= learnt_upto:
            return since
        now, then = self._store.answers.lessons(), self._store.answers.lessons(upto=learnt_upto)
        gone = ~np.isin(then.seq, now.seq) & self._usable(then)
        gone &= teaching(then.labels, then.reserved, learns_reserved=learnt_reserved(model))
        posterior = self.state.posterior
        if gone.any() and posterior is not None and posterior.kind == "laplace":
            self.state.posterior = forget(posterior, then.pairs[gone], then.labels[gone], said_by(then)[gone])
        # An answer of before may teach again: the decision that stood in its place was taken back.
        return some_answers(now, ~np.isin(now.seq, then.seq))

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
        known = np.flatnonzero(self._usable(answers))[: _MOST_UPDATES - len(self._observed)]
        self.state.observe(answers.pairs[known], answers.labels[known], said_by(answers)[known])
        self._observed.update(answers.seq[known].tolist())
        self._last_seq = answers.last_seq

    def _usable(self, answers: AnswerArrays) -> NDArray[np.bool_]:
        """Which answers say something about images that are in the study and were read."""
        out = np.union1d(self.absent, self._excluded)
        return np.asarray(~np.isnan(answers.labels) & ~np.isin(answers.pairs, out).any(axis=1), dtype=bool)
