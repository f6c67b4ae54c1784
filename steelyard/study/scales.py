"""The scales of a study side by side: scores on each, their composite, and how they go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config import StudyConfig
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
    "Unit",
    "add_scales",
    "check_scale",
    "further_judges",
    "of_question",
    "on_scale",
    "place_on_scales",
    "questions_report",
    "scale_columns",
    "scales_in",
    "scales_of",
    "units_of",
    "weights_of",
    "why_no_scale",
]

Unit: TypeAlias = tuple[float, float] | None
"""Mean and deviation that a scale is standardised by; None where it is not known."""

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


def check_scale(study: Study, model: Model, key: str) -> None:
    """Make sure that a model has the scale of a further question.

    Raises:
        StudyError: it has none yet, and why.
    """
    if load_head(study.folder / model.path, key) is None:
        raise _no_scale(study, key)


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
    images = None if strangers else rows
    return scales_in(study.folder / model.path, weights_of(study.config), main.rows(rows), images)


def weights_of(config: StudyConfig) -> tuple[tuple[str, float], ...]:
    """Key and weight of every question, the main one first."""
    return ((MAIN, config.page.weight), *((one.key, one.weight) for one in config.questions))


def scales_in(
    folder: Path, weights: Sequence[tuple[str, float]], main: Posterior, images: Rows | None = None
) -> list[Scale]:
    """Every scale in the folder of a model over the images of its posterior, without the study.

    Args:
        folder: of the model.
        weights: from `weights_of`.
        main: posterior of the images on the main scale.
        images: which of the study's they are; None for others.
    """
    found = [Scale(MAIN, main, weights[0][1])]
    for key, weight in weights[1:]:
        head = load_head(folder, key)
        fits = head is not None and head.size == main.features_N_D.shape[1]
        found.append(Scale(key, head.posterior(main.features_N_D, images) if head and fits else None, weight))
    return found


def units_of(scales: list[Scale]) -> list[Unit]:
    """Mean and deviation of every scale over its images, which others are standardised by; None where there is no scale."""
    return [
        (float(one.posterior.mean.mean()), float(one.posterior.mean.std()) or 1.0)
        if one.posterior is not None and len(one.posterior)
        else None
        for one in scales
    ]


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
        mean, std = _composite(scales, units_of(scales), len(rows))
    else:
        [one] = [one for one in scales if one.key == scale]
        mean, std = _mean_std(one.posterior, len(rows))
    if np.isnan(mean).any():
        return None
    score, uncertainty = np.full(len(main), np.nan), np.full(len(main), np.nan)
    score[rows], uncertainty[rows] = mean, std
    return score, uncertainty


def add_scales(
    table: pd.DataFrame, scales: list[Scale], places: NDArray[np.int64], units: list[Unit] | None = None
) -> None:
    """Put `score_KEY` and `uncertainty_KEY` of every further question into a table of scores, and the `composite`.

    Args:
        table: of scores, in any order.
        scales: the main one first.
        places: which image of the scales each row of the table is.
        units: of the images that standardise, None where they are the same.
    """
    for name, values in scale_columns(scales, units or units_of(scales), len(places)).items():
        table[name] = values[places]


def scale_columns(scales: list[Scale], units: list[Unit], n: int) -> dict[str, NDArray[np.float64]]:
    """`score_KEY`, `uncertainty_KEY`, `composite` and `uncertainty_composite` of n images, NaN where there is no scale."""
    found: dict[str, NDArray[np.float64]] = {}
    for scale in scales:
        if scale.key != MAIN:
            found[f"score_{scale.key}"], found[f"uncertainty_{scale.key}"] = _mean_std(scale.posterior, n)
    found["composite"], found["uncertainty_composite"] = _composite(scales, units, n)
    return found


def place_on_scales(scales: list[Scale], units: list[Unit]) -> dict[str, tuple[float, float]]:
    """Score and uncertainty of one picture on every further scale that there is, and on the composite, by key."""
    found = {one.key: _mean_std(one.posterior, 1) for one in scales if one.key != MAIN}
    found[COMPOSITE] = _composite(scales, units, 1)
    return {
        key: (float(mean[0]), float(std[0])) for key, (mean, std) in found.items() if not np.isnan(mean[0])
    }


def _composite(
    scales: list[Scale], units: list[Unit], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The composite of n images, in the unit of some scales; NaN where one that counts is not known."""
    parts: list[tuple[NDArray[np.float64], NDArray[np.float64], float]] = []
    for scale, unit in zip(scales, units, strict=True):
        if not scale.weight:
            continue  # a scale without weight takes nothing away where it is not known
        mean, std = _mean_std(scale.posterior, n)
        if unit is not None:
            centre, spread = unit
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
