"""The questions of a study: what is asked, how far each is, and how their scales go together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from steelyard.config.questions import COMPOSITE, MAIN
from steelyard.errors import ConfigError, StudyError
from steelyard.study.asked import check_asked, counted, question_key
from steelyard.web.api.schema.fields import ChangeId
from steelyard.web.api.schema.questions import (
    Correlation,
    NewQuestion,
    QuestionChange,
    QuestionKey,
    QuestionOut,
    QuestionRow,
    QuestionSet,
    QuestionsOut,
    QuestionsSet,
)
from steelyard.web.context import Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["Scale", "asked", "known_question", "known_scale", "questions_set", "router", "scales"]

router = APIRouter()
Scale = Annotated[
    str,
    Query(
        max_length=30, pattern=r"^([a-z][a-z0-9_]*)?$",
        description="Which scale: the key of a further question, or `composite`; empty or `main` is the main one.",
    ),
]  # fmt: skip


def asked(web: Web) -> list[QuestionOut]:
    """What is asked about each pair, the main question first."""
    page = web.study.config.page
    return [
        QuestionOut(key=key, question=question, words=words.to_dict())
        for key, question, words in (
            ("", page.question, page.words),
            *((one.key, one.question, one.words) for one in web.study.config.questions),
        )
    ]


def known_question(web: Web, key: str) -> str:
    """The key of a question that somebody sent, empty for the main one.

    Raises:
        Problem: 422, the study does not ask it.
    """
    try:
        return question_key(web.study.config, key)
    except StudyError as error:
        raise Problem(422, f"question: {error}.") from None


def scales(web: Web) -> list[str]:
    """Keys of the scales, the main one first and empty, the composite last; none where there is but one."""
    further = [one.key for one in web.study.config.questions]
    return ["", *further, COMPOSITE] if further else []


def known_scale(web: Web, key: str) -> str:
    """The key of a scale that somebody sent, empty for the main one; errors as in `known_question`."""
    return key if key in scales(web) else known_question(web, key)


@router.get("/questions", tags=["ranking"], responses=responses(401, 403, 503))
def questions(web: WebOf, who: Lead) -> QuestionsOut:
    """What is asked, how much was answered, and how the scales of the newest model go together."""
    model = web.store.models.newest()
    config, answers = web.study.config, web.store.answers.last_seq()
    known = web.kept.get("questions")
    if known is None or known[0] != (model and model.id, answers, config):
        with web.asker.lock:
            known = web.kept["questions"] = ((model and model.id, answers, config), web.study.scales())
    found = known[1]
    said = {one.key or MAIN: one for one in asked(web)}
    return QuestionsOut(
        questions=[
            QuestionRow(
                **said[row["key"]].model_dump(),
                **{k: v for k, v in row.items() if k not in ("key", "question")},
            )
            for row in found.questions
        ],
        correlations=[
            Correlation(**{**row, "one": _key(row["one"]), "other": _key(row["other"])})
            for row in found.correlations
        ],
    )


def _key(name: str) -> str:
    return "" if name == MAIN else name


def questions_set(web: Web) -> QuestionsSet:
    """The further questions as they are set."""
    answers = counted(web.study.config, web.store)
    return QuestionsSet(
        questions=[
            QuestionSet(**one.to_dict(), words=one.words.to_dict(), answers=answers[one.key])
            for one in web.study.config.questions
        ]
    )


Key = Annotated[QuestionKey, Path(min_length=1, description="The question's key.")]


@router.post("/questions", tags=["study"], status_code=201, responses=responses(401, 403, 409, 422, 503))
def add_question(body: NewQuestion, web: WebOf, who: Lead, key: ChangeId = None) -> QuestionsSet:
    """Ask one more question about every pair from now on; pairs that were answered before are not asked about again."""

    def added(before: list[dict[str, Any]]) -> list[dict[str, Any]]:
        wanted = body.model_dump()
        same = [one for one in before if one["key"] == body.key]
        if same and same != [wanted]:
            raise Problem(409, f"There is a question with the key “{body.key}” already; take another key.")
        return before if same else [*before, wanted]

    return _change(web, who.name, key, "question added", body.model_dump(), added)


@router.patch("/questions/{name}", tags=["study"], responses=responses(401, 403, 404, 409, 422, 503))
def change_question(
    name: Key, body: QuestionChange, web: WebOf, who: Lead, key: ChangeId = None
) -> QuestionsSet:
    """Word a further question anew, or let its scale count otherwise in the composite. Answers that were given stay with it."""
    asked = body.model_dump(exclude_none=True)

    def changed(before: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _known(before, name)
        return [{**one, **asked} if one["key"] == name else one for one in before]

    return _change(web, who.name, key, "question changed", {"key": name, **asked}, changed)


@router.delete("/questions/{name}", tags=["study"], responses=responses(401, 403, 404, 409, 422, 503))
def remove_question(name: Key, web: WebOf, who: Lead, key: ChangeId = None) -> QuestionsSet:
    """Ask a further question no more. One that has answers stays; a weight of 0 leaves its scale out of the composite."""

    def removed(before: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _known(before, name)
        if number := web.store.answers.by_question().get(name, 0):
            raise Problem(
                409,
                f"{number:,} answer{'s' * (number != 1)} would be of no question. Set its weight to 0 to leave its scale out of "
                "the composite.",
                code="answered",
            )
        return [one for one in before if one["key"] != name]

    return _change(web, who.name, key, "question removed", {"key": name}, removed)


def _known(questions: list[dict[str, Any]], key: str) -> None:
    if all(one["key"] != key for one in questions):
        raise Problem(404, f"The study has no further question “{key}”; reload to see what it asks.")


def _change(
    web: Web,
    who: str,
    key: str | None,
    action: str,
    detail: dict[str, Any],
    make: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
) -> QuestionsSet:
    """Write other further questions, once for each name of a change, with an entry of the audit log.

    Raises:
        Problem: 409 or 422, the questions would be none that a study can ask; what was asked and answered stays as it was.
    """
    what = f"{action} {hashlib.blake2b(json.dumps(detail).encode(), digest_size=12).hexdigest()}"
    with web.changing, web.store.change(key, who, what) as change:
        if not change.first:
            return questions_set(web)
        web.reread()
        questions = make([one.to_dict() for one in web.study.config.questions])
        try:
            wanted = web.study.config.with_changes(questions=questions)
        except ConfigError as error:
            raise Problem(422, f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
        try:
            check_asked(web.store, wanted, "this change")
        except StudyError as error:
            raise Problem(409, f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
        web.configure(wanted, by=who)
        web.store.audit.add(who, action, detail)
        return questions_set(web)
