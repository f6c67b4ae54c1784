"""Scores of images that need not be the study's, without its store: what another process or machine needs, and what it does.

plan = plan_of(study)            # where the answers are
Scorer(plan).columns(inputs)     # anywhere that sees the study's folder
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard import __version__
from steelyard.config import RankerConfig
from steelyard.ranker.ranker import Ranker, load_ranker
from steelyard.study.domain import measure
from steelyard.study.models import load_absent, usable_model, usable_ranker
from steelyard.study.scales import (
    Unit,
    check_scale,
    scale_columns,
    scales_in,
    scales_of,
    units_of,
    weights_of,
)

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = ["ScorePlan", "Scorer", "is_of_the_ranker", "plan_fingerprint", "plan_of"]

# Of the study's own images; they grow with it and say nothing about others.
_NOT_OF_THE_RANKER = ("posterior.safetensors", "predictions.safetensors", "rows.npy", "card.json")


@dataclass(frozen=True)
class ScorePlan:
    """Which model scores, and on which scales.

    Attributes:
        folder: of the model.
        model: its number.
        question: key of the one scale that is wanted, "" for the main one; None is all.
        weights: key and weight of every question, the main one first.
        units: mean and deviation that each is standardised by in the composite; empty where there is one question.
        max_megapixels: a larger picture is not read.
        fingerprint: changes when scores would.
    """

    folder: Path
    model: int
    question: str | None
    weights: tuple[tuple[str, float], ...]
    units: tuple[Unit, ...]
    max_megapixels: float
    fingerprint: str


def plan_of(study: Study, question: str | None = None) -> ScorePlan:
    """How a study scores other images now.

    Args:
        study: with a model.
        question: the key of a further question, "" for the main one; None is all scales.

    Raises:
        StudyError: there is no model, or none with this scale.
    """
    study.follow()
    model, _ = usable_ranker(study.folder, study.store)
    folder, weights = (study.folder / model.path).resolve(), weights_of(study.config)
    units: tuple[Unit, ...] = ()
    if question:
        check_scale(study, model, question)
    elif question is None and study.config.questions:
        own_model, own = usable_model(study.folder, study.store, images=len(study.catalog))
        absent = load_absent(study.folder / own_model.path, images=len(study.catalog))
        known = np.setdiff1d(np.arange(len(own)), np.union1d(absent, study.store.images.excluded_rows()))
        units = tuple(units_of(scales_of(study, model, own, known)))
    return ScorePlan(
        folder, model.id, question, weights, units, study.config.images.max_megapixels,
        plan_fingerprint(folder, question, weights, units),
    )  # fmt: skip


def is_of_the_ranker(file: Path) -> bool:
    """Whether other images are scored with a file of a model's folder."""
    return file.name not in _NOT_OF_THE_RANKER


def plan_fingerprint(
    folder: Path, question: str | None, weights: tuple[tuple[str, float], ...], units: tuple[Unit, ...]
) -> str:
    """Of a model and of how it scores: another one says that scores would be others."""
    digest = hashlib.blake2b(repr((__version__, question, weights, units)).encode())
    for path in sorted(folder.glob("*.safetensors")):
        if is_of_the_ranker(path):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


class Scorer:
    """Turns inputs of any images into columns of a table of scores."""

    def __init__(self, plan: ScorePlan) -> None:
        self._plan = plan
        self._ranker = _one_by_one(load_ranker(plan.folder))

    @property
    def config(self) -> RankerConfig:
        """What inputs have to be made for."""
        return self._ranker.config

    def columns(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """`score`, `uncertainty`, `low`, `high`, further scales, `unlike` and `off_domain` of some images, shape (N,) each."""
        plan = self._plan
        posterior = self._ranker.posterior(inputs)
        scales = scales_in(plan.folder, plan.weights, posterior) if len(plan.weights) > 1 else []
        if plan.question:
            [posterior] = [one.posterior for one in scales if one.key == plan.question and one.posterior]
        mean, std = posterior.mean, np.sqrt(posterior.variance)
        found = {"score": mean, "uncertainty": std, "low": mean - 1.96 * std, "high": mean + 1.96 * std}
        if plan.units:
            found |= scale_columns(scales, list(plan.units), len(inputs))
        check = measure(plan.folder, inputs)
        return {**found, "unlike": check.unlike_N, "off_domain": check.off_N}


def _one_by_one(ranker: Ranker) -> Ranker:
    """The same ranker with all draws for every image: screening would make a score depend on the images beside it."""
    if getattr(ranker.config, "screening", 1.0) == 1.0:
        return ranker
    return replace(ranker, config=ranker.config.with_changes(screening=1.0))  # type: ignore[type-var]
