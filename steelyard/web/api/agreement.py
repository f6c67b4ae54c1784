"""How well people agree, and how reliable each of them is; scores from the answers alone beside the model's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Query

from steelyard.errors import StudyError
from steelyard.evaluate.people_words import about
from steelyard.evaluate.reliability import Person
from steelyard.progress import counted
from steelyard.study.agreement import own_figures
from steelyard.study.answers_alone import BothScores, both_scores, why_they_differ
from steelyard.web.api.schema.agreement import (
    AgreementOut,
    AloneImage,
    AloneOut,
    FigureOut,
    PersonOut,
    TwoPeople,
)
from steelyard.web.context import Anyone, Lead, Web, WebOf
from steelyard.web.problems import responses
from steelyard.web.ranking import Z95

__all__ = ["router"]

router = APIRouter(tags=["agreement"])
T = TypeVar("T")

NOBODY = "Nobody has answered yet. Open Compare and press a key."
NOBODY_TWICE = (
    "No pair has been answered by two people yet, so nobody can say whether people agree. Set raters = 2 under [ask] in "
    "study.toml and each new pair is asked of two people; repeat_share = 0.05 asks some pairs of the same person again."
)
YOURS = (
    "What your own answers tell. How they compare with others' and with the model is shown to the study's lead only, so that "
    "it cannot steer your answers."
)


class _Kept:
    """What was computed last, as long as neither answers, images nor the model have changed; one computes, others wait."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state: object = None
        self.value: Any = None


def _kept(web: Web, name: str, make: Callable[[], T]) -> T:
    kept: _Kept = web.kept.setdefault(name, _Kept())
    newest = web.store.models.newest()
    out = tuple(web.store.images.excluded_rows().tolist())
    state = (web.store.answers.last_seq(), newest.id if newest else None, out)
    with kept.lock:
        if kept.state != state:
            kept.value, kept.state = make(), state
        value: T = kept.value
    return value


@router.get("/agreement", responses=responses(401, 403, 503))
def agreement(web: WebOf, who: Anyone) -> AgreementOut:
    """Figures about all answers with their intervals and what they mean, and about each person.

    Annotators see their own line, and of it only what their own answers tell: a share in line with others or with the model
    that moved after an answer would say what those think of the pair.
    """
    if who.may("lead"):
        return _kept(web, "agreement", lambda: _everybody(web))
    # What counts without hidden pairs would tell which those are; one's session, which counts them, is told elsewhere.
    own = None if web.training.hides else own_figures(web.study, who.name)
    return AgreementOut(
        answers=own.answers if own else 0, sentence=YOURS if own else NOBODY, against="", figures=[],
        people=[_person(own)] if own else [], between=[],
    )  # fmt: skip


def _everybody(web: Web) -> AgreementOut:
    facts = web.study.agreement()
    figures = [FigureOut(**figure) for figure in facts["figures"]]
    between = facts["between people"] or {}
    judges = facts["judges"]
    people = [
        PersonOut(
            **person,
            about=_about(person, judges, facts.get("further judges", {})),
            judge=judges.get(person["annotator"]),
        )
        for person in facts["people"]
    ]
    if not facts["answers"]:
        sentence = NOBODY
    elif not between:
        sentence = NOBODY_TWICE
    else:
        sentence = (
            f"{counted(facts['answers'], 'answer')} of {counted(len(people), 'person', 'people')}; "
            f"{counted(between['pairs answered by several'], 'pair')} answered by several."
        )
    return AgreementOut(
        answers=facts["answers"], sentence=sentence, against=facts["held against"], figures=figures, people=people,
        between=[
            TwoPeople(first=one, second=other, pairs=pair["pairs"], agreement=pair["agreement"], kappa=pair["cohen kappa"])
            for (one, other), pair in _twos(between, [person.annotator for person in people])
        ],
    )  # fmt: skip


def _about(
    person: dict[str, Any],
    judges: dict[str, dict[str, Any]],
    further: dict[str, dict[str, dict[str, Any]]],
) -> list[str]:
    """What stands out; a guesser is told of once, by circular answers or by the model, and for each further question."""
    judge = judges.get(person["annotator"])
    guesses = judge is not None and judge["flagged"] and "guessing" not in person["flags"]
    own = ((question, everybody.get(person["annotator"])) for question, everybody in further.items())
    return [
        *about(person),
        *([f"{judge['sentence']}."] if judge is not None and guesses else []),
        *(f"about “{question}”, {one['sentence']}." for question, one in own if one and one["flagged"]),
    ]


def _twos(between: dict[str, Any], names: list[str]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """Who agrees how with whom; the record names two people in one text."""
    both = ((one, other) for i, one in enumerate(names) for other in names[i + 1 :])
    return [(two, between[key]) for two in both if (key := " and ".join(two)) in between]


def _person(person: Person) -> PersonOut:
    facts = person.to_dict()
    return PersonOut(**facts, about=about(facts))


@router.get("/agreement/images", responses=responses(401, 403, 422, 503))
def differing_images(web: WebOf, who: Lead, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> AloneOut:
    """Images on which the answers alone and the model differ beyond both uncertainties: mislabelled, or a blind spot."""
    try:
        both = _kept(web, "both scores", lambda: both_scores(web.study))
    except StudyError:
        return AloneOut(sentence=NOBODY, total=0, images=[])
    if both.beside is None:
        text = "There is no model yet to compare with." if web.store.models.newest() is None else (
            "This model cannot tell what it would say without the answers that it has learnt from, so the two cannot be compared; "
            "rankers of the kind “convex” can."
        )  # fmt: skip
        return AloneOut(sentence=text, total=0, images=[])
    rows = both.differing
    asked = len(both.alone.asked)
    if not len(rows):
        return AloneOut(
            sentence=f"On none of {counted(asked, 'compared image')} do the answers and the model differ beyond chance.",
            total=0, images=[],
        )  # fmt: skip
    text = (
        f"On {len(rows):,} of {counted(asked, 'compared image')} the answers alone and the model differ by more than both "
        "uncertainties allow; about one in ten of them by chance."
    )
    return AloneOut(
        sentence=text, total=len(rows), images=[_image(web, both, int(row)) for row in rows[:limit]]
    )


def _image(web: Web, both: BothScores, row: int) -> AloneImage:
    assert both.beside is not None
    alone, own = both.alone.score[row], Z95 * both.alone.deviation[row]
    placed, its = both.beside.placed[row], Z95 * both.beside.deviation[row]
    answers = int(both.alone.answers[row])
    return AloneImage(
        id=web.ids.at(row), answers=answers, alone=float(alone), alone_low=float(alone - own), alone_high=float(alone + own),
        placed=float(placed), placed_low=float(placed - its), placed_high=float(placed + its),
        infit=_plain(both.infit[row]), outfit=_plain(both.outfit[row]), sentence=why_they_differ(bool(alone > placed), answers),
    )  # fmt: skip


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
