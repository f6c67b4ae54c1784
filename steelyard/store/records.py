"""What goes into the store and what comes out of it: plain frozen records, no database in sight.

Times are UTC, as seconds since 1970 (float). An image is its row (int) in arrays and its id (text) in records that
people see. `New…` records are written; the others are read.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.pairs import Answer, Pair

__all__ = [
    "Annotator",
    "AnnotatorCount",
    "AnswerArrays",
    "ApiToken",
    "AuditEntry",
    "Comparison",
    "Grade",
    "GradeArrays",
    "Handshake",
    "Image",
    "KnownToken",
    "Leased",
    "Mode",
    "Model",
    "NewComparison",
    "NewGrade",
    "NewImage",
    "NewModel",
    "NewPair",
    "PairColumns",
    "Recorded",
    "Role",
    "Scope",
    "Session",
    "Source",
    "StoredPair",
    "TrainerState",
    "new_id",
]

Role = Literal["annotator", "lead", "admin"]
Source = Literal["page", "api", "import", "virtual", "import:page", "import:api", "import:virtual"]
"""How an answer came into this study; `import:page` came by a file, in which it was an answer of the page."""
Mode = Literal["login", "local"]
"""Whether people sign in, or one person works at this machine. What was made in one is worth nothing in the other."""
Scope = Literal["read", "answer", "full"]
"""What a token is for: reading, answering as an annotator does, or everything that its owner may do."""


def new_id() -> str:
    """A fresh id for an answer, made by whoever gives it, so that sending it twice is sending it once."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to register.

    Attributes:
        row: its row in the catalog, 0 … N−1; never changes.
        id: hash of its bytes.
        path: where it lies, relative to the image folder.
        group: the patient, or None.
        grade: ordinal code, or None where it is not known.
        width: in pixels, or None.
        height: in pixels, or None.
    """

    row: int
    id: str
    path: str = ""
    group: str | None = None
    grade: int | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A registered image; `excluded_at` is None unless somebody took it out of the study."""

    row: int
    id: str
    path: str
    group: str | None
    grade: int | None
    width: int | None
    height: int | None
    excluded_at: float | None = None
    excluded_by: str | None = None
    excluded_reason: str | None = None

    @property
    def excluded(self) -> bool:
        """Whether the image was taken out of the study."""
        return self.excluded_at is not None


