"""Bodies about the questions of a study and their scales."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from steelyard.web.api.schema.fields import In, Text

__all__ = [
    "Correlation",
    "NewQuestion",
    "QuestionChange",
    "QuestionKey",
    "QuestionOut",
    "QuestionRow",
    "QuestionSet",
    "QuestionsOut",
    "QuestionsSet",
]

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


Wording = Annotated[Text, Field(min_length=1, max_length=200)]
Words = Annotated[Text, Field(max_length=60)]
Weight = Annotated[
    float,
    Field(
        ge=-1000, le=1000, allow_inf_nan=False,
        description="What its scale counts in the composite score; 0 leaves it out, below 0 turns it round.",
    ),
]  # fmt: skip


class NewQuestion(In):
    """A further question about every pair; `key` names it in tables and files and stays as it is."""

    key: Annotated[str, Field(max_length=30, pattern=r"^[a-z][a-z0-9_]*$")]
    question: Wording
    more: Words = ""
    scale: Words = ""
    weight: Weight = 1.0


class QuestionChange(In):
    """Another wording or weight of a further question; what is missing stays."""

    question: Wording | None = None
    more: Words | None = None
    scale: Words | None = None
    weight: Weight | None = None


class QuestionSet(BaseModel):
    """A further question as it is set; `more` and `scale` are empty where they follow from the question, as `words` has them."""

    key: str
    question: str
    more: str
    scale: str
    weight: float
    words: dict[str, str]
    answers: int


class QuestionsSet(BaseModel):
    """The further questions of the study, in the order of asking."""

    questions: list[QuestionSet]
