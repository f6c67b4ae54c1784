"""Bodies of requests and answers. Everything that comes in is bounded; unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from steelyard.pairs import Answer

__all__ = [
    "AccuracyPoint",
    "Achieved",
    "AnnotatorChange",
    "AnnotatorInfo",
    "AnnotatorList",
    "AuditList",
    "Backup",
    "ComparisonIn",
    "ComparisonList",
    "ComparisonOut",
    "Credentials",
    "GradeIn",
    "GradeList",
    "GradeOut",
    "ImageChange",
    "ImageInfo",
    "ImageList",
    "ImageRow",
    "LeaseIn",
    "LeaseOut",
    "Link",
    "Me",
    "NewAnnotator",
    "NewToken",
    "Password",
    "Placed",
    "Progress",
    "RankingOut",
    "RankingSummary",
    "StudyChange",
    "StudyInfo",
    "Suggestions",
    "TokenInfo",
    "TokenList",
    "TokenMade",
    "UndoIn",
    "UndoOut",
]  # fmt: skip


def _printable(text: str) -> str:
    """Names and remarks are shown and logged: no control characters, no broken surrogates, no NUL (PostgreSQL)."""
    if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in text):
        raise ValueError("may not contain control characters")
    return text


def _lines(text: str) -> str:
    for line in text.split("\n"):
        _printable(line)
    return text


Text = Annotated[str, AfterValidator(_printable)]
ImageId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Uuid = Annotated[
    str,
    StringConstraints(
        pattern=r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
    ),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_printable)]
Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False, description="UTC, seconds since 1970.")]
RowId = Annotated[int, Field(ge=1, le=2**31 - 1)]


class In(BaseModel):
    """A body that comes in."""

    model_config = ConfigDict(extra="forbid")


# ---------------------------------------------------------------------- answering


class LeaseIn(In):
    """How many pairs to hold; those held already come first."""

    count: int = Field(6, ge=1, le=50)


class PairOut(BaseModel):
    """A pair as it is to be shown."""

    id: int
    left: str
    right: str
    expires: float


class LeaseOut(BaseModel):
    """What somebody holds now."""

    pairs: list[PairOut]
    state: Literal["open", "choosing", "elsewhere", "done"]
    answered: int
    wanted: int


class ComparisonIn(In):
    """One answer. `id` is made by the client: the same answer sent again is the same answer."""

    id: Uuid
    pair: RowId
    left: ImageId
    right: ImageId
    answer: Answer
    shown_at: Seconds | None = None
    answered_at: Seconds | None = None
    note: Annotated[Text, Field(max_length=500)] = ""
    exclude: list[ImageId] = Field(default_factory=list, max_length=2)
    supersedes: Uuid | None = None


class ComparisonOut(BaseModel):
    """What became of an answer."""

    id: str
    seq: int
    created: bool
    answered: int
    wanted: int


class UndoIn(In):
    """`id` is the client's name for this undo, as for an answer."""

    id: Uuid


class UndoOut(BaseModel):
    """What became of an undo."""

    id: str
    seq: int
    created: bool
    answered: int
    wanted: int


class ComparisonRow(BaseModel):
    """A row of the log; `answer` is null for an undo."""

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


class ComparisonList(BaseModel):
    """A page of the log, oldest first; `next` is the cursor of the next page, null at the end."""

    comparisons: list[ComparisonRow]
    next: str | None


class Suggested(BaseModel):
    """An image worth grading."""

    id: str


class Suggestions(BaseModel):
    """What to grade next."""

    images: list[Suggested]
    state: Literal["open", "done"]
    graded: int
    wanted: int


class GradeIn(In):
    """One absolute grade."""

    id: Uuid
    image: ImageId
    grade: int = Field(ge=0, le=99)
    shown_at: Seconds | None = None
    answered_at: Seconds | None = None
    note: Annotated[Text, Field(max_length=500)] = ""


class GradeOut(BaseModel):
    """What became of a grade, and the image's neighbours by score."""

    id: str
    seq: int
    created: bool
    graded: int
    wanted: int
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


# ---------------------------------------------------------------------- images and ranking


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
    """Everything about one image."""

    id: str
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
    """An image in a list."""

    id: str
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


# ---------------------------------------------------------------------- progress


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
    """How accurate are we?"""

    sentence: str
    history: list[AccuracyPoint]


class Shape(BaseModel):
    """A distribution of scores."""

    name: str
    count: int
    bins: list[float]
    density: list[float]
    median: float
    low: float
    high: float


class SpreadPart(BaseModel):
    """How do scores spread?"""

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


# ---------------------------------------------------------------------- people and the study


class Credentials(In):
    """A name with its password, or the secret of a personal link."""

    name: Annotated[Text, Field(max_length=64)] = ""
    password: str = Field("", max_length=256)
    link: str = Field("", max_length=128)


class Me(BaseModel):
    """Who is asking; `csrf` must come with changes as `X-CSRF-Token` when a cookie is used."""

    name: str
    role: Literal["annotator", "lead", "admin"]
    via: Literal["local", "session", "token"]
    csrf: str | None


RoleName = Literal["annotator", "lead", "admin"]


class NewAnnotator(In):
    """Somebody new."""

    name: Name
    role: RoleName = "annotator"


class AnnotatorChange(In):
    """What changes about somebody."""

    role: RoleName | None = None
    active: bool | None = None


class AnnotatorInfo(BaseModel):
    """Somebody, without secrets."""

    name: str
    role: RoleName
    active: bool
    has_password: bool
    has_link: bool
    answers: int


class AnnotatorList(BaseModel):
    """Everybody."""

    annotators: list[AnnotatorInfo]


class Password(In):
    """A new password."""

    password: str = Field(min_length=10, max_length=256)


class Link(BaseModel):
    """A personal link, shown once."""

    link: str


class NewToken(In):
    """A token for a program, with what it is for."""

    label: Name


class TokenMade(BaseModel):
    """An API token, shown once."""

    id: int
    token: str


class TokenInfo(BaseModel):
    """A token, without its secret."""

    id: int
    annotator: str
    label: str
    created: float
    last_used: float | None
    revoked: float | None


class TokenList(BaseModel):
    """Tokens."""

    tokens: list[TokenInfo]


class StudyInfo(BaseModel):
    """The study as annotators see it; `etag` names this version for `If-Match`."""

    name: str
    images: int
    question: str
    grades: list[str]
    break_minutes: int
    raters: int
    keys: dict[str, str]
    wanted: int
    answered: int
    etag: str


Definition = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_printable)]


class StudyChange(In):
    """New wording or raters; what is missing stays."""

    question: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    grades: list[Definition] | None = Field(None, max_length=10)
    break_minutes: int | None = Field(None, ge=0, le=600)
    raters: int | None = Field(None, ge=1, le=20)


class Backup(BaseModel):
    """A backup that was made."""

    file: str
    bytes: int


class AuditEntryOut(BaseModel):
    """Who did what and when."""

    seq: int
    at: float
    actor: str
    action: str
    detail: dict[str, Any]


class AuditList(BaseModel):
    """A page of the audit log, newest first."""

    entries: list[AuditEntryOut]
    next: str | None