@dataclass(frozen=True, slots=True)
class NewPair:
    """A pair to ask about. The order of the two rows does not matter.

    Attributes:
        first: catalog row of one image.
        second: catalog row of the other.
        round: the turn of the loop that chose it.
        strategy: what chose it.
        reason: why, in one sentence.
        score: how much it was worth to the strategy, or None.
        reserved: drawn at random and held back to estimate accuracy.
        raters: how many different people are asked.
        repeat: 0 for the first time; 1, 2 … for asking about the same two images again (agreement with oneself).
    """

    first: int
    second: int
    round: int = 0
    strategy: str = ""
    reason: str = ""
    score: float | None = None
    reserved: bool = False
    raters: int = 1
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class StoredPair:
    """A pair in the store; `first` has the smaller catalog row. `open` means that answers are still wanted."""

    id: int
    first: str
    second: str
    first_row: int
    second_row: int
    round: int
    strategy: str
    reason: str
    score: float | None
    reserved: bool
    raters: int
    repeat: int
    open: bool
    created: float


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Pairs as columns, in the order of their ids: `rows` is (n, 2) int64, the others (n,)."""

    id: NDArray[np.int64]
    rows: NDArray[np.int64]
    round: NDArray[np.int64]
    open: NDArray[np.bool_]
    reserved: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True)
class Leased:
    """A pair handed to one annotator, with its sides, until `expires`."""

    pair: int
    annotator: str
    left: str
    right: str
    left_row: int
    right_row: int
    round: int
    strategy: str
    reason: str
    reserved: bool
    repeat: int
    expires: float

    def shown(self) -> Pair:
        """The pair as it is shown."""
        return Pair(self.left, self.right, self.round, self.strategy, self.reason, self.pair)


@dataclass(frozen=True, slots=True)
class NewComparison:
    """One answer of one annotator about one pair as it was shown.

    Attributes:
        pair: the store's number of the pair.
        annotator: who answered.
        answer: what was said.
        left: id of the image on the left.
        right: id of the image on the right.
        shown_at: when the pair appeared, or None where it is not known.
        answered_at: when the answer was given; None takes the time of arrival.
        id: made by the client; the same id sent twice is one answer.
        supersedes: id of the earlier answer of the same annotator about the same pair that this one replaces.
        note: reason of a "cannot judge", or any remark.
        source: how the answer came.
        exclude: ids of images of this pair that are taken out of the study with it, for the reason in `note`.
    """

    pair: int
    annotator: str
    answer: Answer
    left: str
    right: str
    shown_at: float | None = None
    answered_at: float | None = None
    id: str = field(default_factory=new_id)
    supersedes: str | None = None
    note: str = ""
    source: Source = "page"
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of the log. `answer` is None in the row that an undo writes; `hash` is its place in the chain (chain.py)."""

    seq: int
    id: str
    pair: int
    annotator: str
    answer: Answer | None
    left: str
    right: str
    shown_at: float | None
    answered_at: float
    received_at: float
    supersedes: str | None
    superseded_by: str | None
    note: str
    source: Source
    hash: str

    @property
    def withdrawn(self) -> bool:
        """Whether the row is an undo."""
        return self.answer is None

    @property
    def effective(self) -> bool:
        """Whether the answer counts: it is no undo, and nothing replaced or undid it."""
        return self.answer is not None and self.superseded_by is None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an answer that was sent: its number in the log, and whether this call wrote it."""

    seq: int
    id: str
    created: bool


@dataclass(frozen=True, slots=True)
class AnswerArrays:
    """The answers that count, as columns in the order of the log; all (n,) but `pairs`, which is (n, 2).

    Attributes:
        seq: number in the log.
        pair: the store's number of the pair.
        pairs: catalog rows (first, second), first < second.
        labels: P1 for (first, second): 1, 0.5, 0; NaN where nobody could judge.
        annotator: codes into `annotators`.
        annotators: names.
        reserved: whether the pair is held back to estimate accuracy.
        repeat: 0, or which repetition of the question it was.
        left_first: whether `first` was shown on the left.
        shown_at: NaN where it is not known.
        answered_at: when.
        last_seq: the log was read up to here; pass it as `after` next time.
        superseded: numbers ≤ `after` that no longer count because of what came since.
    """

    seq: NDArray[np.int64]
    pair: NDArray[np.int64]
    pairs: NDArray[np.int64]
    labels: NDArray[np.float64]
    annotator: NDArray[np.int64]
    annotators: tuple[str, ...]
    reserved: NDArray[np.bool_]
    repeat: NDArray[np.int64]
    left_first: NDArray[np.bool_]
    shown_at: NDArray[np.float64]
    answered_at: NDArray[np.float64]
    last_seq: int
    superseded: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class AnnotatorCount:
    """How much one annotator did, counting the answers that count.

    Attributes:
        annotator: who.
        answers: all of them, `equal` and `cannot_judge` included.
        equal: ties.
        cannot_judge: answers that say so.
        undone: rows of the log that were undone or replaced.
        first_at: time of the first answer, or None.
        last_at: time of the last answer, or None.
        seconds: median seconds from shown to answered over the latest answers, or None where it is not known.
    """

    annotator: str
    answers: int
    equal: int
    cannot_judge: int
    undone: int
    first_at: float | None
    last_at: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class NewGrade:
    """One absolute grade of one image by one annotator; fields as in `NewComparison`."""

    image: str
    annotator: str
    grade: int
    shown_at: float | None = None
    answered_at: float | None = None
    id: str = field(default_factory=new_id)
    supersedes: str | None = None
    note: str = ""
    source: Source = "page"


@dataclass(frozen=True, slots=True)
class Grade:
    """A row of the log of grades. `grade` is None in the row that an undo writes."""

    seq: int
    id: str
    image: str
    image_row: int
    annotator: str
    grade: int | None
    shown_at: float | None
    answered_at: float
    received_at: float
    supersedes: str | None
    superseded_by: str | None
    note: str
    source: Source
    hash: str

    @property
    def effective(self) -> bool:
        """Whether the grade counts: it is no undo, and nothing replaced or undid it."""
        return self.grade is not None and self.superseded_by is None


@dataclass(frozen=True, slots=True)
class GradeArrays:
    """The grades that count, as columns in the order of the log; all (n,)."""

    seq: NDArray[np.int64]
    row: NDArray[np.int64]
    grade: NDArray[np.int64]
    annotator: NDArray[np.int64]
    annotators: tuple[str, ...]
    answered_at: NDArray[np.float64]
    last_seq: int

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class NewModel:
    """A trained model to announce.

    Attributes:
        round: the turn of the loop.
        path: its folder, relative to the study.
        fingerprint: hash of its files.
        comparisons_seq: the log was read up to here when it was trained.
        grades_seq: the same for the log of grades.
        metrics: figures of the training, JSON.
        config: configuration that made it, JSON.
    """

    round: int
    path: str
    fingerprint: str
    comparisons_seq: int
    grades_seq: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """A model that was announced; a larger id is newer."""

    id: int
    round: int
    path: str
    fingerprint: str
    comparisons_seq: int
    grades_seq: int
    metrics: dict[str, Any]
    config: dict[str, Any]
    created: float


@dataclass(frozen=True, slots=True)
class TrainerState:
    """Who trains now and how far; `owner` is None when nobody holds the lease or it ran out.

    Attributes:
        owner: who holds the lease.
        last_owner: who held it last.
        expires: until when.
        heartbeat: last sign of life.
        progress: whatever the trainer says: `stage`, `done`, `total`, `text`, `log`.
    """

    owner: str | None
    last_owner: str | None
    expires: float
    heartbeat: float
    progress: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Annotator:
    """Somebody who answers. Without a password, a link or a subject nobody can log in under the name.

    Attributes:
        link_expires: when the personal link ends; None never.
        link_once: whether the link works once.
        subject: who this is for the provider of sign-ons (OIDC), or None.
    """

    name: str
    role: Role
    active: bool
    created: float
    password_hash: str | None = field(default=None, repr=False)
    link_hash: str | None = field(default=None, repr=False)
    link_expires: float | None = None
    link_once: bool = False
    subject: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """A login that is valid now."""

    annotator: Annotator
    csrf: str = field(repr=False)
    created: float
    expires: float


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token for machines, known only by its hash."""

    id: int
    annotator: str
    label: str
    created: float
    last_used: float | None
    revoked: float | None
    mode: Mode = "login"
    scope: Scope = "full"
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token that is valid now: whose it is and what it is for."""

    annotator: Annotator
    scope: Scope


@dataclass(frozen=True, slots=True)
class Handshake:
    """A sign-on that began here and comes back from the provider."""

    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    back: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what and when."""

    seq: int
    at: float
    actor: str
    action: str
    detail: dict[str, Any]
    hash: str
