"""What is known about a model: its card, for leads."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from steelyard.errors import StudyError
from steelyard.store.records import Model
from steelyard.trust.card import read_card
from steelyard.trust.card_sections import no_card
from steelyard.web.api.schema.models import ModelCard
from steelyard.web.context import Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["card_of", "newest_card", "router"]

router = APIRouter(tags=["models"])


@router.get("/models/newest/card", responses=responses(401, 403, 404, 503))
def newest_model(web: WebOf, who: Lead) -> ModelCard:
    """The card of the newest model."""
    found = newest_card(web)
    if found is None:
        raise Problem(404, "There is no model yet; the first one is trained after some answers.")
    return found


@router.get("/models/{id}/card", responses=responses(401, 403, 404, 422, 503))
def named_model(
    id: Annotated[int, Path(ge=0, le=2**53, description="Number of the model.")], web: WebOf, who: Lead
) -> ModelCard:
    """The card of any model."""
    for model in web.store.models.all():
        if model.id == id:
            return card_of(web, model)
    raise Problem(404, f"There is no model {id}.")


def newest_card(web: Web) -> ModelCard | None:
    """Of the newest model; None before there is one."""
    newest = web.store.models.newest()
    return None if newest is None else card_of(web, newest)


def card_of(web: Web, model: Model) -> ModelCard:
    """A model with its card, or with the reason why it has none."""
    try:
        card = read_card(web.study.folder / model.path)
        sentence = "" if card is not None else no_card("STUDY")
    except StudyError:
        card, sentence = None, "The card of this model is damaged. Train again and the next model has one."
    return ModelCard(
        id=model.id, round=model.round, answers=int(model.metrics.get("answers", 0)), created=model.created, card=card,
        sentence=sentence,
    )  # fmt: skip
