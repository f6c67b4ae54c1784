"""Records of models and of the one who trains them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Model", "NewModel", "TrainerState"]


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
        progress: whatever the trainer says: `stage`, `done`, `total`, `text`, `left` (seconds), `log`.
    """

    owner: str | None
    last_owner: str | None
    expires: float
    heartbeat: float
    progress: dict[str, Any]
