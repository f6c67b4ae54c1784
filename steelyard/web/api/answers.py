"""Comparing and grading: taking pairs, answering, undoing, and reading the logs."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel

from steelyard.errors import StudyError
from steelyard.pairs import Answer
from steelyard.store.records import Leased, NewComparison, NewGrade
from steelyard.web.api import cursor
from steelyard.web.api.questions import asked, known_question
from steelyard.web.api.schema.answering import (
    ComparisonIn,
    ComparisonList,
    ComparisonOut,
    ComparisonRow,
    Feedback,
    GradeIn,
    GradeList,
    GradeOut,
    GradeRow,
    LeaseIn,
    LeaseOut,
    Neighbours,
    PairOut,
    Suggested,
    Suggestions,
    UndoIn,
    UndoOut,
    Warmup,
)
from steelyard.web.api.schema.fields import Uuid
from steelyard.web.context import Anyone, Web, WebOf
from steelyard.web.problems import Problem, responses
from steelyard.web.ranking import Ranking

__all__ = ["router"]

router = APIRouter()
HANDFUL = 8  # images somebody may hold for grading; the page keeps half as many ready
AnswerId = Annotated[Uuid, Path(description="The client's id of the answer.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(alias="cursor", max_length=64, description="`next` of the page before.")]


def _written_once(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    known = {"model": model, "description": "Known already; nothing was written twice."}
    return responses(401, 403, 404, 409, 422, 503, also={200: known})


@router.post("/pairs/lease", tags=["compare"], responses=responses(401, 403, 422, 503))
def lease_pairs(body: LeaseIn, web: WebOf, who: Anyone) -> LeaseOut:
    """Take pairs to answer. Those you hold already come first, with the same sides; leases are renewed."""
    handed = web.training.hand(who.name, body.count)
    if not handed.waits:
        web.asker.want(who.name, beyond=body.beyond)
    web.sight.show(who.name, (row for pair in handed.pairs for row in (pair.left_row, pair.right_row)))
    answered = web.store.answers.count()
    state: Any = handed.waits or web.asker.state(
        who.name, handed=len(handed.pairs), answered=answered, beyond=body.beyond
    )
    return LeaseOut(
        pairs=_shown(web, who.name, handed.pairs),
        questions=asked(web),
        state="missing" if handed.lacking and not handed.pairs else state,
        more=not web.asker.exhausted,
        mine=web.training.mine(who.name),
        answered=web.training.answered(),
        wanted=web.training.wanted,
        note=web.note(),
        wording=web.wording,
        gone=_gone_pairs(web, who.name),
        again_at=handed.again_at,
        warmup=None
        if handed.warmup is None
        else Warmup(
            done=handed.warmup[0], of=handed.warmup[1], skippable=web.study.config.people.warmup_skip
        ),
    )


def _shown(web: Web, annotator: str, leased: list[Leased]) -> list[PairOut]:
    """Pairs as they are told; one time for all of them, for when each was renewed would tell hidden ones apart."""
    name, number = web.ids.public, web.numbers.public
    several = web.study.config.questions
    told = web.store.answers.further(annotator, [p.pair for p in leased]) if several else {}
    first = min((pair.expires for pair in leased), default=0.0)
    return [
        PairOut(
            id=number(p.pair), left=name(p.left), right=name(p.right),
            expires=first if web.training.hides else p.expires,
            answered=told.get(p.pair, []),
        )
        for p in leased
    ]  # fmt: skip


def _gone_pairs(web: Web, name: str) -> list[int]:
    return [web.numbers.public(id) for id in web.gone.pairs(name)]


@router.post(
    "/comparisons",
    tags=["compare"],
    status_code=201,
    responses=_written_once(ComparisonOut),
)
def add_comparison(body: ComparisonIn, web: WebOf, who: Anyone, response: Response) -> ComparisonOut:
    """Answer a pair that you were handed. Send it again whenever you are not sure that it arrived."""
    if not set(body.exclude) <= {body.left, body.right}:
        raise Problem(422, "exclude: only images of this pair can be excluded with it.")
    content = {id: web.judged(id)[0] for id in (body.left, body.right)}
    with web.numbers.unnamed():
        new = NewComparison(
            web.numbers.stored(body.pair, who.name), who.name, body.answer, content[body.left], content[body.right], body.shown_at, body.answered_at,
            body.id.lower(), body.supersedes.lower() if body.supersedes else None, body.note,
            "api" if who.via == "token" else "page", tuple(content[id] for id in body.exclude), known_question(web, body.question),
        )  # fmt: skip
        recorded = web.scribe.add(new)
    if (body.exclude or body.supersedes) and recorded.created:
        web.images_changed()
    web.asker.want(who.name)
    response.status_code = 201 if recorded.created else 200
    return ComparisonOut(
        id=recorded.id, seq=recorded.seq, created=recorded.created,
        answered=web.training.answered(since=recorded.seq), wanted=web.training.wanted,
        wording=web.wording, gone=_gone_pairs(web, who.name), feedback=_feedback(web, recorded.id),
    )  # fmt: skip


def _feedback(web: Web, id: str) -> Feedback | None:
    found = web.training.feedback(id)
    return None if found is None else Feedback(expected=Answer(found[0]), right=found[1])


@router.post("/comparisons/{id}/undo", tags=["compare"], responses=responses(401, 403, 404, 409, 422, 503))
def undo_comparison(id: AnswerId, body: UndoIn, web: WebOf, who: Anyone) -> UndoOut:
    """Take an answer of yours back, and what it excluded. The log keeps both; the pair is yours again, with the same sides."""
    recorded = web.store.answers.undo(
        id.lower(), who.name, id=body.id.lower(), lease_seconds=web.study.config.ask.lease_seconds
    )
    if recorded.created:
        web.images_changed()
    return UndoOut(
        id=recorded.id, seq=recorded.seq, created=recorded.created,
        answered=web.training.answered(), wanted=web.training.wanted, gone=_gone_pairs(web, who.name),
    )  # fmt: skip


@router.get("/comparisons", tags=["compare"], responses=responses(401, 403, 422, 503))
def list_comparisons(web: WebOf, who: Anyone, cursor_: Cursor = None, limit: Limit = 100) -> ComparisonList:
    """The log of answers, oldest first. Annotators see their own, leads everybody's."""
    after = cursor.read("comparisons", cursor_)
    own = None if who.may("lead") else who.name
    rows = web.store.answers.log(after, limit + 1, annotator=own)
    name = web.ids.public
    return ComparisonList(
        comparisons=[
            ComparisonRow(
                seq=c.seq, id=c.id, pair=web.numbers.public(c.pair), annotator=c.annotator, answer=c.answer, left=name(c.left),
                right=name(c.right), shown_at=c.shown_at, answered_at=c.answered_at, supersedes=c.supersedes,
                superseded_by=c.superseded_by, note=c.note, source=c.source, role=c.role, question=c.question,
            )
            for c in rows[:limit]
        ],
        next=cursor.write("comparisons", rows[limit - 1].seq) if len(rows) > limit else None,
    )  # fmt: skip


