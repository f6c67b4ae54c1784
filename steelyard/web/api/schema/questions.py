"""Bodies about the questions of a study and their scales."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["Correlation", "QuestionKey", "QuestionOut", "QuestionRow", "QuestionsOut"]

QuestionKey = Annotated[str, Field(max_length=30, pattern=r"^([a-z][a-z0-9_]*)?$")]


class QuestionOut(BaseModel):
    """A question as it is asked; `key` is empty for the main one, `words` are those of its scale."""

    key: str
    question: str
    words: dict[str, str]


class QuestionRow(QuestionOut):
    """A question and how far it is: `learnt` answers made its scale, whose `reliability` is null before there is one.

    `accuracy` is of the newest model, with its 95% interval; null where too few random pairs were answered.
    """

    weight: float
    answers: int
    learnt: int
    reliability: float | None
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None


class Correlation(BaseModel):
    """How two scales go together, with 95% intervals; null where a scale is too uncertain to say.

    `pearson` and `spearman` are corrected for the uncertainty of scores, `observed` is Pearson's of the scores as they are.
    """

    one: str
    other: str
    pearson: float | None
    pearson_low: float | None
    pearson_high: float | None
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    observed: float | None
    level: float
    images: int


class QuestionsOut(BaseModel):
    """What is asked, and how the scales go together; keys of the main question are empty."""

    questions: list[QuestionRow]
    correlations: list[Correlation]
