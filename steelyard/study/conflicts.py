"""Pairs of a study on which people disagree, or people and the model, with what everybody said and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.arrays import Floats, Pairs
from steelyard.errors import StudyError
from steelyard.evaluate.conflicts import rank_conflicts
from steelyard.loop.chance import Purpose
from steelyard.loop.learn import teaching
from steelyard.pairs import Answer, unique_pairs
from steelyard.ranker.left_out import left_out
from steelyard.ranker.temper import Temper
from steelyard.store.records import AnswerArrays, Comparison
from steelyard.study.judging import said_by
from steelyard.study.learning import answers_about
from steelyard.study.models import learnt_reserved, load_absent, usable_model

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = ["Conflict", "Said", "find_conflicts", "first_on_the_left", "predicted_outcomes"]


@dataclass(frozen=True)
class Said:
    """One answer; `answer` is about (first, second), so that `left` is the first image."""

    annotator: str
    answer: Answer
    at: float


@dataclass(frozen=True)
class Conflict:
    """A pair on which answers contradict each other or the model; the first image counts as left, the second as right.

    Attributes:
        pair: the store's number, of the question that was put first if it was repeated.
        first: catalog row.
        second: catalog row.
        people: how far people are apart, 0 to 1 (`evaluate/conflicts.py`).
        model: how surely the model contradicts them, 0 to 1.
        said: every answer that counts.
        leans: how likely the model thinks it that the first is more severe if either is, without the answers about this
            pair; None without a model.
        decision: what a lead decided, as it stands in the log; None where nobody has.
    """

    pair: int
    first: int
    second: int
    people: float
    model: float
    said: tuple[Said, ...]
    leans: float | None
    decision: Comparison | None

    @property
    def disagreement(self) -> float:
        """The larger of `people` and `model`, by which they are ranked."""
        return max(self.people, self.model)

    def counts(self) -> dict[Answer, int]:
        """How many gave each answer."""
        return {answer: sum(one.answer is answer for one in self.said) for answer in Answer}

    def decided(self, first: str) -> Answer | None:
        """The decision about (first, second); `first` is the first image's id."""
        if self.decision is None or self.decision.answer is None:
            return None
        answer = self.decision.answer
        return answer if self.decision.left == first else answer.mirrored()

    def to_dict(self, study: Study) -> dict[str, Any]:
        """Plain values for JSON and tables."""
        ids, paths = study.catalog.ids, study.catalog.paths
        first, second = str(ids[self.first]), str(ids[self.second])
        decided = self.decided(first)
        decision = None
        if self.decision is not None and decided is not None:
            decision = {
                "answer": decided.value,
                "annotator": self.decision.annotator,
                "answered_at": self.decision.answered_at,
                "note": self.decision.note,
                "id": self.decision.id,
            }
        return {
            "pair": self.pair,
            "left": first,
            "right": second,
            "left_path": str(paths[self.first]),
            "right_path": str(paths[self.second]),
            "disagreement": round(self.disagreement, 4),
            "people": round(self.people, 4),
            "model": round(self.model, 4),
            "said": [
                {"annotator": one.annotator, "answer": one.answer.value, "answered_at": one.at}
                for one in self.said
            ],
            "model_left": None if self.leans is None else round(self.leans, 4),
            "decision": decision,
        }


