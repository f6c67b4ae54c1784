"""From all answers so far to the newest model, on disk and announced to the store."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.config import RankerConfig, StudyConfig
from steelyard.errors import RankerError, StudyError
from steelyard.files import sync_folder, sync_tree
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.ranker.posterior import Posterior
from steelyard.stopping import estimate_accuracy, left_out_differences, random_curve
from steelyard.store.records import AnswerArrays, NewModel
from steelyard.store.store import Store
from steelyard.study.belief import load_absent, save_posterior
from steelyard.study.inputs import Inputs

__all__ = ["TrainedModel", "answers_about", "estimate", "learn"]

log = logging.getLogger("steelyard")

_KEPT_POSTERIORS = 2  # rows of a posterior are as large as the pool; older models keep only their weights


@dataclass(frozen=True)
class TrainedModel:
    """What `fit` made.

    Attributes:
        round: the turn of the loop.
        folder: where it lies.
        answers: how many it learnt from.
        metrics: figures of the training.
        unreadable: images that could not be read and were left out: paths and reasons.
        note: one sentence about them where that has changed since the model before, without names; else "".
    """

    round: int
    folder: Path
    answers: int
    metrics: dict[str, Any]
    unreadable: tuple[str, ...] = ()
    note: str = ""


def learn(
    study: Path,
    *,
    config: StudyConfig,
    store: Store,
    inputs: Callable[[Progress | None], Inputs],
    grades: Callable[[], NDArray[np.int64]],
    fingerprint: Callable[[], str],
    progress: Progress | None,
    trainer: str | None,
) -> TrainedModel:
    """Train on all answers so far and make it the newest model.

    Args:
        study: its folder.
        config: what it is set to.
        store: what people answered.
        inputs: computes what the ranker sees of each image, as far as it can be read.
        grades: tells the known grades, −1 where unknown; asked for multi-task learning only.
        fingerprint: of the catalog.
        progress: told how far it is.
        trainer: name under which the trainer's lease is held; the model is refused if it was lost meanwhile.

    Raises:
        StudyError: nobody has answered yet.
    """
    from steelyard.ranker.model import fit_ranker

    started = time.monotonic()
    seen = inputs(progress)
    excluded = store.images.excluded_rows()
    left_out = np.union1d(seen.absent, excluded)
    answers = answers_about(store.answers.arrays(), left_out)
    keep = ~np.isnan(answers.labels)
    if not _teaches_reserved(config.ranker):
        keep &= ~answers.reserved
    if not keep.any():
        raise StudyError(
            "there are no answers to learn from yet; answer some pairs (steelyard serve) or import some"
        )
    models = store.models.all()
    number = len(models)
    folder = study / "models" / f"round-{number:03d}"
    working = folder.with_name(folder.name + ".new")
    rows = seen.rows
    marks = _marks(grades(), left_out) if config.ranker.multitask else None
    ranker = fit_ranker(
        rows, answers.pairs[keep], answers.labels[keep],
        config=config.ranker, seed=config.seed, grades=marks,
        start=_start_weights(study, store, config.ranker), folder=working, progress=progress,
        use=np.setdiff1d(np.arange(len(rows)), left_out) if len(left_out) else None,
    )  # fmt: skip
    posterior = ranker.posterior(rows, progress=progress)
    ranker.save(working)
    save_posterior(working, posterior, seen.absent)
    accuracy = estimate(posterior, answers, config.ranker)
    metrics = {
        **ranker.metrics,
        "answers": int(keep.sum()),
        "seconds": round(time.monotonic() - started, 3),
        **({"accuracy": accuracy[0], "accuracy_pairs": accuracy[3]} if accuracy[3] else {}),
        **({"unreadable": len(seen.absent)} if len(seen.absent) else {}),
        **({"random": alone} if (alone := _random_alone(posterior, answers, config.ranker)) else {}),
    }
    (working / "metrics.json").write_text(json.dumps(metrics, indent=2), encoding="utf-8")
    if folder.exists():  # left by a trainer that died between here and the announcement below
        shutil.rmtree(folder)
    sync_tree(working)  # a model that is announced is on disk
    working.rename(folder)
    sync_folder(folder.parent)
    store.models.add(
        NewModel(
            number, str(folder.relative_to(study)), fingerprint(), answers.last_seq, store.grades.last_seq(), metrics,
            config.with_changes(store="").to_dict(),  # the address of the database may hold a password
        ),
        trainer=trainer,
    )  # fmt: skip
    for model in store.models.all()[:-_KEPT_POSTERIORS]:
        (study / model.path / "rows.npy").unlink(missing_ok=True)
    # Whoever excluded an image need not be told that it cannot be read.
    before = load_absent(study / models[-1].path) if models else seen.absent[:0]
    note = _note(np.setdiff1d(before, excluded), np.setdiff1d(seen.absent, excluded))
    unreadable = tuple(
        reason for row, reason in zip(seen.absent, seen.reasons, strict=True) if row not in excluded
    )
    return TrainedModel(number, folder, int(keep.sum()), metrics, unreadable, note)


def estimate(
    posterior: Posterior, answers: AnswerArrays, config: RankerConfig
) -> tuple[float, float, float, int]:
    """Accuracy on the pairs held back, its interval, and how many they are."""
    reserved = answers.reserved & ~np.isnan(answers.labels)
    pairs, labels = answers.pairs[reserved], answers.labels[reserved]
    if _teaches_reserved(config) and posterior.kind == "laplace":
        return estimate_accuracy(left_out_differences(posterior, pairs, labels), labels)
    return estimate_accuracy(posterior.difference(pairs)[0], labels)


def _random_alone(
    posterior: Posterior, answers: AnswerArrays, config: RankerConfig
) -> list[tuple[int, float, float, float]]:
    """What random choice would have given: (answers, accuracy, low, high) from the pairs held back alone.

    Only a convex head is fitted in no time, and only one without grades learns from answers alone.
    """
    if config.kind != "convex" or config.multitask:
        return []
    drawn = answers.reserved & ~np.isnan(answers.labels)
    return random_curve(
        posterior.features_N_D, answers.pairs[drawn], answers.labels[drawn], ties=posterior.tau > 0
    )


def answers_about(answers: AnswerArrays, left_out: NDArray[np.int64]) -> AnswerArrays:
    """The answers about images that are not left out."""
    if not len(left_out):
        return answers
    kept = ~np.isin(answers.pairs, left_out).any(axis=1)
    columns = (
        "seq",
        "pair",
        "pairs",
        "labels",
        "annotator",
        "reserved",
        "repeat",
        "left_first",
        "shown_at",
        "answered_at",
    )
    return replace(answers, **{name: getattr(answers, name)[kept] for name in columns})


def _note(before: NDArray[np.int64], now: NDArray[np.int64]) -> str:
    """What to say about unreadable images: once, when it changes."""
    if np.array_equal(before, now):
        return ""
    back = len(np.setdiff1d(before, now))
    said = [f"{back} {_images(back)} can be read again"] if back else []
    if len(now):
        said.append(
            f"{len(now)} {_images(len(now))} cannot be read and {'is' if len(now) == 1 else 'are'} left out"
        )
    return "; ".join(said)


def _images(n: int) -> str:
    return "image" if n == 1 else "images"


def _teaches_reserved(config: RankerConfig) -> bool:
    return config.kind == "convex"


def _start_weights(study: Path, store: Store, config: RankerConfig) -> Path | None:
    models = store.models.all()
    if config.kind == "convex" or not models or config.warm_start == "scratch":
        return None
    wanted = models if config.warm_start == "round0" else models[::-1]
    for model in wanted:
        try:
            checkpoint.load(study / model.path)
            return study / model.path
        except RankerError as error:  # damaged, or in no backup; another start is better than no training
            log.warning("%s – the next model starts from another one", error)
    return None


def _marks(grades: NDArray[np.int64], left_out: NDArray[np.int64]) -> NDArray[np.float64]:
    marks = grades.astype(np.float64)
    marks[marks < 0] = np.nan
    marks[left_out] = np.nan
    return marks
