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
    "OnScale",
    "Placed",
    "RankingOut",
    "RankingSummary",
    "TookPart",
]


Unlike = Annotated[
    float | None,
    Field(
        description="Share of the study's images that are more typical, 0 … 1; null where the model does not know."
    ),
]
OffDomain = Annotated[
    bool | None,
    Field(
        description="Whether it is so unlike the study's images – another organ or modality, damaged, often another camera – that "
        "its score is not to be trusted; 4% of images of the same kind are flagged by chance. Null where nothing can be said."
    ),
]
DomainNote = Annotated[str, Field(description="Why nothing can be said about that; else empty.")]


class ImageRow(BaseModel):
    """An image in the ranking; rank 1 is the highest score."""

    id: str
    score: float
    low: float
    high: float
    rank: int
    grade: str | None
    comparisons: int
    unlike: Unlike
    off_domain: OffDomain


class RankingOut(BaseModel):
    """A window of the ranking, from the lowest score to the highest."""

    model: int | None
    start: int
    total: int
    images: list[ImageRow]


class RankingSummary(BaseModel):
    """The ranking as a whole."""

    model: int | None
    created: float | None
    scale: Annotated[
        str, Field(description="Key of a further question, or `composite`; empty for the main scale.")
    ]
    no_scale: Annotated[str, Field(description="Why there is a model, but none with this scale; else empty.")]
    count: int
    total: int
    aspect: float
    grades: list[str]
    off_domain: Annotated[
        int | None, Field(description="Images of the whole ranking that are flagged as unlike the others.")
    ]
    domain_note: DomainNote


class Neighbour(BaseModel):
    """An image next to another in the ranking."""

    id: str
    score: float


class OnScale(BaseModel):
    """How an image scores on one of several scales; `scale` is empty for the main one."""

    scale: str
    score: float
    low: float
    high: float
    rank: int


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
    unlike: Unlike
    off_domain: OffDomain
    domain_note: DomainNote
    below: list[Neighbour]
    above: list[Neighbour]
    scale: str
    scales: Annotated[
        list[OnScale],
        Field(description="On every scale that the newest model has, where the study has several."),
    ]
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
    unlike: Unlike
    off_domain: OffDomain
    domain_note: DomainNote
    below: list[Neighbour]
    above: list[Neighbour]
