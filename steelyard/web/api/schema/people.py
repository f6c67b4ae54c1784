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
    "NewLink",
    "NewToken",
    "Password",
    "RoleName",
    "ScopeName",
    "SignedIn",
    "TokenInfo",
    "TokenList",
    "TokenMade",
]


class Credentials(In):
    """A name with its password, the secret of a personal link, or the key of this start (on 127.0.0.1)."""

    name: Annotated[Text, Field(max_length=64)] = ""
    password: str = Field("", max_length=256)
    link: str = Field("", max_length=128)
    key: str = Field("", max_length=128)


ScopeName = Literal["read", "answer", "full"]


class Me(BaseModel):
    """Who is asking; `csrf` must come with changes as `X-CSRF-Token` when a cookie is used."""

    name: str
    role: Literal["annotator", "lead", "admin"]
    via: Literal["local", "session", "token", "proxy"]
    csrf: str | None
    scope: ScopeName = "full"


class SignedIn(Me):
    """Who signed in; `needs_password` where the way in was good for once and there is no other yet."""

    needs_password: bool = False


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
    link_expires: float | None
    link_once: bool
    answers: int
    at_home: bool | None = Field(
        default=None, description="Where people live in another study: whether they can sign in there."
    )


class AnnotatorList(BaseModel):
    """Everybody; where people live in another study, its name (`home`) and whom it could send (`offered`, for admins)."""

    annotators: list[AnnotatorInfo]
    home: str = ""
    offered: list[str] = []


class Password(In):
    """A new password."""

    password: str = Field(min_length=10, max_length=256)


class NewLink(In):
    """How long a personal link is good, and whether it works again and again."""

    days: int | None = Field(default=7, ge=1, le=365, description="Until it ends; null for never.")
    reusable: bool = False


class Link(BaseModel):
    """A personal link, shown once: `link` is its path, `url` what to send to the person."""

    link: str
    url: str
    expires: float | None
    reusable: bool


class NewToken(In):
    """A token for a program, with what it is for.

    `read` reads what you may read; `answer` takes pairs and answers them as an annotator does, whatever your role;
    `full` does everything that you may do.
    """

    label: Name
    scope: ScopeName = "full"
    days: int | None = Field(default=90, ge=1, le=3650, description="Until it ends; null for never.")


class TokenMade(BaseModel):
    """An API token, shown once."""

    id: int
    token: str
    scope: ScopeName
    expires: float | None


class TokenInfo(BaseModel):
    """A token, without its secret."""

    id: int
    annotator: str
    label: str
    created: float
    last_used: float | None
    revoked: float | None
    scope: ScopeName
    expires: float | None
    mode: Literal["login", "local"]


class TokenList(BaseModel):
    """Tokens."""

    tokens: list[TokenInfo]
