"""From all answers so far to the newest model, on disk and announced to the store."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard import __version__
from steelyard.arrays import Rows
from steelyard.errors import RankerError, StudyError, command
from steelyard.loop.chance import Purpose
from steelyard.loop.learn import fit, starting_point, teaching
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.ranker import Ranker, load_ranker
from steelyard.store.records import AnswerArrays, NewModel
from steelyard.study.card import write_card
from steelyard.study.domain import learn_domain
from steelyard.study.judging import said_by
from steelyard.study.lease import LeaseLost, TrainerLease
from steelyard.study.models import load_unreadable, save_posterior, save_predictions
from steelyard.study.publishing import publish, sweep, working_folder
from steelyard.study.scale_heads import learn_scales
from steelyard.trust.accuracy import Accuracy, estimate_accuracy, random_curve
from steelyard.trust.evidence import Predictions, judge, predict
from steelyard.trust.forecast import Forecast, forecast, horizons, is_look

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = [
    "TrainedModel",
    "accuracy_metrics",
    "answers_about",
    "estimate",
    "learn",
    "learn_alone",
    "predictions_of",
    "some_answers",
]

log = logging.getLogger("steelyard")

_KEPT_POSTERIORS = 2  # rows of a posterior are as large as the pool; older models keep only their weights


@dataclass(frozen=True)
class TrainedModel:
    """What `fit` made.

    Attributes:
        id: its number, as in “model 3” everywhere.
        round: the turn of the loop.
        folder: where it lies.
        answers: how many it learnt from.
        metrics: figures of the training.
        unreadable: images that could not be read and were left out: paths and reasons.
        note: one sentence about them where that has changed since the model before, without names; else "".
    """

    id: int
    round: int
    folder: Path
    answers: int
    metrics: dict[str, Any]
    unreadable: tuple[str, ...] = ()
    note: str = ""


def learn(study: Study, lease: TrainerLease, progress: Progress) -> TrainedModel:
    """Train on all answers so far and make it the newest model.

    Args:
        study: what to learn.
        lease: the trainer's, held.
        progress: told how far it is.

    Raises:
        StudyError: nobody has answered yet, or the model cannot be written.
        LeaseLost: somebody else trains now.
    """
    try:
        return _learn(study, lease, progress)
    except OSError as error:  # a full disk, most of the time
        raise StudyError(
            f"the model could not be written ({error.strerror or error}); make room on the disk and train again"
        ) from error


def learn_alone(study: Study, progress: Progress | None) -> TrainedModel:
    """The same for somebody who holds no lease: takes it, waiting a minute for whoever trains now.

    Raises:
        StudyError: also when somebody else goes on training, or took over.
    """
    lease = TrainerLease(study.store)
    lease.wait(progress=progress)

    def tell(done: int, total: int, text: str) -> None:
        lease.progress(done, total, text)
        if progress is not None:
            progress(done, total, text)

    try:
        with lease.working("fit"):
            return learn(study, lease, tell)
    except LeaseLost:
        raise StudyError(
            "another trainer took over, because this one gave no sign of life; see which model is newest with: "
            f"{command('status', study.folder)}"
        ) from None


def _learn(study: Study, lease: TrainerLease, progress: Progress) -> TrainedModel:
    from steelyard.ranker.learner import Learner  # scipy is for whoever fits, not for the page

    store, config = study.store, study.config
    started = time.monotonic()
    seen = study.seen(progress)
    excluded = store.images.excluded_rows()
    left_out = np.union1d(seen.absent, excluded).astype(np.int64)
    answers = answers_about(store.answers.lessons(), left_out)
    models, grades_seq = store.models.all(), store.grades.last_seq()
    pool = np.setdiff1d(np.arange(len(seen.rows)), left_out) if len(left_out) else None
    learner = Learner(config.ranker, seen.rows, seed=study.chance.weights(), pool=pool)
    count = int(teaching(answers.labels, answers.reserved, learns_reserved=learner.learns_reserved).sum())
    if not count:
        raise StudyError(
            "there are no answers to learn from yet; answer some pairs (steelyard serve) or import some"
        )
    marks = _marks(study.known_grades(), left_out) if config.ranker.multitask else None
    start = starting_point(learner, [partial(load_ranker, study.folder / model.path) for model in models])
    fingerprint = checkpoint.fingerprint_of(
        answers.pairs, answers.labels, answers.annotator, answers.left_first, answers.reserved, marks, left_out,
        config.to_dict()["ranker"], config.seed, __version__,
    )  # fmt: skip

    def fit_in(folder: Path) -> Ranker:
        return fit(
            learner, answers.pairs, answers.labels, reserved=answers.reserved, grades=marks, start=start,
            folder=folder, progress=progress, said=said_by(answers),
        )  # fmt: skip

    working = working_folder(study.folder, fingerprint)
    try:
        sweep(study.folder, working, store, lease)
        study.sharing.sweep(lease, keep=_KEPT_POSTERIORS)
        ranker = _resumed(fit_in, working)
        posterior = learner.posterior(ranker, progress=progress)
        ranker.save(working)
        save_posterior(working, posterior, seen.absent, waiting=len(seen.waiting))
        scales = learn_scales(study, working, learner, seen.rows, left_out)
        learn_domain(
            working, seen.rows, study.catalog, pool=pool, absent=seen.absent, ranker=config.ranker,
            before=study.folder / models[-1].path if models else None,
        )  # fmt: skip
        predictions = predictions_of(
            study, posterior, answers, left_out, learns_reserved=ranker.learns_reserved
        )
        save_predictions(working, predictions)
        accuracy = estimate(posterior, predictions, answers)
        alone = _random_alone(posterior, answers) if ranker.learns_reserved and marks is None else []
        metrics = {
            **ranker.metrics,
            "answers": count,
            "seconds": round(time.monotonic() - started, 3),
            **accuracy_metrics(accuracy),
            **({"unreadable": len(seen.unreadable)} if len(seen.unreadable) else {}),
            **({"waiting": len(seen.waiting)} if len(seen.waiting) else {}),
            **({"random": alone} if alone else {}),
            **({"questions": scales} if scales else {}),
            **_ahead(
                study,
                posterior,
                answers,
                [m.metrics for m in models],
                left_out,
                convex=ranker.learns_reserved and marks is None,
            ),
        }
        (working / "metrics.json").write_text(json.dumps(metrics, indent=2), encoding="utf-8")
        number = models[-1].round + 1 if models else 0
        write_card(
            working, study, round=number, posterior=posterior, answers=answers, taught=marks, seen=seen, metrics=metrics
        )  # fmt: skip
        new = NewModel(
            number, "", study.catalog.fingerprint(), answers.last_seq, grades_seq, metrics,
            config.with_changes(store="", models="").to_dict(),  # addresses may hold a password
        )  # fmt: skip
        folder, id = publish(study.folder, working, new, store, lease, study.sharing)
    except LeaseLost:
        shutil.rmtree(working, ignore_errors=True)  # ours alone: whoever took over trains under another name
        raise
    for model in store.models.all()[:-_KEPT_POSTERIORS]:
        (study.folder / model.path / "rows.npy").unlink(missing_ok=True)
    # Whoever excluded an image need not be told that it cannot be read.
    before = load_unreadable(study.folder / models[-1].path) if models else seen.absent[:0]
    note = _note(np.setdiff1d(before, excluded), np.setdiff1d(seen.unreadable, excluded))
    unreadable = tuple(
        reason for row, reason in zip(seen.unreadable, seen.reasons, strict=True) if row not in excluded
    )
    return TrainedModel(id, number, folder, count, metrics, unreadable, note)


def _resumed(fit_in: Callable[[Path], Ranker], working: Path) -> Ranker:
    """Fit from the checkpoint in the folder, if there is one and it is of any use."""
    if not checkpoint.exists(working):
        return fit_in(working)
    try:
        return fit_in(working)
    except RankerError as error:
        log.warning("%s – what a killed training left is of no use; training from the start", error)
        shutil.rmtree(working)
        working.mkdir()
        return fit_in(working)


def predictions_of(
    study: Study, posterior: Posterior, answers: AnswerArrays, left_out: Rows, *, learns_reserved: bool
) -> Predictions:
    """What a model that learnt from these answers says about their pairs without them."""
    taught = teaching(answers.labels, answers.reserved, learns_reserved=learns_reserved)
    return predict(
        posterior, answers.pairs[taught], answers.labels[taught], learns_reserved=learns_reserved,
        pool=np.setdiff1d(np.arange(len(posterior)), left_out), rng=study.chance.rng(Purpose.POOL),
        said=said_by(answers)[taught],
    )  # fmt: skip


def estimate(posterior: Posterior, predictions: Predictions, answers: AnswerArrays) -> Accuracy:
    """Accuracy of a model by the answers that count now, with its interval and the random pairs it rests on."""
    judged = judge(predictions, posterior, answers.pairs, answers.labels, answers.reserved)
    return estimate_accuracy(judged, np.abs(predictions.pool_margin))


def accuracy_metrics(accuracy: Accuracy) -> dict[str, float]:
    """What a model's metrics say of it; nothing where nothing can be said."""
    if np.isnan(accuracy.estimate):
        return {}
    return {
        "accuracy": accuracy.estimate,
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "accuracy_pairs": accuracy.pairs,
    }


