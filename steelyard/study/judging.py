"""Who gave a study's answers, as a ranker wants to know it."""

from __future__ import annotations

from steelyard.ranker.judges import Said
from steelyard.store.records import AnswerArrays

__all__ = ["said_by"]


def said_by(answers: AnswerArrays) -> Said:
    """Who gave each answer, and whether the first image of its pair stood on the left."""
    return Said(answers.annotator, answers.annotators, answers.left_first)
