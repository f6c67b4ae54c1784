"""Bodies about the study itself: wording, backup, audit log."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from steelyard.web.api.schema.fields import In, Text, printable

__all__ = ["AuditEntryOut", "AuditList", "Backup", "Definition", "StudyChange", "StudyInfo"]


class StudyInfo(BaseModel):
    """The study as annotators see it; `etag` names this version for `If-Match`.

    `more` and `scale` are as they were set, empty where they follow from the question; `words` is what pages say; `note` says what the study waits for, if
    anything.
    """

    name: str
    images: int
    question: str
    more: str
    scale: str
    reasons: list[str]
    words: dict[str, str]
    grades: list[str]
    break_minutes: int
    raters: int
    keys: dict[str, str]
    wanted: int
    answered: int
    etag: str
    note: str = ""


Definition = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(printable)]


class StudyChange(In):
    """New wording or raters; what is missing stays."""

    question: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    more: Annotated[Text, Field(max_length=60)] | None = None
    scale: Annotated[Text, Field(max_length=60)] | None = None
    reasons: list[Definition] | None = None
    grades: list[Definition] | None = None
    regrade: bool = Field(
        False, description="Change the grades even where grades that were given mean something else then."
    )
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
