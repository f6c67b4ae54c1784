"""The scales of a study side by side: scores on each, their composite, and how they go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config.questions import COMPOSITE, MAIN
from steelyard.errors import StudyError, command
from steelyard.evaluate.scales import ScaleCorrelation, composite, correlate_scales, reliability
from steelyard.loop.chance import Purpose
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import Model
from steelyard.study.asked import counted
from steelyard.study.judging import judges_of
from steelyard.study.scale_heads import FEWEST, load_head

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study.study import Study

__all__ = [
    "QuestionsReport",
    "Scale",
    "add_scales",
    "further_judges",
    "of_question",
    "on_scale",
    "place_on_scales",
    "questions_report",
    "scales_of",
    "why_no_scale",
]

_ACCURACY = ("accuracy", "accuracy_low", "accuracy_high")
_DRAWS, _IMAGES = 400, 2000  # of a correlation's interval: more of either changes nothing that is shown


def _no_scale(study: Study, key: str) -> StudyError:
    """The error for a question whose scale the newest model does not have."""
    answers = counted(study.config, study.store).get(key, 0)
    if answers < FEWEST:
        what = f"it has {answers} answer{'s' * (answers != 1)}, and a scale needs {FEWEST}; answer more pairs"
    else:
        what = (
            f"its {answers} answers came after the newest model; train with: {command('train', study.folder)}"
        )
    return StudyError(f"the question {key!r} has no scale yet: {what}")


def why_no_scale(study: Study, model: Model, scale: str) -> str:
    """Why a page cannot show a scale that a model does not have, and what to do: of a further question, or the composite."""
    if scale != COMPOSITE:
        answers = counted(study.config, study.store).get(scale, 0)
        if answers >= FEWEST:
            return "Its answers came after the newest model; the scale appears with the next training."
        return f"It has {answers} answer{'s' * (answers != 1)}, and a scale needs {FEWEST}. Answer it for more pairs; the scale appears with the training after."
    counting = [one for one in study.config.questions if one.weight]
    if not counting and not study.config.page.weight:
        return "No scale counts in it: every weight is 0. Set one in study.toml."
    missing = [one for one in counting if load_head(study.folder / model.path, one.key) is None]
    if not missing:
        return "It appears with the next training."
    return f"It needs every scale that counts, and “{missing[0].question}” has none yet. {why_no_scale(study, model, missing[0].key)}"


@dataclass(frozen=True)
class Scale:
    """One scale of a study.

    Attributes:
        key: of its question, `main` for the main one.
        posterior: of the images that have a score, in their order; None where the newest model has no such scale.
        weight: in the composite score.
    """

    key: str
    posterior: Posterior | None
    weight: float


def scales_of(
    study: Study, model: Model, main: Posterior, rows: Rows, *, strangers: bool = False
) -> list[Scale]:
    """Every scale of a model over the same images, the main one first.

    Args:
        study: whose questions.
        model: the newest that can be read.
        main: its posterior.
        rows: the images that have a score.
        strangers: whether they are not the study's own.
    """
    part = main.rows(rows)
    found = [Scale(MAIN, part, study.config.page.weight)]
    for one in study.config.questions:
        head = load_head(study.folder / model.path, one.key)
        fits = head is not None and head.size == part.features_N_D.shape[1]
        images = None if strangers else rows
        own = head.posterior(part.features_N_D, images) if head and fits else None
        found.append(Scale(one.key, own, one.weight))
    return found


def of_question(
    study: Study, model: Model, main: Posterior, key: str, *, strangers: bool = False
) -> Posterior:
    """The posterior of the same images on the scale of a question; an empty key is the main one. Arguments as for `scales_of`.

    Raises:
        StudyError: the model has no such scale yet.
    """
    if not key:
        return main
    every = scales_of(study, model, main, np.arange(len(main)), strangers=strangers)
    [scale] = [one for one in every if one.key == key]
    if scale.posterior is None:
        raise _no_scale(study, key)
    return scale.posterior


def on_scale(
    study: Study, model: Model, main: Posterior, scale: str, left_out: Rows
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Score and uncertainty of every image on one scale, NaN where it is left out; None where the model has no such scale.

    Args:
        study: whose questions.
        model: the newest that can be read.
        main: its posterior.
        scale: the key of a further question, or `composite`.
        left_out: images that have no score.
    """
    rows = np.setdiff1d(np.arange(len(main)), left_out)
    scales = scales_of(study, model, main, rows)
    if scale == COMPOSITE:
        mean, std = _composite(scales, scales, len(rows))
    else:
        [one] = [one for one in scales if one.key == scale]
        mean, std = _mean_std(one.posterior, len(rows))
    if np.isnan(mean).any():
        return None
    score, uncertainty = np.full(len(main), np.nan), np.full(len(main), np.nan)
    score[rows], uncertainty[rows] = mean, std
    return score, uncertainty


