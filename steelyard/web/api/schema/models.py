"""Bodies about models."""

from __future__ import annotations

from pydantic import BaseModel

from steelyard.trust.card import Card

__all__ = ["ModelCard"]


class ModelCard(BaseModel):
    """A model and its card; null for a model made before there were cards, and `sentence` says what to do."""

    id: int
    round: int
    answers: int
    created: float
    card: Card | None
    sentence: str