def _random_alone(posterior: Posterior, answers: AnswerArrays) -> list[tuple[int, float, float, float]]:
    """What random choice would have given: (answers, accuracy, low, high) from the pairs held back alone.

    Only a convex ranker is fitted in no time, and only one without grades learns from answers alone.
    """
    drawn = answers.reserved & ~np.isnan(answers.labels)
    return random_curve(
        posterior.features_N_D, answers.pairs[drawn], answers.labels[drawn], ties=posterior.tau > 0
    )


def _ahead(
    study: Study,
    posterior: Posterior,
    answers: AnswerArrays,
    earlier: list[dict[str, Any]],
    left_out: Rows,
    *,
    convex: bool,
) -> dict[str, Any]:
    """What more answers would bring, where it is time for a look; of other rankers it is only kept that there was one."""
    used = ~np.isnan(answers.labels)
    count = int(used.sum())
    if not is_look(count, earlier):
        return {}
    if not convex or posterior.kind != "laplace":
        return {"forecast": Forecast(count).to_dict()}
    also = study.config.ask.stopping.answers
    found = forecast(
        posterior.features_N_D, posterior.weights_D, answers.pairs[used], answers.labels[used], ties=posterior.tau > 0,
        until=horizons(count, study.budget, also=also), rng=study.chance.rng(Purpose.FORECAST, count),
        pool=np.setdiff1d(np.arange(len(posterior)), left_out),
    )  # fmt: skip
    return {"forecast": found.to_dict()}


def answers_about(answers: AnswerArrays, left_out: Rows) -> AnswerArrays:
    """The answers about images that are not left out."""
    if not len(left_out):
        return answers
    out = np.isin(answers.pairs, left_out)
    return some_answers(answers, ~(out[:, 0] | out[:, 1]))


def some_answers(answers: AnswerArrays, kept: NDArray[np.bool_]) -> AnswerArrays:
    """Some of the answers."""
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


def _marks(grades: NDArray[np.int64], left_out: NDArray[np.int64]) -> NDArray[np.float64]:
    marks = grades.astype(np.float64)
    marks[marks < 0] = np.nan
    marks[left_out] = np.nan
    return marks
