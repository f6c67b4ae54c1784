"""Bodies about conflicts and decisions."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from steelyard.pairs import Answer
from steelyard.web.api.schema.fields import ImageId, In, RowId, Seconds, Text, Uuid

__all__ = [
    "ConflictList",
    "ConflictOut",
    "Counts",
    "DecisionIn",
    "DecisionOut",
    "DecisionUndone",
    "Named",
    "Revealed",
    "Standing",
]


class Counts(BaseModel):
    """How many gave each answer, about the pair as it is shown here."""

    left: int
    right: int
    equal: int
    cannot_judge: int


class Named(BaseModel):
    """What one person said, about the pair as it is shown here."""

    annotator: str
    answer: Answer
    note: str


class Revealed(BaseModel):
    """Who said what, and how likely the model thinks it that the left image shows more, if either does."""

    said: list[Named]
    model_left: float | None = Field(
        description="Without the answers about this pair; null before there is a model."
    )


class Standing(BaseModel):
    """A decision that stands; `answer` is about the pair as it is shown here."""

    id: str
    answer: Answer
    annotator: str
    answered_at: float
    note: str


class ConflictOut(BaseModel):
    """A pair on which people disagree, or people and the model. Sides are drawn anew, the same for everybody who decides.

    `said` is null until the pair is decided where people agree: the model contradicts them then, and what they said would tell
    what it thinks. `decision` and `revealed` are null until somebody has decided.
    """

    pair: int
    left: str
    right: str
    answers: int = Field(description="How many answers there are.")
    said: Counts | None
    decision: Standing | None
    revealed: Revealed | None


class ConflictList(BaseModel):
    """Conflicts, the worst first; `open` of them wait for a decision, `decided` have one."""

    conflicts: list[ConflictOut]
    open: int
    decided: int
    wording: str


class DecisionIn(In):
    """One decision about a pair as it was shown. `id` is made by the client: the same decision sent again is the same one."""

    id: Uuid
    pair: RowId
    left: ImageId
    right: ImageId
    answer: Answer
    shown_at: Seconds | None = None
    answered_at: Seconds | None = None
    note: Annotated[Text, Field(max_length=500)] = ""
    supersedes: Uuid | None = Field(None, description="The decision that this one replaces, whoever made it.")


class DecisionOut(BaseModel):
    """What became of a decision, and what others had said."""

    id: str
    seq: int
    created: bool
    open: int
    decided: int
    revealed: Revealed


class DecisionUndone(BaseModel):
    """What became of taking a decision back: the answers count again."""

    id: str
    seq: int
    created: bool
    open: int
    decided: int
