"""The answers and decisions that count, in full and a block at a time: for files that people take away.

A log of any length is read in the memory of one block, as it stood when the first one was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from steelyard.store.columns import BLOCK, LAST
from steelyard.store.database import Database
from steelyard.store.log import COMPARISONS, DECISIONS
from steelyard.store.schema import comparisons, images, pairs

__all__ = ["WHEN", "told_blocks"]


WHEN = ("seq", "question", "source", "shown_at", "answered_at", "received_at")
"""Columns that say when which question was answered, and where that was written down."""


def told_blocks(database: Database, names: Sequence[str] = ()) -> Iterator[dict[str, tuple[Any, ...]]]:
    """See `Answers.told`."""
    wanted = tuple(names) or tuple(_COLUMNS)
    query = sa.select(*(_COLUMNS[name] for name in wanted)).select_from(
        _named if {"left", "right"} & {*wanted} else _answered
    )
    query = query.where(*_COUNTED).order_by(comparisons.c.seq)
    with database.reading() as connection:
        upto = int(connection.execute(LAST).scalar_one())
    for columns in database.blocks(query, {"upto": upto}, BLOCK):
        yield dict(zip(wanted, columns, strict=True))


_left, _right = images.alias("left_image"), images.alias("right_image")
_COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    "id": comparisons.c.id,
    "left": _left.c.id,
    "right": _right.c.id,
    "left_row": comparisons.c.left_row,
    "right_row": comparisons.c.right_row,
    "answer": comparisons.c.answer,
    "annotator": comparisons.c.annotator,
    "shown_at": comparisons.c.shown_at,
    "answered_at": comparisons.c.answered_at,
    "round": pairs.c.round,
    "strategy": pairs.c.strategy,
    "reserved": pairs.c.reserved,
    "note": comparisons.c.note,
    "received_at": comparisons.c.received_at,
    "source": comparisons.c.source,
    "seq": comparisons.c.seq,
    "hash": comparisons.c.hash,
    "question": comparisons.c.question,
    "role": comparisons.c.role,
}
_answered = comparisons.join(pairs, pairs.c.id == comparisons.c.pair)
_named = _answered.join(_left, _left.c.row == comparisons.c.left_row).join(
    _right, _right.c.row == comparisons.c.right_row
)
_COUNTED = (
    comparisons.c.seq <= sa.bindparam("upto", type_=sa.BigInteger),
    pairs.c.expected.is_(None),
    sa.or_(COMPARISONS.counted, DECISIONS.counted),
)