def find_conflicts(study: Study) -> list[Conflict]:
    """Every pair in conflict, the worst first; those that are decided stay in the list, with their decision.

    Which ones wait for a lead follows from `[ask] reading`. Decided pairs on which everybody agrees by now come last. Pairs of images that are excluded, or that could not be read,
    are left out.
    """
    study.follow()
    answers = answers_about(study.store.answers.arrays(), study.store.images.excluded_rows())
    decisions = {one.pair: one for one in study.store.decisions.all()}
    unique, _, place, count = unique_pairs(answers.pairs)
    outcomes = predicted_outcomes(study, unique)
    reading = study.config.ask.reading
    # Where two readers agree, a two-plus-one reading is closed, whatever a model thinks.
    chance = None
    if outcomes is not None and reading == "plain":
        chance = _of_answers(outcomes[place], answers.labels)
    found = rank_conflicts(answers.pairs, answers.labels, answers.annotator, chance)
    order = np.argsort(place, kind="stable")
    ends = np.cumsum(count)

    def conflict(k: int, people: float, model: float) -> Conflict:
        rows = order[ends[k - 1] if k else 0 : ends[k]].tolist()
        numbers = _asked(answers, rows)
        first, _, second = (None, None, None) if outcomes is None else outcomes[k].tolist()
        leans = None if first is None or not first + second > 0 else first / (first + second)
        return Conflict(
            numbers[0], int(unique[k, 0]), int(unique[k, 1]), people, model,
            tuple(_said(answers, row) for row in rows), leans,
            next((decisions[number] for number in numbers if number in decisions), None),
        )  # fmt: skip

    size = len(study.catalog)
    places = np.searchsorted(unique @ [size, 1], found.pairs @ [size, 1])
    ranked = [
        conflict(int(k), float(people), float(model))
        for k, people, model in zip(places, found.people, found.model, strict=True)
    ]
    if reading == "two_plus_annotator":  # a lead comes after the third
        waiting = {pair.id for pair in study.store.pairs.all(open=True)}
        ranked = [
            one for one in ranked if one.decision is not None or (one.pair not in waiting and _split(one))
        ]
    decided = np.unique(place[np.isin(answers.pair, list(decisions))])
    return ranked + [conflict(int(k), 0.0, 0.0) for k in np.setdiff1d(decided, places)]


def predicted_outcomes(study: Study, pairs: Pairs) -> Floats | None:
    """P(first), P(tie), P(second) by the newest model as if nobody had answered these pairs, shape (n, 3); None without a model.

    What cannot be told is NaN: pairs of images that the model has not read, ties where the ranker knows none. A ranker that
    cannot leave answers out says what it believes with them.

    Args:
        study: whose model.
        pairs: different pairs, rows (i, j) with i < j.
    """
    if study.store.models.newest() is None or not len(pairs):
        return None
    try:
        model, posterior = usable_model(study.folder, study.store, images=len(study.catalog))
        absent = load_absent(study.folder / model.path, images=len(study.catalog))
    except StudyError:
        return None  # what people said is worth reading even when the model cannot be read
    mean, variance = posterior.difference(pairs)
    learns = learnt_reserved(model)
    if learns and posterior.kind == "laplace":
        learnt = answers_about(study.store.answers.lessons(upto=model.comparisons_seq), absent)
        taught = teaching(learnt.labels, learnt.reserved, learns_reserved=learns)
        without = left_out(posterior, learnt.pairs[taught], learnt.labels[taught], said_by(learnt)[taught])
        size = len(posterior)
        known, wanted = (p[:, 0] * size + p[:, 1] for p in (without.pairs, pairs))
        if len(known):
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            here = known[at] == wanted
            mean[here], variance[here] = without.mean[at[here]], without.variance[at[here]]
    found = (posterior.temper or Temper(1.0, posterior.tau)).outcomes(mean, variance)
    if not found[:, 1].any():
        found[:, 1] = np.nan
    found[np.isin(pairs, absent).any(axis=1)] = np.nan
    return np.asarray(found, dtype=np.float64)


def first_on_the_left(study: Study, pair: int) -> bool:
    """Whether the first image of a pair is shown on the left to whoever decides: drawn anew, the same each time."""
    return bool(study.chance.rng(Purpose.ADJUDICATION, pair).integers(2))


def _split(conflict: Conflict) -> bool:
    """Whether no two people say the same."""
    return max(conflict.counts().values()) < 2


def _of_answers(outcomes: Floats, labels: Floats) -> Floats:
    """The probability of what was said, NaN where nobody could judge."""
    kinds = np.rint(2 - 2 * np.nan_to_num(labels)).astype(np.int64)
    return np.where(np.isnan(labels), np.nan, outcomes[np.arange(len(labels)), kinds])


def _asked(answers: AnswerArrays, rows: Sequence[int]) -> list[int]:
    """The store's numbers of the questions that these answers are about, the first question first."""
    numbers = {int(answers.repeat[row]): int(answers.pair[row]) for row in rows}
    return [numbers[repeat] for repeat in sorted(numbers)]


def _said(answers: AnswerArrays, row: int) -> Said:
    label = float(answers.labels[row])
    answer = Answer.CANNOT_JUDGE if np.isnan(label) else Answer.from_label(label)
    return Said(answers.annotators[int(answers.annotator[row])], answer, float(answers.answered_at[row]))