# ---------------------------------------------------------------------- grades


class _Given:
    """Who has graded what, as somebody sees it.

    Attributes:
        mine: rows that they have graded.
        others: rows that only others have graded.
        wanted: how many grades of people are worth having, as far as there are images without one.
    """

    def __init__(self, web: Web, name: str) -> None:
        given = web.store.grades.arrays()
        code = given.annotators.index(name) if name in given.annotators else -1
        self.mine = set(given.row[given.annotator == code].tolist())
        self.others = set(given.row.tolist()) - self.mine
        self.known = web.study.known_grades() >= 0
        worth = max(20, 10 * len(web.study.grade_names))
        self.wanted = min(worth, len(self.mine) + len(self.others) + int((~self.known).sum()))

    @property
    def total(self) -> int:
        return len(self.mine) + len(self.others)

    def why_nothing(self) -> str:
        """Why there is nothing to grade."""
        came = int(self.known.sum()) - self.total
        parts = [
            text
            for n, text in (
                (came, f"{came:,} came with one"),
                (len(self.mine), f"you graded {len(self.mine):,}"),
                (len(self.others), f"others graded {len(self.others):,}"),
            )
            if n
        ]
        none = int((~self.known).sum())
        if not none:
            return f"Every image has a grade: {_joined(parts)}."
        left = f"{none:,} {'image has' if none == 1 else 'images have'} no grade, but"
        return f"{left} {'is' if none == 1 else 'are'} excluded or could not be read. Of the others, {_joined(parts)}."


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "none has a grade"


def _gone(web: Web, name: str) -> list[str]:
    return [web.ids.at(row) for row in web.gone.images(name)]


@router.get("/grading/next", tags=["grade"], responses=responses(401, 403, 422, 503))
def suggest_grading(web: WebOf, who: Anyone, count: Annotated[int, Query(ge=1, le=100)] = 4) -> Suggestions:
    """Take images to grade, with examples of every grade beside each.

    Those you hold come first. You hold a handful at most: grade them and there are others.
    """
    given = _Given(web, who.name)
    rows: list[int] = []
    waits = web.training.must_agree(who.name)
    if web.study.grade_names and not waits:
        held = web.store.grades.outstanding(who.name)
        rows = held[:count]
        if len(held) < min(count, HANDFUL):
            rows = web.store.grades.lease(
                who.name, _worth_grading(web, count + len(held)), count, most=HANDFUL
            )
    taken, rows = rows, [row for row in rows if web.handing.there(row)]
    lacking = bool(taken) and not rows
    web.sight.show(who.name, rows)
    return Suggestions(
        images=[
            Suggested(
                id=web.ids.at(row),
                examples=[[web.ids.at(r) for r in shown] for shown in web.examples.of(row)],
            )
            for row in rows
        ],
        state="consent" if waits else "open" if rows else "missing" if lacking else "done",
        wording=web.wording,
        sentence="Agree to the instructions first." if waits else "" if taken else given.why_nothing(),
        graded=len(given.mine),
        given=given.total,
        wanted=given.wanted,
        gone=_gone(web, who.name),
    )


