"""How far the study is: what the progress page shows."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import numpy as np
from fastapi import APIRouter

from steelyard.progress import counted
from steelyard.trust.stopping import AccuracyEstimate, accuracy_of
from steelyard.web.api.schema.progress import (
    AccuracyPart,
    AccuracyPoint,
    Achieved,
    NextPair,
    PeoplePart,
    PersonRow,
    PersonSeries,
    Progress,
    Shape,
    SpreadPart,
    TrainerPart,
    UnsurePart,
    UnsurePoint,
)
from steelyard.web.context import Anyone, Web, WebOf
from steelyard.web.problems import responses
from steelyard.web.ranking import Ranking, density
from steelyard.web.trainer_words import doing

__all__ = ["router"]

router = APIRouter(tags=["progress"])
MOST_POINTS = 400
_SOON = "The model is being trained on the last answers; the ranking follows within a minute or so."
FRESH_SECONDS = 1.0
SHARE = 0.1
"""Of a processor, that all open pages together may take: in a study of a million answers one look costs seconds."""


class _Kept:
    """The last progress document: many open pages cost one computation a second."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.until = 0.0
        self.value: Progress | None = None


@router.get("/progress", responses=responses(401, 403, 503))
def progress(web: WebOf, who: Anyone) -> Progress:
    """Everything on the progress page. Annotators see no image and nobody else's name."""
    kept: _Kept = web.kept.setdefault("progress", _Kept())
    with kept.lock:
        began = time.monotonic()
        if kept.value is None or began > kept.until:
            kept.value = _progress(web)
            took = time.monotonic() - began
            kept.until = began + took + max(FRESH_SECONDS, took / SHARE)
        found = kept.value
    return found if who.may("lead") else _blind(web, found, who.name)


@router.get("/achieved", responses=responses(401, 403, 503))
def achieved(web: WebOf, who: Anyone) -> Achieved:
    """What was reached, for the end of the work."""
    ranking = web.rankings.newest()
    apart = web.training.hides and not who.may("lead")
    answered = web.training.answered() if apart else web.store.answers.count()
    done = "been given" if ranking is None else f"put {len(ranking.order):,} images in order"
    sentence = f"{counted(answered, 'answer')} {'has' if answered == 1 else 'have'} {done}."
    if apart:  # figures that count without hidden pairs would tell which those are
        return Achieved(sentence=sentence, next="", ladder=[], accuracy=[])
    sentence += f" {web.study.accuracy().sentence}"
    ladder: list[str] = []
    if ranking is not None and who.may("lead") and len(ranking.order):
        steps = np.unique(np.linspace(0, len(ranking.order) - 1, 9).astype(int))
        ladder = [web.ids.at(int(row)) for row in ranking.order[steps]]
    return Achieved(
        sentence=sentence, next=_afterwards(web, ranking, answered), ladder=ladder, accuracy=_history(web)
    )


def _afterwards(web: Web, ranking: Ranking | None, answered: int) -> str:
    """What happens to the last answers."""
    new = web.store.answers.last_seq() - (ranking.model.comparisons_seq if ranking else 0)
    if ranking is None or not new:
        return "The model knows all answers. The ranking can be looked at and exported." if ranking else _SOON
    if answered > web.study.budget <= ranking.model.metrics.get("answers", 0) and (
        (missing := web.study.config.refit_after - new) > 0
    ):
        last = "answer" if new == 1 else f"{new:,} answers"
        return f"The model knows all but the last {last}; it is trained again after {missing:,} more."
    return _SOON


def _progress(web: Web) -> Progress:
    store, study = web.store, web.study
    ranking = web.rankings.newest()
    estimate = study.accuracy()
    answered, wanted = store.answers.count(), study.budget
    name = web.ids.public
    return Progress(
        answered=answered, wanted=wanted, images=len(study.catalog),
        accuracy=_accuracy(web, estimate), spread=_spread(web, ranking), unsure=_unsure(web, ranking),
        people=_people(web),
        next=[
            NextPair(first=name(p.first), second=name(p.second), strategy=p.strategy, reason=p.reason)
            for p in sorted(store.pairs.all(open=True), key=lambda p: -(p.score or 0.0))[:6]
        ],
        trainer=_trainer(web, ranking), stop=f"{estimate.enough} {estimate.advice}",
    )  # fmt: skip


