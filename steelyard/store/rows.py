"""A row of the log of answers: from what is sent, and to what is read."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.store import fields
from steelyard.store.errors import StoreError
from steelyard.store.records import Comparison, NewComparison
from steelyard.store.schema import WITHDRAWN, comparisons, images

__all__ = ["DESCRIBED", "checked", "described", "row_values", "said_values"]


def checked(answer: NewComparison) -> None:
    """Refuse an answer that cannot be stored.

    Raises:
        StoreError: what it is.
    """
    said: object = answer.answer
    if not isinstance(said, Answer):
        words = ", ".join(repr(a.value) for a in Answer)
        raise StoreError(f"an answer is an Answer ({words}), not {said!r}")
    fields.name(answer.annotator)
    fields.client_id(answer.id)
    fields.question(answer.question)
    if answer.supersedes is not None:
        fields.client_id(answer.supersedes)
    if not {*answer.exclude} <= {answer.left, answer.right}:
        raise StoreError("only images of the pair itself can be excluded with an answer")


def row_values(answer: NewComparison, pair: Any, at: float) -> dict[str, Any]:
    """A row of the log but for its number and hash; `pair` as it was locked."""
    if {answer.left, answer.right} != {pair["first"], pair["second"]}:
        raise StoreError(
            f"pair {answer.pair} is of the images it was handed out with, not of those that were sent as left and right"
        )
    flipped = answer.left == pair["second"]
    return {
        **said_values(answer, at),
        "left_row": pair["second_row" if flipped else "first_row"],
        "right_row": pair["first_row" if flipped else "second_row"],
        "received_at": at,
        "supersedes": answer.supersedes,
    }


def said_values(answer: NewComparison, at: float) -> dict[str, Any]:
    """The fields of a row that the sender decides."""
    answered_at = fields.time(answer.answered_at, "answered_at")
    return {
        "id": answer.id,
        "pair": answer.pair,
        "annotator": answer.annotator,
        "answer": answer.answer.value,
        "left": answer.left,
        "right": answer.right,
        "shown_at": fields.time(answer.shown_at, "shown_at"),
        "answered_at": at if answered_at is None else answered_at,
        "note": fields.text(answer.note, "a note"),
        "source": fields.source(answer.source),
        "question": answer.question,
    }


def described(row: sa.RowMapping) -> Comparison:
    """A row that `DESCRIBED` gave."""
    answer = None if row["answer"] == WITHDRAWN else Answer(row["answer"])
    return Comparison(**{**row, "answer": answer})


_left, _right, _later = (
    images.alias("left_image"),
    images.alias("right_image"),
    comparisons.alias("later_row"),
)
DESCRIBED = (
    sa.select(
        *(column for column in comparisons.c if column.name not in ("left_row", "right_row")),
        _left.c.id.label("left"),
        _right.c.id.label("right"),
        _later.c.id.label("superseded_by"),
    )
    .join(_left, _left.c.row == comparisons.c.left_row)
    .join(_right, _right.c.row == comparisons.c.right_row)
    .outerjoin(_later, _later.c.supersedes == comparisons.c.id)
)
"""Rows of the log with the ids of their images and what superseded them."""
