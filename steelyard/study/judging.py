"""Who gave a study's answers, as a ranker wants to know it."""

from __future__ import annotations

from typing import Any

from steelyard.ranker.judges import Judge, Panel, Said
from steelyard.store.records import AnswerArrays

__all__ = ["judges_of", "said_by"]


def said_by(answers: AnswerArrays) -> Said:
    """Who gave each answer, and whether the first image of its pair stood on the left."""
    return Said(answers.annotator, answers.annotators, answers.left_first)


def judges_of(panel: Panel | None) -> dict[str, dict[str, Any]]:
    """What a model has learnt about each person, as plain values with a sentence; nothing where one person answers alone."""
    if panel is None:
        return {}
    return {
        name: {
            "worth": judge.worth, "lapse": judge.lapse, "pull": judge.pull, "tie": judge.tie, "answers": judge.answers,
            "flagged": judge.flagged, "sentence": _sentence(judge),
        }
        for name, judge in panel.judges.items()
    }  # fmt: skip


def _sentence(judge: Judge) -> str:
    """What a lead should know.

    >>> _sentence(Judge(slope=0.9, answers=80))
    'an answer counts as 0.81 of an ordinary one'
    """
    if judge.flagged:
        return f"{judge.answers} answers look like guesses, and hardly count: talk about the question before they go on"
    said = [f"an answer counts as {judge.worth:.2f} of an ordinary one"]
    if judge.lapse >= 0.1:
        said.append(f"about {judge.lapse:.0%} seem to be given without looking")
    if abs(judge.pull) >= 0.5:
        said.append(f"leans to the {'left' if judge.pull > 0 else 'right'} image, which is taken off")
    return "; ".join(said)
