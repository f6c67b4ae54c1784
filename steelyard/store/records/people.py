"""Records of people and of how they are recognised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Annotator", "ApiToken", "Handshake", "KnownToken", "Mode", "Role", "Scope", "Session"]

Role = Literal["annotator", "lead", "admin"]
Mode = Literal["login", "local"]
"""Whether people sign in, or one person works at this machine. What was made in one is worth nothing in the other."""
Scope = Literal["read", "answer", "full"]
"""What a token is for: reading, answering as an annotator does, or everything that its owner may do."""


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