def _history(web: Web) -> list[AccuracyPoint]:
    """Accuracy of every model of which it can be told, with its interval."""
    return [
        _point(int(model.metrics.get("answers", 0)), *found)
        for model in web.store.models.all()
        if (found := accuracy_of(model.metrics)) is not None
    ]


def _point(answers: int, estimate: float, low: float, high: float) -> AccuracyPoint:
    return AccuracyPoint(answers=answers, estimate=estimate, low=low, high=high)


def _accuracy(web: Web, estimate: AccuracyEstimate) -> AccuracyPart:
    return AccuracyPart(
        sentence=estimate.sentence, history=_history(web), random=_random(web),
        ahead=[_point(*point) for point in estimate.ahead], level=estimate.level,
    )  # fmt: skip


def _random(web: Web) -> list[AccuracyPoint]:
    """What random choice would have given, as the trainer found it for the newest model."""
    newest = web.store.models.newest()
    return [
        _point(int(k), estimate, low, high)
        for k, estimate, low, high in (newest.metrics.get("random", ()) if newest else ())
    ]


def _spread(web: Web, ranking: Ranking | None) -> SpreadPart:
    if ranking is None or not len(ranking.order):
        return SpreadPart(sentence="There are no scores yet.", shapes=[])
    shown = ranking.order
    low, high = float(ranking.score[shown[0]]), float(ranking.score[shown[-1]])
    grades, names = web.rankings.grades(), web.study.grade_names
    parts: list[tuple[int | None, str, np.ndarray]] = [
        (
            int(g),
            names[g] if g < len(names) else str(g),
            ranking.score[shown[grades[shown] == g]],
        )
        for g in np.unique(grades[shown])
        if g >= 0
    ]
    if not parts:
        parts = [(None, "all images", ranking.score[shown])]
    shapes, pad = [], 0.08 * (high - low)
    for grade, name, values in parts:
        bins, heights = density(values, low - pad, high + pad)
        shapes.append(
            Shape(
                name=str(name), grade=grade, count=len(values), bins=bins, density=heights, median=float(np.median(values)),
                low=float(values.min()), high=float(values.max()),
            )
        )  # fmt: skip
    text = f"Scores of {len(shown):,} images run from {low:.2f} to {high:.2f}.".replace("-", "−")
    if len(shapes) > 1:
        medians = [shape.median for shape in shapes]
        rising = all(a < b for a, b in pairwise(medians))
        text += (
            " Their medians rise with the grade."
            if rising
            else " Their medians do not rise with every grade."
        )
    return SpreadPart(sentence=text, shapes=shapes)


