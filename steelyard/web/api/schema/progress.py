"""Bodies about how far the study is."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

__all__ = [
    "AccuracyPart",
    "AccuracyPoint",
    "Achieved",
    "NextPair",
    "PeoplePart",
    "PersonRow",
    "PersonSeries",
    "Progress",
    "Shape",
    "SpreadPart",
    "TrainerPart",
    "UnsurePart",
    "UnsurePoint",
]


class AccuracyPoint(BaseModel):
    """Estimated accuracy of one model."""

    answers: int
    estimate: float
    low: float
    high: float


class Achieved(BaseModel):
    """What was reached, in a sentence and the material of a picture."""

    sentence: str
    next: str
    ladder: list[str]
    accuracy: list[AccuracyPoint]


class AccuracyPart(BaseModel):
    """How accurate are we? `random` is what the random pairs alone would have given, as far as there are any; `ahead` is the
    forecast from the last decision to the end of the plan, `level` the accuracy that is asked for."""

    sentence: str
    history: list[AccuracyPoint]
    random: list[AccuracyPoint]
    ahead: list[AccuracyPoint]
    level: float | None


class Shape(BaseModel):
    """A distribution of scores: of one grade, or of all images (`grade` is null)."""

    name: str
    grade: int | None
    count: int
    bins: list[float]
    density: list[float]
    median: float
    low: float
    high: float


class SpreadPart(BaseModel):
    """How are the scores spread?"""

    sentence: str
    shapes: list[Shape]


class UnsurePoint(BaseModel):
    """One image's score and uncertainty."""

    id: str
    score: float
    std: float


class UnsurePart(BaseModel):
    """Where is the model unsure?"""

    sentence: str
    points: list[UnsurePoint]


class PersonRow(BaseModel):
    """Who answered how much."""

    annotator: str
    answers: int
    equal: int
    cannot_judge: int
    undone: int
    seconds: float | None
    last_at: float | None


class PersonSeries(BaseModel):
    """Answers over time: [time, answers so far]."""

    name: str
    points: list[tuple[float, float]]


class PeoplePart(BaseModel):
    """Who answered how much and how fast?"""

    sentence: str
    rows: list[PersonRow]
    series: list[PersonSeries]


class NextPair(BaseModel):
    """A pair that is up, and why."""

    first: str
    second: str
    strategy: str
    reason: str


class TrainerPart(BaseModel):
    """What the trainer does."""

    state: Literal["training", "waiting", "failed", "idle"]
    sentence: str
    done: int
    total: int
    log: list[str]


class Progress(BaseModel):
    """Everything on the progress page."""

    answered: int
    wanted: int
    images: int
    accuracy: AccuracyPart
    spread: SpreadPart
    unsure: UnsurePart
    people: PeoplePart
    next: list[NextPair]
    trainer: TrainerPart
    stop: str
