"""Bodies about comparing and grading."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from steelyard.pairs import Answer
from steelyard.web.api.schema.fields import ImageId, In, PairNumber, Seconds, Text, Uuid
from steelyard.web.api.schema.questions import QuestionKey, QuestionOut

__all__ = [
    "ComparisonIn",
    "ComparisonList",
    "ComparisonOut",
    "ComparisonRow",
    "Feedback",
    "GradeIn",
    "GradeList",
    "GradeOut",
    "GradeRow",
    "LeaseIn",
    "LeaseOut",
    "Neighbours",
    "PairOut",
    "Suggested",
    "Suggestions",
    "UndoIn",
    "UndoOut",
    "Warmup",
]


class LeaseIn(In):
    """How many pairs to hold; those held already come first."""

    count: int = Field(6, ge=1, le=50)
    beyond: bool = Field(False, description="Go on though the planned answers are in.")


class PairOut(BaseModel):
    """A pair as it is to be shown."""

    id: int
    left: str
    right: str
    expires: float
    answered: list[str] = Field(
        [], description="Keys of further questions that you have answered about it already."
    )


class LeaseOut(BaseModel):
    """What somebody holds now; `note` says what the study waits for, if anything.

    `gone` are pairs that were handed out before and are asked no more: an image of theirs was excluded. `missing`: there are
    pairs, but the files of their images are not where they were. `wording` names what the study says and asks now: a page that
    was opened with another one is loaded again. `consent`: agree to the instructions first; `limit`: no more for now, or at all.
    """

    pairs: list[PairOut]
    state: Literal["open", "choosing", "elsewhere", "done", "missing", "consent", "limit"]
    more: bool = Field(description="Whether there may be pairs `beyond` the plan.")
    mine: int = Field(description="How many of the answers are yours.")
    answered: int
    wanted: int
    note: str = ""
    wording: str
    gone: list[int]
    questions: list[QuestionOut] = Field(
        description="What is asked about each pair, the main question first."
    )
    again_at: float | None = Field(None, description="When there may be pairs again, after a daily limit.")
    warmup: Warmup | None = Field(None, description="Set while these pairs are for warming up.")


class Warmup(BaseModel):
    """How far somebody's warm-up is."""

    done: int
    of: int
    skippable: bool


class ComparisonIn(In):
    """One answer. `id` is made by the client: the same answer sent again is the same answer."""

    id: Uuid
    pair: PairNumber
    left: ImageId
    right: ImageId
    answer: Answer
    shown_at: Seconds | None = None
    answered_at: Seconds | None = None
    note: Annotated[Text, Field(max_length=500)] = ""
    exclude: list[ImageId] = Field(default_factory=list, max_length=2)
    supersedes: Uuid | None = None
    question: QuestionKey = Field("", description="Key of a further question; empty is the main one.")


class ComparisonOut(BaseModel):
    """What became of an answer; `gone` and `wording` as with a lease."""

    id: str
    seq: int
    created: bool
    answered: int
    wanted: int
    wording: str
    gone: list[int]
    feedback: Feedback | None = Field(
        None, description="After a pair of the warm-up: what is known about it."
    )


class Feedback(BaseModel):
    """The known answer of a pair as it was shown, and whether it was given."""

    expected: Answer
    right: bool


class UndoIn(In):
    """`id` is the client's name for this undo, as for an answer."""

    id: Uuid


class UndoOut(BaseModel):
    """What became of an undo; `gone` as with a lease, empty for grades."""

    id: str
    seq: int
    created: bool
    answered: int
    wanted: int
    gone: list[int] = []


class ComparisonRow(BaseModel):
    """A row of the log; `answer` is null for an undo, `role` is `decision` where a lead has decided about the pair."""

    seq: int
    id: str
    pair: int
    annotator: str
    answer: Answer | None
    left: str
    right: str
    shown_at: float | None
    answered_at: float
    supersedes: str | None
    superseded_by: str | None
    note: str
    source: str
    role: Literal["answer", "decision"]
    question: str = ""


class ComparisonList(BaseModel):
    """A page of the log, oldest first; `next` is the cursor of the next page, null at the end."""

    comparisons: list[ComparisonRow]
    next: str | None


class Suggested(BaseModel):
    """An image to grade, and for each grade the study's examples of it; none of the same group."""

    id: str
    examples: list[list[str]]


class Suggestions(BaseModel):
    """What to grade next; where nothing is left, `sentence` says why.

    `graded` by you, `given` by everybody; `gone` are images that were handed out before and are asked no more: they were excluded.
    """

    images: list[Suggested]
    state: Literal["open", "done", "missing", "consent"]
    sentence: str
    wording: str
    graded: int
    given: int
    wanted: int
    gone: list[str]


class GradeIn(In):
    """One absolute grade. `name` is what it was called where it was given; one that has moved since is refused."""

    id: Uuid
    image: ImageId
    grade: int = Field(ge=0, le=99)
    name: Annotated[Text, Field(max_length=300)] = ""
    shown_at: Seconds | None = None
    answered_at: Seconds | None = None
    note: Annotated[Text, Field(max_length=500)] = ""


class GradeOut(BaseModel):
    """What became of a grade; `gone` as with suggestions."""

    id: str
    seq: int
    created: bool
    graded: int
    given: int
    wanted: int
    gone: list[str]


class Neighbours(BaseModel):
    """Images beside a graded one in the model's order, nearest in the middle; none before there is a model."""

    below: list[str]
    above: list[str]


class GradeRow(BaseModel):
    """A row of the log of grades; `grade` is null for an undo."""

    seq: int
    id: str
    image: str
    annotator: str
    grade: int | None
    answered_at: float
    supersedes: str | None
    superseded_by: str | None
    note: str


class GradeList(BaseModel):
    """A page of the log of grades."""

    grades: list[GradeRow]
    next: str | None
