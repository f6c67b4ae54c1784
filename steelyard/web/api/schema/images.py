"""Bodies about images and the ranking."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from steelyard.web.api.schema.fields import In, Text

__all__ = [
    "ImageChange",
    "ImageInfo",
    "ImageList",
    "ImageListed",
    "ImageRow",
    "Neighbour",
    "Placed",
    "RankingOut",
    "RankingSummary",
    "TookPart",
]


class ImageRow(BaseModel):
    """An image in the ranking; rank 1 is the most severe."""

    id: str
    score: float
    low: float
    high: float
    rank: int
    grade: str | None
    comparisons: int


class RankingOut(BaseModel):
    """A window of the ranking, from least to most severe."""

    model: int | None
    start: int
    total: int
    images: list[ImageRow]


class RankingSummary(BaseModel):
    """The ranking as a whole."""

    model: int | None
    created: float | None
    count: int
    total: int
    aspect: float
    grades: list[str]


class Neighbour(BaseModel):
    """An image next to another in the ranking."""

    id: str
    score: float


class TookPart(BaseModel):
    """A comparison seen from one image: it was `more`, `less`, `equal`, or it `cannot` be judged."""

    other: str
    outcome: Literal["more", "less", "equal", "cannot"]
    annotator: str
    answered_at: float


class ImageInfo(BaseModel):
    """Everything about one image; `content` is its id in exports and on the command line."""

    id: str
    content: str
    path: str
    group: str | None
    grade: str | None
    score: float | None
    low: float | None
    high: float | None
    rank: int | None
    total: int
    below: list[Neighbour]
    above: list[Neighbour]
    comparisons: list[TookPart]
    excluded: bool
    excluded_by: str | None
    excluded_reason: str | None


class ImageListed(BaseModel):
    """An image in a list; `content` is its id in exports and on the command line."""

    id: str
    content: str
    path: str
    group: str | None
    grade: int | None
    excluded: bool
    excluded_by: str | None
    excluded_reason: str | None


class ImageList(BaseModel):
    """A page of images in catalog order."""

    images: list[ImageListed]
    next: str | None


class ImageChange(In):
    """Take an image out of the study, or back in."""

    excluded: bool
    reason: Annotated[Text, Field(max_length=200)] = ""


class Placed(BaseModel):
    """Where a new picture falls."""

    score: float
    low: float
    high: float
    rank: int
    total: int
    below: list[Neighbour]
    above: list[Neighbour]
