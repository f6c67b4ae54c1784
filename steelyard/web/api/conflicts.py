"""Adjudication: where people disagree a lead decides, and hears only then who had said what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, StoredPair
from steelyard.study.conflicts import Conflict, first_on_the_left
from steelyard.web.api.schema.answering import UndoIn
from steelyard.web.api.schema.conflicts import (
    ConflictList,
    ConflictOut,
    Counts,
    DecisionIn,
    DecisionOut,
    DecisionUndone,
    Named,
    Revealed,
    Standing,
)
from steelyard.web.api.schema.fields import Uuid
from steelyard.web.context import Lead, Web, WebOf
from steelyard.web.problems import responses

__all__ = ["router"]

router = APIRouter(tags=["adjudicate"])
DecisionId = Annotated[Uuid, Path(description="The client's id of the decision.")]


@router.get("/conflicts", responses=responses(401, 403, 422, 503))
def list_conflicts(
    web: WebOf,
    who: Lead,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    decided: Annotated[
        bool, Query(description="Those that are decided instead, with who said what.")
    ] = False,
) -> ConflictList:
    """Pairs on which people disagree, or people and the model, the worst first. Names come with the decision only."""
    every = web.disputes.all()
    chosen = [one for one in every if (one.decision is not None) == decided]
    shown = chosen if decided else [one for one in chosen if _there(web, one)]
    done = sum(one.decision is not None for one in every)
    return ConflictList(
        conflicts=[_out(web, one) for one in shown[:limit]],
        open=len(every) - done,
        decided=done,
        wording=web.wording,
    )


@router.post(
    "/decisions",
    status_code=201,
    responses=responses(
        401, 403, 404, 409, 422, 503,
        also={200: {"model": DecisionOut, "description": "Known already; nothing was written twice."}},
    ),
)  # fmt: skip
def decide(body: DecisionIn, web: WebOf, who: Lead, response: Response) -> DecisionOut:
    """Decide about a pair. The decision is learnt from in place of all answers about it; they stay in the log."""
    left, right = (web.content(id) for id in (body.left, body.right))
    recorded = web.store.decisions.add(
        NewComparison(
            body.pair, who.name, body.answer, left, right, body.shown_at, body.answered_at, body.id.lower(),
            body.supersedes.lower() if body.supersedes else None, body.note, "api" if who.via == "token" else "page",
        )
    )  # fmt: skip
    response.status_code = 201 if recorded.created else 200
    every = web.disputes.all()
    about = next((one for one in every if one.pair == body.pair), None)
    pair = web.store.pairs.get(body.pair)
    done = sum(one.decision is not None for one in every)
    return DecisionOut(
        id=recorded.id, seq=recorded.seq, created=recorded.created, open=len(every) - done, decided=done,
        revealed=_revealed(web, pair, left == pair.first, about.leans if about else None),
    )  # fmt: skip


@router.post("/decisions/{id}/undo", responses=responses(401, 403, 404, 409, 422, 503))
def undo_decision(id: DecisionId, body: UndoIn, web: WebOf, who: Lead) -> DecisionUndone:
    """Take a decision back, whoever made it: the answers about the pair count again. The log keeps both."""
    source = "api" if who.via == "token" else "page"
    recorded = web.store.decisions.undo(id.lower(), who.name, id=body.id.lower(), source=source)
    every = web.disputes.all()
    done = sum(one.decision is not None for one in every)
    return DecisionUndone(
        id=recorded.id, seq=recorded.seq, created=recorded.created, open=len(every) - done, decided=done
    )


def _there(web: Web, one: Conflict) -> bool:
    """Whether both pictures can be shown."""
    return web.handing.there(one.first) and web.handing.there(one.second)


def _out(web: Web, one: Conflict) -> ConflictOut:
    first_left = first_on_the_left(web.study, one.pair)
    first, second = (web.ids.at(row) for row in (one.first, one.second))
    counts = {_turned(answer, first_left): n for answer, n in one.counts().items()}
    decision = revealed = None
    if one.decision is not None and (answer := one.decided(web.ids.content(one.first))) is not None:
        its = one.decision
        decision = Standing(
            id=its.id, answer=_turned(answer, first_left), annotator=its.annotator, answered_at=its.answered_at, note=its.note
        )  # fmt: skip
        revealed = _revealed(web, web.store.pairs.get(one.pair), first_left, one.leans)
    return ConflictOut(
        pair=one.pair,
        left=first if first_left else second,
        right=second if first_left else first,
        answers=len(one.said),
        said=Counts(
            left=counts[Answer.LEFT],
            right=counts[Answer.RIGHT],
            equal=counts[Answer.EQUAL],
            cannot_judge=counts[Answer.CANNOT_JUDGE],
        )
        if one.people > 0 or one.decision is not None
        else None,
        decision=decision,
        revealed=revealed,
    )


def _revealed(web: Web, pair: StoredPair, first_left: bool, leans: float | None) -> Revealed:
    """What everybody said about the two images of a pair, as it counts now."""
    left = pair.first if first_left else pair.second
    about = [one for one in web.store.answers.of_image(pair.first) if pair.second in (one.left, one.right)]
    return Revealed(
        said=[
            Named(annotator=one.annotator, answer=_turned(one.answer, one.left == left), note=one.note)
            for one in about
            if one.answer is not None
        ],
        model_left=None if leans is None else round(leans if first_left else 1.0 - leans, 4),
    )


def _turned(answer: Answer, same: bool) -> Answer:
    return answer if same else answer.mirrored()
