"""Scores from a study's answers alone, beside the model's, and the images on which the two differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.arrays import Floats, Ints
from steelyard.errors import StudyError, command
from steelyard.evaluate.misfit import misfit
from steelyard.evaluate.reliability import Answered
from steelyard.evaluate.two_scores import TwoScores, compare_scores
from steelyard.ranker.temper import Temper
from steelyard.store.records import AnswerArrays
from steelyard.study.agreement import MODEL, alone_of, answered_of
from steelyard.study.models import load_absent, usable_model
from steelyard.study.scores import rank_order

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.ranker.answers_alone import AnswersAlone
    from steelyard.study.study import Study

__all__ = ["BothScores", "alone_table", "beside_the_model", "both_scores", "why_they_differ"]


@dataclass(frozen=True)
class BothScores:
    """Scores from the answers alone, and how the model's compare.

    Attributes:
        alone: the scores from the answers alone.
        beside: the model's on the same scale, and where they differ; None where there is no model whose predictions could be
            made without the answers (none yet, or a network).
        infit: of the answers about each image, NaN without any, shape (N,).
        outfit: the same, unweighted.
        out: rows of excluded images.
    """

    alone: AnswersAlone
    beside: TwoScores | None
    infit: Floats
    outfit: Floats
    out: Ints

    @property
    def differing(self) -> Ints:
        """Rows on which the two scores differ, the least likely by chance first."""
        if self.beside is None:
            return np.zeros(0, dtype=np.int64)
        rows = np.flatnonzero(self.beside.differs)
        return rows[np.argsort(self.beside.p_value[rows], kind="stable")].astype(np.int64)


def both_scores(
    study: Study, answers: AnswerArrays | None = None, told: Answered | None = None
) -> BothScores:
    """Fit scores to the answers alone and hold the model's beside them.

    Args:
        study: with at least one answer that counts.
        answers: what the store has, if it was read already.
        told: the same, beside what was expected of each, if that was found already.

    Raises:
        StudyError: nobody has answered yet.
    """
    given = study.store.answers.arrays() if answers is None else answers
    out = study.store.images.excluded_rows()
    if not (~np.isnan(given.labels) & ~np.isin(given.pairs, out).any(axis=1)).any():
        raise StudyError(
            f"scores from answers alone need answers; compare some pairs first: {command('serve', study.folder)}"
        )
    alone, told = alone_of(study, given), told or answered_of(study, given)
    twice = np.concatenate([told.pairs[:, 0], told.pairs[:, 1]])
    surprise = misfit(
        np.tile(told.probabilities, (2, 1)), np.tile(told.labels, 2), twice, len(study.catalog), against_others=False
    )  # fmt: skip
    beside = _beside(study, alone, told) if told.against == MODEL else None
    return BothScores(alone, beside, surprise.infit, surprise.outfit, out)


def _beside(study: Study, alone: AnswersAlone, told: Answered) -> TwoScores:
    images = len(study.catalog)
    model, posterior = usable_model(study.folder, study.store, images=images)
    temper = posterior.temper or Temper(1.0, posterior.tau)
    expected = told.probabilities
    if posterior.effects is not None:
        # Effects follow the answers; what people see and the features do not is in what the features alone expect.
        posterior = posterior.with_effects(None)
        expected = Temper(temper.scale, temper.tau).outcomes(*posterior.difference(told.pairs))
        expected[np.isnan(told.probabilities).any(axis=1)] = np.nan
    score = np.array(posterior.mean, dtype=np.float64)
    score[load_absent(study.folder / model.path, images=images)] = np.nan
    score[study.store.images.excluded_rows()] = np.nan
    return compare_scores(
        alone.score, alone.deviation, score, np.sqrt(np.asarray(posterior.variance, dtype=np.float64)),
        scale=temper.scale, spread=temper.scale,
        probabilities=expected, answers=told.labels, pairs=told.pairs,
    )  # fmt: skip


def alone_table(study: Study) -> pd.DataFrame:
    """`image`, `path`, `answers`, `alone`, `alone_uncertainty`, `alone_low`, `alone_high` (95%), `alone_rank`, `model_alone`,
    `differs`, `infit`, `outfit` of every image that is not excluded, the highest first.

    `model_alone` is the model's score on the scale of the answers; it, `differs` are empty where there is nothing to compare with.
    """
    import pandas as pd

    both = both_scores(study)
    alone, images = both.alone, len(study.catalog)
    rows = rank_order(alone.score, both.out)
    placed = np.full(images, np.nan) if both.beside is None else both.beside.placed
    differs = [
        None if np.isnan(placed[row]) else bool(both.beside and both.beside.differs[row]) for row in rows
    ]
    return pd.DataFrame(
        {
            "image": [str(study.catalog.ids[int(row)]) for row in rows],
            "path": [str(study.catalog.paths[int(row)]) for row in rows],
            "answers": alone.answers[rows],
            "alone": alone.score[rows],
            "alone_uncertainty": alone.deviation[rows],
            "alone_low": (alone.score - 1.96 * alone.deviation)[rows],
            "alone_high": (alone.score + 1.96 * alone.deviation)[rows],
            "alone_rank": np.arange(1, len(rows) + 1),
            "model_alone": placed[rows],
            "differs": differs,
            "infit": both.infit[rows],
            "outfit": both.outfit[rows],
        }
    )


def beside_the_model(study: Study, scores: pd.DataFrame | None) -> pd.DataFrame:
    """The table of the model's scores with the columns of `alone_table`; those alone where there is no model."""
    alone = alone_table(study)
    if scores is None:
        return alone
    joined = scores.merge(alone.drop(columns="path"), on="image", how="left")
    joined.attrs.update(scores.attrs)
    return joined


def why_they_differ(higher: bool, answers: int) -> str:
    """What to do about an image on which the two scores differ.

    Args:
        higher: whether the answers put it higher than the model does.
        answers: how many there are about it.
    """
    where = "higher" if higher else "lower"
    return (
        f"{answers:,} answers put it {where} than the model does: mislabelled, or a blind spot of the model; "
        "look at its comparisons."
    )
