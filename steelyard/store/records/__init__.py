"""What goes into the store and what comes out of it: plain frozen records, no database in sight.

Times are UTC, as seconds since 1970 (float). An image is its row (int) in arrays and its id (text) in records that
people see. `New…` records are written; the others are read.
"""

from __future__ import annotations

from steelyard.store.records.answers import (
    AnnotatorCount,
    AnswerArrays,
    Comparison,
    NewComparison,
    Recorded,
    Source,
    new_id,
)
from steelyard.store.records.audit import AuditEntry
from steelyard.store.records.grades import Grade, GradeArrays, NewGrade
from steelyard.store.records.images import Excluded, Image, NewImage
from steelyard.store.records.known import KnownAnswer, KnownAnswers, KnownPair, NewKnown
from steelyard.store.records.models import Model, NewModel, TrainerState
from steelyard.store.records.pairs import Expected, KnownKind, Leased, NewPair, PairColumns, StoredPair
from steelyard.store.records.people import (
    Annotator,
    ApiToken,
    Handshake,
    KnownToken,
    Mode,
    Role,
    Scope,
    Session,
)

__all__ = [
    "Annotator",
    "AnnotatorCount",
    "AnswerArrays",
    "ApiToken",
    "AuditEntry",
    "Comparison",
    "Excluded",
    "Expected",
    "Grade",
    "GradeArrays",
    "Handshake",
    "Image",
    "KnownAnswer",
    "KnownAnswers",
    "KnownKind",
    "KnownPair",
    "KnownToken",
    "Leased",
    "Mode",
    "Model",
    "NewComparison",
    "NewGrade",
    "NewImage",
    "NewKnown",
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