def _unsure(web: Web, ranking: Ranking | None) -> UnsurePart:
    if ranking is None or not len(ranking.order):
        return UnsurePart(sentence="There are no scores yet.", points=[])
    shown = ranking.order
    worst = shown[np.argsort(-ranking.std[shown])[: MOST_POINTS // 4]]
    even = shown[np.unique(np.linspace(0, len(shown) - 1, MOST_POINTS * 3 // 4).astype(int))]
    rows = np.unique(np.concatenate([worst, even]))
    middle = float(np.median(ranking.std[shown]))
    far = int((ranking.std[shown] > 2 * middle).sum())
    wide = "no image is" if far == 0 else f"{counted(far, 'image')} {'is' if far == 1 else 'are'}"
    text = f"Half of the images are known to within ± {middle:.2f}; {wide} more than twice as uncertain."
    return UnsurePart(
        sentence=text,
        points=[
            UnsurePoint(
                id=web.ids.at(int(r)),
                score=round(float(ranking.score[r]), 4),
                std=round(float(ranking.std[r]), 4),
            )
            for r in rows
        ],
    )


def _people(web: Web, *, gold: bool = False) -> PeoplePart:
    """Who answered how much; with `gold`, as people themselves would count."""
    everybody = web.store.answers.by_annotator(gold=gold)
    counts = sorted((c for c in everybody if c.answers), key=lambda c: -c.answers)
    rows = [
        PersonRow(
            annotator=c.annotator, answers=c.answers, equal=c.equal, cannot_judge=c.cannot_judge, undone=c.undone,
            seconds=c.seconds, last_at=c.last_at,
        )
        for c in counts
    ]  # fmt: skip
    answers = web.store.answers.arrays()
    series = []
    for count in counts[:6]:
        code = answers.annotators.index(count.annotator) if count.annotator in answers.annotators else -1
        times = np.sort(answers.answered_at[answers.annotator == code])
        if gold:
            hidden = web.store.known.answers(count.annotator)
            times = np.sort(np.concatenate([times, hidden.answered_at[~hidden.warmup]]))
        if not len(times):
            continue
        steps = (
            np.unique(np.linspace(0, len(times) - 1, 60).astype(int))
            if len(times)
            else np.zeros(0, dtype=int)
        )
        points = [(float(times[k]), float(k + 1)) for k in steps.tolist()]
        series.append(PersonSeries(name=count.annotator, points=points))
    total = sum(c.answers for c in counts)
    paces = [c.seconds for c in counts if c.seconds is not None]
    text = "Nobody has answered yet."
    if total:
        who = "1 person has" if len(rows) == 1 else f"{len(rows)} people have"
        text = f"{who} given {counted(total, 'answer')}"
        text += f", typically {float(np.median(paces)):.1f} s each." if paces else "."
    return PeoplePart(sentence=text, rows=rows, series=series)


def _trainer(web: Web, ranking: Ranking | None) -> TrainerPart:
    state = web.store.models.trainer.state()
    said = state.progress or {}
    log = [str(line) for line in said.get("log", [])]
    new = web.store.answers.last_seq() - (ranking.model.comparisons_seq if ranking else 0)
    wanted = web.study.config.refit_after
    if state.owner is not None:
        return TrainerPart(
            state="training", sentence=doing(state), done=int(said.get("done", 0)),
            total=int(said.get("total", 0)), log=log,
        )  # fmt: skip
    if said.get("stage") == "failed":
        text = f"The last training failed: {said.get('text', '')} Answers are safe; it is tried again."
        return TrainerPart(state="failed", sentence=text, done=0, total=0, log=log)
    if new >= wanted:
        text = f"{new:,} new answers wait for a trainer. It starts by itself; if it does not, run: steelyard worker"
        return TrainerPart(state="waiting", sentence=text, done=0, total=0, log=log)
    if ranking:
        known = (
            ("all but the last answer" if new == 1 else f"all but the last {new:,} answers")
            if new
            else "all answers"
        )
        text = f"Model {ranking.model.id} knows {known}. The next training starts after {counted(max(0, wanted - new), 'more answer')}."
    else:
        first = max(0, min(wanted, web.study.budget) - new)
        text = f"There is no model yet. The first training starts after {counted(first, 'more answer')}."
    return TrainerPart(state="idle", sentence=text, done=0, total=0, log=log)


_HIDDEN = "Shown to the study's lead only, so that it cannot steer your answers."
_APART = "Shown to the study's lead only."
_STAGES = {
    "training": "The trainer is at work.",
    "waiting": "New answers wait for the next training; it starts by itself.",
    "failed": "The last training could not finish; the study's lead can see why. Answers are safe; it is tried again.",
    "idle": "The trainer waits for more answers.",
}


def _blind(web: Web, full: Progress, name: str) -> Progress:
    """Nothing about any image, and nobody else's name: annotators stay unbiased, and unobserved by each other.

    What a trainer says may name files, so of that only the stage is told. Made from what is listed here: a field that
    is added to `Progress` does not come along by itself.
    """
    apart = web.training.hides
    counted_by = _people(web, gold=True) if apart else full.people
    people = PeoplePart(
        sentence=counted_by.sentence,
        rows=[row for row in counted_by.rows if row.annotator == name],
        series=[one for one in counted_by.series if one.name == name],
    )
    stage = full.trainer.state
    accuracy, stop, answered, wanted = full.accuracy, full.stop, full.answered, full.wanted
    if apart:  # what counts without hidden pairs would tell which those are
        accuracy = AccuracyPart(sentence=_APART, history=[], random=[], ahead=[], level=None)
        stop, answered, wanted = _APART, web.training.answered(), web.training.wanted
    return Progress(
        answered=answered, wanted=wanted, images=full.images, accuracy=accuracy,
        spread=SpreadPart(sentence=_HIDDEN, shapes=[]), unsure=UnsurePart(sentence=_HIDDEN, points=[]),
        people=people, next=[], trainer=TrainerPart(state=stage, sentence=_STAGES[stage], done=0, total=0, log=[]),
        stop=stop,
    )  # fmt: skip
