"""How reliable a study's answers are: gathers what people said and what the model, which did not see it, would have said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.evaluate.reliability import Answered, Person, people_of
from steelyard.evaluate.speed import seconds_taken
from steelyard.loop.chance import Purpose
from steelyard.ranker.left_out import left_out
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.temper import Temper
from steelyard.store.records import AnswerArrays, Model
from steelyard.study.judging import said_by
from steelyard.study.models import learnt_reserved, load_absent, usable_model

if TYPE_CHECKING:
    from steelyard.evaluate.figures import Figure
    from steelyard.ranker.answers_alone import AnswersAlone
    from steelyard.study.study import Study

__all__ = ["Reliability", "alone_of", "answered_of", "own_figures", "reliability_of"]

MODEL, OTHERS = "the model", "the other answers"


@dataclass(frozen=True)
class Reliability:
    """How reliable answers are.

    Attributes:
        people: everybody's figures.
        figures: those of all answers together.
        against: what answers were held against, in words.
    """

    people: list[Person]
    figures: list[Figure]
    against: str

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "figures": [figure.to_dict() for figure in self.figures],
            "people": [person.to_dict() for person in self.people],
            "held against": self.against,
        }


def reliability_of(study: Study, told: Answered) -> Reliability:
    """Everybody's figures, and those of all answers together.

    Args:
        study: whose answers they are.
        told: as `answered_of` gives them.
    """
    from steelyard.evaluate.figures import figures_of

    rng = study.chance.rng(Purpose.RELIABILITY, len(told.labels))
    return Reliability(people_of(told), figures_of(told, len(study.catalog), rng), told.against)


def own_figures(study: Study, annotator: str) -> Person | None:
    """Somebody's figures as their own answers alone tell them: no others and no model have a part in it."""
    given = study.store.answers.arrays()
    if annotator not in given.annotators:
        return None
    own = given.annotator == given.annotators.index(annotator)
    told = _columns(study, given, np.full((len(given), 3), np.nan), "")
    mine = Answered(
        told.pairs[own], told.labels[own], np.zeros(int(own.sum()), dtype=np.int64), (annotator,), told.left_first[own],
        told.seconds[own], told.random[own], told.probabilities[own], "",
    )  # fmt: skip
    found = people_of(mine)
    return found[0] if found else None


def answered_of(study: Study, answers: AnswerArrays) -> Answered:
    """The answers that count, beside what the newest model, or scores from the other answers, would have expected of each."""
    probabilities = _by_model(study, answers)
    if probabilities is not None:
        return _columns(study, answers, probabilities, MODEL)
    probabilities = np.full((len(answers), 3), np.nan)
    used = _counting(study, answers)
    if used.any():
        probabilities[used] = alone_of(study, answers).outcomes()
    return _columns(study, answers, probabilities, OTHERS)


def alone_of(study: Study, answers: AnswerArrays) -> AnswersAlone:
    """Scores from the answers alone; at least one must count."""
    from steelyard.ranker.answers_alone import fit_alone

    used = _counting(study, answers)
    rng = study.chance.rng(Purpose.RELIABILITY, int(used.sum()))
    return fit_alone(answers.pairs[used], answers.labels[used], len(study.catalog), rng=rng)


def _counting(study: Study, answers: AnswerArrays) -> NDArray[np.bool_]:
    """Answers of people who could judge, about images that are not excluded."""
    out = study.store.images.excluded_rows()
    return ~np.isnan(answers.labels) & ~np.isin(answers.pairs, out).any(axis=1)


def _columns(study: Study, answers: AnswerArrays, probabilities: Floats, against: str) -> Answered:
    """Pairs are turned so that the image with the smaller content id comes first: catalogs are often sorted by grade, and where
    *second* is the usual answer, α and κ take agreement for chance. An id knows nothing of the severity."""
    ids = study.catalog.ids
    turned = np.array([ids[int(i)] > ids[int(j)] for i, j in answers.pairs], dtype=bool)
    return Answered(
        np.where(turned[:, None], answers.pairs[:, ::-1], answers.pairs),
        np.where(turned, 1.0 - answers.labels, answers.labels),
        answers.annotator, answers.annotators, answers.left_first ^ turned,
        seconds_taken(answers.shown_at, answers.answered_at), answers.reserved,
        np.where(turned[:, None], probabilities[:, ::-1], probabilities), against,
    )  # fmt: skip


def _by_model(study: Study, answers: AnswerArrays) -> Floats | None:
    """What the newest model would have said of every answer without the answers about its pair; None where it cannot tell."""
    if study.store.models.newest() is None:
        return None
    model, posterior = usable_model(study.folder, study.store, images=len(study.catalog))
    absent = load_absent(study.folder / model.path, images=len(study.catalog))
    if not learnt_reserved(model) or posterior.kind != "laplace":
        return None  # a network cannot take back what it has learnt
    out = np.union1d(absent, study.store.images.excluded_rows()).astype(np.int64)
    said = ~np.isnan(answers.labels) & ~np.isin(answers.pairs, out).any(axis=1)
    probabilities = np.full((len(answers), 3), np.nan)
    mean, variance = _without_answers(study, posterior, model, answers.pairs[said], out)
    probabilities[said] = (posterior.temper or Temper(1.0, posterior.tau)).outcomes(mean, variance)
    return probabilities


def _without_answers(
    study: Study, posterior: Posterior, model: Model, pairs: Pairs, out: Rows
) -> tuple[Floats, Floats]:
    """Mean and variance of the difference of these pairs, as if the model had learnt nothing about the pair itself.

    What it has learnt is what taught then: of a pair that a lead has decided about, the decision.
    """
    mean, variance = posterior.difference(pairs)
    taught = study.store.answers.lessons(upto=model.comparisons_seq)
    used = ~np.isnan(taught.labels) & ~np.isin(taught.pairs, out).any(axis=1)
    if used.any():
        found = left_out(posterior, taught.pairs[used], taught.labels[used], said_by(taught)[used])
        images = np.int64(len(posterior))
        known, asked = (p[:, 0] * images + p[:, 1] for p in (found.pairs, pairs))
        at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        same = known[at] == asked
        mean[same], variance[same] = found.mean[at[same]], found.variance[at[same]]
    return mean, variance