def add_scales(
    table: pd.DataFrame, scales: list[Scale], places: NDArray[np.int64], unit: list[Scale] | None = None
) -> None:
    """Put `score_KEY` and `uncertainty_KEY` of every further question into a table of scores, and the `composite`.

    Args:
        table: of scores, in any order.
        scales: the main one first.
        places: which image of the scales each row of the table is.
        unit: scales of the images that standardise, None where they are the same.
    """
    for scale in scales:
        if scale.key != MAIN:
            mean, std = _mean_std(scale.posterior, len(places))
            table[f"score_{scale.key}"], table[f"uncertainty_{scale.key}"] = mean[places], std[places]
    mean, std = _composite(scales, unit or scales, len(places))
    table["composite"], table["uncertainty_composite"] = mean[places], std[places]


def place_on_scales(scales: list[Scale], unit: list[Scale]) -> dict[str, tuple[float, float]]:
    """Score and uncertainty of one picture on every further scale that there is, and on the composite, by key."""
    found = {one.key: _mean_std(one.posterior, 1) for one in scales if one.key != MAIN}
    found[COMPOSITE] = _composite(scales, unit, 1)
    return {
        key: (float(mean[0]), float(std[0])) for key, (mean, std) in found.items() if not np.isnan(mean[0])
    }


def _composite(
    scales: list[Scale], unit: list[Scale], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The composite of n images, in the unit of some scales; NaN where one that counts is not known."""
    parts: list[tuple[NDArray[np.float64], NDArray[np.float64], float]] = []
    for scale, own in zip(scales, unit, strict=True):
        if not scale.weight:
            continue  # a scale without weight takes nothing away where it is not known
        mean, std = _mean_std(scale.posterior, n)
        if own.posterior is not None and len(own.posterior):
            centre, spread = own.posterior.mean.mean(), float(own.posterior.mean.std()) or 1.0
            mean, std = (mean - centre) / spread, std / spread
        parts.append((mean, std, scale.weight))
    if not parts:
        return _mean_std(None, n)
    return composite([mean for mean, _, _ in parts], [std for _, std, _ in parts], [w for *_, w in parts])


def _mean_std(posterior: Posterior | None, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if posterior is None:
        return np.full(n, np.nan), np.full(n, np.nan)
    return posterior.mean, np.sqrt(posterior.variance)


def further_judges(study: Study, model: Model | None) -> dict[str, dict[str, dict[str, Any]]]:
    """What a model has learnt about each person as a judge of each further question, by its words; a damaged scale has none."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    if model is None:
        return found
    for one in study.config.questions:
        try:
            head = load_head(study.folder / model.path, one.key)
        except StudyError:
            continue
        if head is not None and head.panel is not None:
            found[one.question] = judges_of(head.panel)
    return found


@dataclass(frozen=True)
class QuestionsReport:
    """The questions of a study, their scales, and how these go together.

    Attributes:
        questions: a row each: `key`, `question`, `weight`, `answers`, `learnt` (how many the newest model learnt from),
            `reliability` (0 … 1, None without a scale), `accuracy` with `accuracy_low` and `accuracy_high` as of that model
            (None where too few random pairs were answered).
        correlations: a row for each two scales: `one`, `other`, and the fields of `ScaleCorrelation`.
    """

    questions: list[dict[str, Any]]
    correlations: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"questions": self.questions, "correlations": self.correlations}


def questions_report(study: Study, model: Model | None, scales: list[Scale]) -> QuestionsReport:
    """What is asked, how much was answered, and how the scales go together; `scales` is empty before the first model."""
    answers = counted(study.config, study.store)
    metrics = {} if model is None else model.metrics
    learnt: dict[str, dict[str, Any]] = {**metrics.get("questions", {}), MAIN: metrics}
    drawn = _drawn(study, model, scales)
    page = study.config.page
    asked = [
        (MAIN, page.question, page.weight),
        *((q.key, q.question, q.weight) for q in study.config.questions),
    ]
    rows = [
        {
            "key": key, "question": question, "weight": weight, "answers": answers["" if key == MAIN else key],
            "learnt": int(learnt.get(key, {}).get("answers", 0)),
            "reliability": reliability(*drawn[key]) if key in drawn else None,
            **{name: learnt.get(key, {}).get(name) for name in _ACCURACY},
        }
        for key, question, weight in asked
    ]  # fmt: skip
    keys = [key for key, _, _ in asked if key in drawn]
    pairs = [(one, other) for k, one in enumerate(keys) for other in keys[k + 1 :]]
    return QuestionsReport(
        rows,
        [{"one": one, "other": other, **_correlation(drawn, one, other).to_dict()} for one, other in pairs],
    )


Drawn = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def _drawn(study: Study, model: Model | None, scales: list[Scale]) -> Drawn:
    """Means and joint draws of every scale over the same images; of a large study over some of them."""
    found: Drawn = {}
    for number, scale in enumerate(scales):
        if scale.posterior is None or model is None:
            continue
        some = np.unique(
            np.linspace(0, len(scale.posterior) - 1, min(_IMAGES, len(scale.posterior))).astype(np.int64)
        )
        part = scale.posterior.rows(some)
        found[scale.key] = part.mean, part.sample(_DRAWS, study.chance.rng(Purpose.SCALES, model.id, number))
    return found


def _correlation(drawn: Drawn, one: str, other: str) -> ScaleCorrelation:
    (mean, draws), (mean2, draws2) = drawn[one], drawn[other]
    return correlate_scales((mean, mean2), (draws, draws2))
