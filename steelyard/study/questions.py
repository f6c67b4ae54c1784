"""New pairs of a study: the loop's choice, with what the store knows about images and earlier questions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.choice import Choice
from steelyard.arrays import Floats, Pairs, Rows
from steelyard.errors import RankerError, StudyError
from steelyard.images.presence import say_where
from steelyard.loop.choose import Features, next_pairs
from steelyard.loop.state import State
from steelyard.pairs import Pair
from steelyard.progress import Progress
from steelyard.ranker.inputs import coarse_rows
from steelyard.ranker.penultimate import distance_rows, learns_features, starts_pretrained
from steelyard.ranker.ranker import load_ranker
from steelyard.store.records import NewPair
from steelyard.study.inputs import missing_files
from steelyard.study.instructions import example_rows

if TYPE_CHECKING:
    from steelyard.study.belief import Belief
    from steelyard.study.study import Study

__all__ = ["Questions"]

log = logging.getLogger("steelyard")


class Questions:
    """Chooses pairs; drafts put up none: writing is left to whoever asked for them.

    Args:
        study: whose questions.
        belief: what it believes; brought up to date by every call.
    """

    def __init__(self, study: Study, belief: Belief) -> None:
        self._study, self._belief = study, belief
        self._known_examples: tuple[tuple[tuple[str, ...], int], Rows] | None = None
        self._known_rows: tuple[tuple[str, int], NDArray[Any]] | None = None

    def draft(
        self, n: int | None = None, *, strategy: str | None = None, progress: Progress | None = None
    ) -> list[NewPair]:
        """Choose n pairs; None chooses the whole start or the rest of the round.

        Raises:
            StudyError: not one file of the images is where it was.
        """
        state = self._belief.refresh().state
        many = self._study.policy.in_one_go(asked=state.asked, model=_model(state)) if n is None else n
        return self._new(many, strategy, progress)

    def put_up(self, new: list[NewPair]) -> list[Pair]:
        """Put pairs up for answering, without handing them to anybody."""
        ids, images = self._study.store.pairs.add_all(new), self._study.catalog.ids
        return [
            Pair(str(images[p.first]), str(images[p.second]), p.round, p.strategy, p.reason, id)
            for p, id in zip(new, ids, strict=True)
        ]

    def draft_for_person(self, missing: int, annotator: str, *, strategy: str | None = None) -> list[NewPair]:
        """Pairs for somebody who wants so many more than are up, and waits for them."""
        state = self._belief.refresh().state
        many = self._study.policy.how_many(missing, asked=state.asked, model=_model(state))
        return self._new(many, strategy, annotator=annotator)

    def draft_for_page(self, missing: int) -> list[NewPair] | None:
        """Pairs for people who wait; None where features are missing and the trainer is about to bring better ones."""
        store, policy, state = self._study.store, self._study.policy, self._belief.refresh().state
        many = policy.how_many(missing, asked=state.asked, model=_model(state))
        if many > missing:
            left = policy.left(answered=store.answers.count(), up=store.pairs.open_count())
            many = max(missing, min(many, left))
        many, strategy = policy.for_page(
            many, model=_model(state), described=lambda: self._study.described, up=store.pairs.free_count
        )
        return self._new(many, strategy) if many else None

    def draft_for_trainer(self, progress: Progress | None = None) -> list[NewPair]:
        """Pairs on features, for everybody who waits for them."""
        state = self._belief.refresh().state
        many = self._study.policy.by_trainer(asked=state.asked, model=_model(state))
        return self._new(many, None, progress)

    def _new(
        self, n: int, strategy: str | None, progress: Progress | None = None, *, annotator: str | None = None
    ) -> list[NewPair]:
        study, state, ask = self._study, self._belief.state, self._study.config.ask
        name = strategy or study.policy.strategy(_model(state))
        state.opinions = self._belief.opinions(annotator)
        choice = self._choice(n, name, progress)
        repeats = self._repeat_numbers(choice.pairs, choice.roles)
        return [
            NewPair(
                int(i), int(j), state.round, "random" if role == "random" else name, reason, float(score),
                reserved=role == "random", raters=ask.raters, repeat=repeat,
                asked_of=self._somebody_else((i, j)) if role == "second" else None,
            )
            for (i, j), role, reason, score, repeat in zip(
                choice.pairs.tolist(), choice.roles, choice.reasons, choice.scores.tolist(), repeats, strict=True
            )
        ]  # fmt: skip

    def _somebody_else(self, pair: tuple[int, int]) -> str:
        """Whose further opinion about a pair is worth most."""
        opinions = self._belief.state.opinions
        assert opinions is not None
        self._belief.once_more(pair)
        return opinions.best_for(pair)

    def _choice(self, n: int, strategy: str, progress: Progress | None) -> Choice:
        """Pairs of images that are there."""
        study, catalog = self._study, self._study.catalog

        def choose(left_out: Rows) -> Choice:
            return next_pairs(
                self._belief.state, n, policy=study.policy, chance=study.chance, features=self._features(progress),
                answered=self._answered, strategy=strategy, left_out=left_out,
            )  # fmt: skip

        left_out = np.union1d(study.store.images.excluded_rows(), self._belief.absent)
        left_out = np.union1d(left_out, self._examples()).astype(np.int64)
        choice = choose(left_out)
        if not len(missing_files(catalog, np.unique(choice.pairs))):
            return choice
        # Nobody can be asked about a picture that is gone. One is seldom alone: look at all, once, and choose again.
        gone = missing_files(catalog, np.arange(len(catalog)))
        if len(gone) == len(catalog):
            raise StudyError(
                f"not one of the {len(catalog)} images is where it was; is the folder mounted? If not, {say_where(study.folder)}"
            )
        return choose(np.union1d(left_out, gone).astype(np.int64))

    def _examples(self) -> Rows:
        """Images that people have read about; looked up again when the settings or the images are others."""
        now = self._study.config.people.examples, len(self._study.catalog)
        if self._known_examples is None or self._known_examples[0] != now:
            self._known_examples = now, example_rows(self._study)
        return self._known_examples[1]

    def _features(self, progress: Progress | None) -> Features:
        def rows() -> tuple[NDArray[Any], Rows]:
            seen = self._study.seen(progress)
            return self._distance_rows(seen.rows), seen.absent

        return rows

    def _answered(self) -> tuple[Pairs, Floats]:
        lessons = self._study.store.answers.lessons()
        return lessons.pairs, lessons.labels

    def _distance_rows(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Features of all images; a network's are computed once for each model."""
        study, config = self._study, self._study.config.ranker
        if not learns_features(config):
            return coarse_rows(inputs)
        newest = study.store.models.newest()
        now = ("" if newest is None or starts_pretrained(config) else newest.path), len(inputs)
        if self._known_rows is None or self._known_rows[0] != now:
            try:
                found = distance_rows(
                    config,
                    inputs,
                    newest=lambda: None if newest is None else load_ranker(study.folder / newest.path),
                )
            except RankerError as error:  # a damaged model, one of other settings, weights that are not there
                log.warning("%s – distances between images are measured in a coarse picture of them", error)
                found = coarse_rows(inputs)
            self._known_rows = now, found
        return self._known_rows[1]

    def _repeat_numbers(self, pairs: Pairs, roles: Sequence[str]) -> list[int]:
        store, ids = self._study.store, self._study.catalog.ids
        numbers = []
        for (i, j), role in zip(pairs.tolist(), roles, strict=True):
            repeat = 0
            while role == "repeat" and store.pairs.find(str(ids[i]), str(ids[j]), repeat):
                repeat += 1
            numbers.append(repeat)
        return numbers


def _model(state: State) -> bool:
    return state.posterior is not None
