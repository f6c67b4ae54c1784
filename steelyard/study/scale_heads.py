"""The heads of further questions: one convex head each, on the features and reduction of the main question's model.

    models/round-003-1f0c9a2b/question-bleeding.safetensors    a head and its judges; its rows are those of the model itself

They are fitted with every model and never move in between: which pairs are asked follows from the main question alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.errors import RankerError, StudyError
from steelyard.loop.learn import fit, teaching
from steelyard.ranker.judges import Panel
from steelyard.ranker.posterior import Posterior
from steelyard.study.judging import said_by

if TYPE_CHECKING:
    from steelyard.ranker.convex import ConvexHead
    from steelyard.ranker.learner import Learner
    from steelyard.study.study import Study

__all__ = ["FEWEST", "ScaleHead", "learn_scales", "load_head"]

FEWEST = 10
"""Answers from which on a further question has a scale."""


@dataclass(frozen=True)
class ScaleHead:
    """The head of a further question, and the judges it was learnt with; None where one person answered it alone."""

    head: ConvexHead
    panel: Panel | None

    @property
    def size(self) -> int:
        """How many features its rows have."""
        return len(self.head.weights)

    def posterior(self, rows_N_D: NDArray[Any], images: Rows | None = None) -> Posterior:
        """Of the images with these reduced rows: which of the study's they are, or None for others."""
        found = self.head.posterior(rows=rows_N_D, images=images)
        found.panel = self.panel
        return found


def learn_scales(
    study: Study, working: Path, learner: Learner, inputs: NDArray[Any], left_out: Rows
) -> dict[str, Any]:
    """Fit a head for every further question with enough answers, as the main one is fitted, and write it beside that.

    Returns:
        For each of them by key what the model's metrics keep: from how many answers it was learnt, and how accurate it is.
    """
    from safetensors.numpy import save

    from steelyard.ranker.convex_ranker import ConvexRanker
    from steelyard.ranker.learner import Learner
    from steelyard.study.learning import accuracy_metrics, answers_about, estimate, predictions_of

    for old in working.glob("question-*.safetensors"):
        old.unlink()  # of a training that was killed
    learnt: dict[str, Any] = {}
    if study.config.questions and learner.config.multitask:  # grades are of the main question
        learner = Learner(learner.config.with_changes(multitask=False), inputs, pool=learner.pool)
    for one in study.config.questions:
        answers = answers_about(study.store.answers.lessons(question=one.key), left_out)
        count = int(teaching(answers.labels, answers.reserved, learns_reserved=True).sum())
        if count < FEWEST:
            continue
        ranker = fit(learner, answers.pairs, answers.labels, reserved=answers.reserved, said=said_by(answers))
        assert isinstance(ranker, ConvexRanker)  # the configuration allows no other
        judges = None if ranker.panel is None else {"judges": json.dumps(ranker.panel.to_dict())}
        _file(working, one.key).write_bytes(save(ranker.head.to_arrays(), metadata=judges))
        posterior = learner.posterior(ranker)
        predictions = predictions_of(study, posterior, answers, left_out, learns_reserved=True)
        learnt[one.key] = {
            "answers": count,
            **accuracy_metrics(estimate(posterior, predictions, answers)),
        }
    return learnt


def load_head(folder: Path, key: str) -> ScaleHead | None:
    """The head of a further question in a model's folder; None where the model has none.

    Raises:
        StudyError: it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    from steelyard.ranker.convex import ConvexHead

    try:
        with safe_open(_file(folder, key), framework="numpy") as file:
            judges = (file.metadata() or {}).get("judges")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        panel = None if judges is None else Panel.from_dict(json.loads(judges))
        return ScaleHead(ConvexHead.from_arrays(arrays), panel)
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, RankerError, ValueError) as error:
        raise StudyError(
            f"the scale {key!r} of the model in {folder} cannot be read ({error}); train again with: steelyard train"
        ) from error


def _file(folder: Path, key: str) -> Path:
    return folder / f"question-{key}.safetensors"
