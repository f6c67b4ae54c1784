"""Which question the answers of a study were given to: each wording with its answers and dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from steelyard.report.tables import Table
from steelyard.study.wording import Asked

__all__ = ["asked_words", "questions_table"]


def asked_words(asked: Sequence[Asked], question: str) -> str:
    """What all answers have in common, as the end of “answers of 3 people …”."""
    main = [one for one in asked if not one.key]
    known = [one for one in main if one.question]
    if len(main) == 1 and known:
        return f"to one question – {known[0].question} –"
    if len(known) > 1:
        return f"to {len(known)} wordings of the question – the newest: {known[-1].question} –"
    return f"to the question – today: {question} –"


def questions_table(asked: Sequence[Asked]) -> Table:
    """A row a wording."""
    rows = [[_name(one), f"{one.answers:,}", _day(one.first), _day(one.last)] for one in asked]
    note = (
        "Each answer is counted under the question that was on the page when it was given."
        if len(asked) > 1
        else ""
    )
    return Table("questions", "What was asked", ["question", "answers", "first", "last"], rows, note)


def _name(one: Asked) -> str:
    return f"{_said(one)} ({one.key})" if one.key else _said(one)


def _said(one: Asked) -> str:
    if one.imported:
        return "imported; what was asked there is not known here"
    return one.question or "not noted (answers from before Steelyard kept the wording)"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d")
