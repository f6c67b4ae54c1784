"""Records of the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["AuditEntry"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what and when."""

    seq: int
    at: float
    actor: str
    action: str
    detail: dict[str, Any]
    hash: str