def _worth_grading(web: Web, count: int) -> list[int]:
    """Rows whose grade would help most, in an order that says nothing: they are chosen in the order of their scores.

    Patients of an example come last: beside their images it is left out, and what is missing would tell whose they are.
    """
    n, images = count, len(web.study.catalog)
    while True:
        with web.asker.lock:
            found = web.study.catalog.rows_of(web.study.suggest_grading(n)).tolist()
        related = web.examples.related(found)
        rows = [row for row in found if row not in related]
        if len(rows) >= count or n >= images:
            break
        n = min(2 * n + len(related), images)
    np.random.default_rng().shuffle(rows)
    return rows + sorted(related - web.examples.rows(), key=lambda row: web.ids.at(row))


@router.post(
    "/grades",
    tags=["grade"],
    status_code=201,
    responses=_written_once(GradeOut),
)
def add_grade(body: GradeIn, web: WebOf, who: Anyone, response: Response) -> GradeOut:
    """Grade an image that you were handed; a lead grades any. Grading it again replaces the grade."""
    image, earlier_name = web.judged(body.image)
    names = web.study.grade_names
    if body.grade >= len(names):
        raise Problem(
            422,
            f"grade: must be one of 0 … {len(names) - 1}."
            if names
            else "grade: this study defines no grades.",
        )
    now = web.study.grade_list.find(body.name) if body.name else None
    if now is not None and now != body.grade:
        raise Problem(
            409,
            f"The list of grades was changed meanwhile: “{body.name}” is grade {now} now. Reload the page and grade the image again.",
        )
    earlier = next(
        (
            g
            for g in web.store.grades.log(annotator=who.name)
            if g.image == image and g.effective and g.id != body.id.lower()
        ),
        None,
    )
    recorded = web.store.grades.add(
        NewGrade(
            image, who.name, body.grade, body.shown_at, body.answered_at, body.id.lower(),
            earlier.id if earlier else None, body.note, "api" if who.via == "token" else "page",
        ),
        # 0.1 handed images out without writing it down.
        require_lease=not (who.may("lead") or earlier_name),
    )  # fmt: skip
    given = _Given(web, who.name)
    response.status_code = 201 if recorded.created else 200
    return GradeOut(
        id=recorded.id, seq=recorded.seq, created=recorded.created,
        graded=len(given.mine), given=given.total, wanted=given.wanted,
        gone=_gone(web, who.name),
    )  # fmt: skip


@router.get("/grades/{id}/neighbours", tags=["grade"], responses=responses(401, 403, 404, 409, 422, 503))
def neighbours(id: AnswerId, web: WebOf, who: Anyone, response: Response) -> Neighbours:
    """The images beside one that you graded, in the model's order: once, and from then on the grade stands."""
    response.headers["Cache-Control"] = "no-store"
    ranking = _ranking_or_none(web)
    if ranking is None:
        return Neighbours(below=[], above=[])
    found: list[list[int]] = []

    def look(row: int) -> list[int]:
        found[:] = [[int(r) for r in side] for side in ranking.neighbours(row)]
        return [row for side in found for row in side]

    shown = web.store.grades.review(id.lower(), who.name, look, require_lease=not who.may("lead"))
    web.sight.show(who.name, shown)
    below, above = ([web.ids.at(row) for row in side] for side in found)
    return Neighbours(below=below, above=above)


@router.post("/grades/{id}/undo", tags=["grade"], responses=responses(401, 403, 404, 409, 422, 503))
def undo_grade(id: AnswerId, body: UndoIn, web: WebOf, who: Anyone) -> UndoOut:
    """Take a grade of yours back."""
    recorded = web.store.grades.undo(id.lower(), who.name, id=body.id.lower())
    given = _Given(web, who.name)
    return UndoOut(
        id=recorded.id,
        seq=recorded.seq,
        created=recorded.created,
        answered=len(given.mine),
        wanted=given.wanted,
    )


@router.get("/grades", tags=["grade"], responses=responses(401, 403, 422, 503))
def list_grades(web: WebOf, who: Anyone, cursor_: Cursor = None, limit: Limit = 100) -> GradeList:
    """The log of grades, oldest first. Annotators see their own, leads everybody's."""
    after = cursor.read("grades", cursor_)
    rows = web.store.grades.log(after, limit + 1, annotator=None if who.may("lead") else who.name)
    name = web.ids.public
    return GradeList(
        grades=[
            GradeRow(
                seq=g.seq, id=g.id, image=name(g.image), annotator=g.annotator, grade=g.grade, answered_at=g.answered_at,
                supersedes=g.supersedes, superseded_by=g.superseded_by, note=g.note,
            )
            for g in rows[:limit]
        ],
        next=cursor.write("grades", rows[limit - 1].seq) if len(rows) > limit else None,
    )  # fmt: skip


def _ranking_or_none(web: Web) -> Ranking | None:
    try:
        return web.rankings.newest()
    except StudyError:
        return None  # a grade is worth keeping even when the model cannot be read
