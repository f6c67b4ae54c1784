"""Bodies about signing in, annotators and tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from steelyard.web.api.schema.fields import In, Name, Text

__all__ = [
    "AnnotatorChange",
    "AnnotatorInfo",
    "AnnotatorList",
    "Credentials",
    "Link",
    "Me",
    "NewAnnotator",
    "NewToken",
    "Password",
    "RoleName",
    "TokenInfo",
    "TokenList",
    "TokenMade",
]


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
