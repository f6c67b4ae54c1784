"""What the trainer is doing, in words for the page."""

from __future__ import annotations

from steelyard.progress import how_far
from steelyard.store.records import TrainerState

__all__ = ["doing", "waiting_for"]

_STAGES = {
    "describe": "Computing features of the images",
    "fit": "Training a model",
    "start": "Choosing the first pairs",
    "choose": "Choosing pairs",
}


def doing(state: TrainerState) -> str:
    """One sentence about what a trainer does now; empty while none works."""
    if state.owner is None:
        return ""
    said = state.progress or {}
    text = _STAGES.get(str(said.get("stage")), "The trainer is starting")
    if said.get("text"):
        text += f": {_reached(state)}"
    return f"{text}."


def waiting_for(state: TrainerState, *, model: bool) -> str:
    """What whoever compares should know while features are computed; empty otherwise.

    Args:
        state: of the trainer.
        model: whether there is a model, which goes on choosing meanwhile.
    """
    if state.owner is None or state.progress.get("stage") != "describe" or not state.progress.get("total"):
        return ""
    after = "the new images are asked about after that" if model else "pairs are random until then"
    return f"{_reached(state)[:1].upper()}{_reached(state)[1:]}; {after}"


def _reached(state: TrainerState) -> str:
    said = state.progress
    return how_far(int(said.get("done", 0)), int(said.get("total", 0)), str(said["text"]), said.get("left"))
