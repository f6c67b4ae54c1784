"""Bodies about instructions, sessions and hidden checks."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from steelyard.web.api.schema.fields import In, Text

__all__ = [
    "AgreementOut",
    "CheckRow",
    "Checks",
    "ExampleOut",
    "FigureOut",
    "InstructionsIn",
    "InstructionsOut",
    "OverOut",
    "SessionOut",
]


class ExampleOut(BaseModel):
    """An image below the instructions."""

    id: str
    caption: str


class InstructionsOut(BaseModel):
    """What people read before their first pair; `version` is empty where there is nothing to read."""

    text: str
    examples: list[ExampleOut]
    version: str
    consent: bool = Field(description="Whether nothing is handed out before it is agreed to.")
    accepted: bool = Field(description="Whether you have read it, or agreed to it where that is asked for.")


class InstructionsIn(In):
    """“I have read this”, or “I agree”: to the version that was shown."""

    version: Annotated[Text, Field(min_length=1, max_length=64)]


class FigureOut(BaseModel):
    """A number with its 95% interval, and from how many answers."""

    value: float
    low: float
    high: float
    n: int


class OverOut(BaseModel):
    """One thing over a session, in its first and in its last third; null where there is too little to say."""

    sentence: str
    whole: FigureOut | None
    first: FigureOut | None
    last: FigureOut | None
    change: FigureOut | None


class SessionOut(BaseModel):
    """Somebody's last session. `gold` is null unless the study tells people how they answered hidden pairs."""

    annotator: str
    answers: int
    minutes: float
    seconds: OverOut
    repeats: OverOut
    gold: OverOut | None


class AgreementOut(BaseModel):
    """What somebody last read or agreed to; `current` whether that is the text of today."""

    name: str
    version: str
    at: float
    agreed: bool
    current: bool


class CheckRow(BaseModel):
    """How somebody answered hidden pairs; `low` and `high` are null where there are too few."""

    annotator: str
    right: int
    judged: int
    low: float | None
    high: float | None
    below: bool = Field(description="Clearly below the wanted share.")
    session: SessionOut | None


class Checks(BaseModel):
    """How people answer, for leads."""

    wanted: float
    people: list[CheckRow]
    agreements: list[AgreementOut]
