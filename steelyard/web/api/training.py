"""Instructions and consent, the warm-up, sessions, and what hidden pairs say about people."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from steelyard.evaluate.fatigue import Over
from steelyard.study.checks import checked, session_of
from steelyard.study.instructions import agreements
from steelyard.web.api.schema.training import (
    AgreementOut,
    CheckRow,
    Checks,
    ExampleOut,
    InstructionsIn,
    InstructionsOut,
    OverOut,
    SessionOut,
)
from steelyard.web.context import Anyone, Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["router"]

router = APIRouter(tags=["compare"])


@router.get("/instructions", responses=responses(401, 403, 503))
def get_instructions(web: WebOf, who: Anyone) -> InstructionsOut:
    """What people read before their first pair."""
    found = web.training.instructions()
    if found is None:
        return InstructionsOut(text="", examples=[], version="", consent=False, accepted=True)
    web.sight.show(who.name, (row for row, _ in found.examples))
    return InstructionsOut(
        text=found.text,
        examples=[ExampleOut(id=web.ids.at(row), caption=caption) for row, caption in found.examples],
        version=found.version,
        consent=found.consent,
        accepted=not web.training.to_read(who.name),
    )


@router.post("/instructions", status_code=204, responses=responses(401, 403, 409, 422, 503))
def accept_instructions(body: InstructionsIn, web: WebOf, who: Anyone) -> None:
    """Say that you have read them, or agree to them where that is asked for. Sent again, it is noted once."""
    found = web.training.instructions()
    if found is None or found.version != body.version:
        raise Problem(409, "The instructions were changed meanwhile; read them again.", code="version")
    if found.consent and who.via == "token":
        raise Problem(403, "Only a person can agree, not a token: open the page.")
    found.accept(web.store, who.name)


@router.post("/warmup/skip", status_code=204, responses=responses(401, 403, 409, 503))
def skip_warmup(web: WebOf, who: Anyone) -> None:
    """Go straight to the pairs of the study, where it allows that."""
    if not web.training.skip_warmup(who.name):
        raise Problem(409, "This study wants the warm-up to be done.", code="warm-up")


@router.get("/session/figures", tags=["progress"], responses=responses(401, 403, 503))
def my_session(web: WebOf, who: Anyone) -> SessionOut:
    """Your last session: how long an answer took and how steady they were, at first and at the end."""
    return _session(web, who.name, gold=web.study.config.people.gold_shown)


@router.get("/checks", tags=["progress"], responses=responses(401, 403, 503))
def get_checks(web: WebOf, who: Lead) -> Checks:
    """How everybody answers: hidden pairs, the last session, and what they agreed to. For leads."""
    study = web.study
    results = {one.annotator: one for one in checked(study)}
    counts = [c.annotator for c in web.store.answers.by_annotator() if c.answers]
    now = web.training.instructions()
    rows = []
    for name in sorted({*results, *counts}):
        one = results.get(name)
        share = one.share if one else None
        rows.append(
            CheckRow(
                annotator=name, right=one.right if one else 0, judged=one.judged if one else 0,
                low=share.low if share else None, high=share.high if share else None,
                below=bool(one and one.below), session=_session(web, name, gold=True),
            )
        )  # fmt: skip
    found = [
        AgreementOut(**asdict(one), current=now is not None and one.version == now.version)
        for one in agreements(web.store)
    ]
    return Checks(wanted=study.config.people.gold_wanted, people=rows, agreements=found)


def _session(web: Web, name: str, *, gold: bool) -> SessionOut:
    found = session_of(web.study, name, gold=gold)
    return SessionOut(
        annotator=name, answers=found.answers, minutes=found.minutes, seconds=_over(found.seconds),
        repeats=_over(found.repeats), gold=None if found.gold is None else _over(found.gold),
    )  # fmt: skip


def _over(found: Over) -> OverOut:
    return OverOut(**asdict(found))
