"""The questions of a study: what is asked, how far each is, and how their scales go together."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from steelyard.config.questions import COMPOSITE, MAIN
from steelyard.errors import StudyError
from steelyard.study.asked import question_key
from steelyard.web.api.schema.questions import Correlation, QuestionOut, QuestionRow, QuestionsOut
from steelyard.web.context import Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["Scale", "asked", "known_question", "known_scale", "router", "scales"]

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
