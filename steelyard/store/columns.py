"""The answers that count, as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.store.database import Database
from steelyard.store.log import COMPARISONS
from steelyard.store.records import AnswerArrays
from steelyard.store.schema import WITHDRAWN, comparisons, pairs

__all__ = ["LAST", "answer_arrays", "coded"]


def answer_arrays(database: Database, after: int, upto: int | None, question: str = "") -> AnswerArrays:
    """See `Answers.arrays`."""
    with database.reading() as connection:
        last = int(connection.execute(LAST).scalar_one())
        last = last if upto is None else min(last, upto)
        span = {"after": after, "upto": last}
        columns = database.columns(connection, _EFFECTIVE, {**span, "question": question})
        superseded = np.array(connection.execute(_SUPERSEDED, span).scalars().all(), dtype=np.int64)
    seq, pair, first, second, answer, left, annotator, reserved, repeat, shown_at, answered_at = columns
    first_row, left_row = np.array(first, dtype=np.int64), np.array(left, dtype=np.int64)
    left_first = first_row == left_row
    # P1 is about (first, second); what was said is about (left, right).
    said = np.array([_LABELS[word] for word in answer], dtype=np.float64)
    codes, names = coded(annotator)
    return AnswerArrays(
        seq=np.array(seq, dtype=np.int64),
        pair=np.array(pair, dtype=np.int64),
        pairs=np.stack([first_row, np.array(second, dtype=np.int64)], axis=1),
        labels=np.where(left_first, said, 1.0 - said),
        annotator=codes,
        annotators=names,
        reserved=np.array(reserved, dtype=bool),
        repeat=np.array(repeat, dtype=np.int64),
        left_first=left_first,
        shown_at=np.array(shown_at, dtype=np.float64),
        answered_at=np.array(answered_at, dtype=np.float64),
        last_seq=last,
        superseded=superseded,
    )


_LABELS = {a.value: np.nan if a.label is None else a.label for a in Answer}


def coded(names: Iterable[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Names as integer codes into the sorted names."""
    given = list(names)
    known = tuple(sorted(set(given)))
    code = {name: k for k, name in enumerate(known)}
    return np.array([code[name] for name in given], dtype=np.int64), known


_later = comparisons.alias("later_row")
_after, _upto = sa.bindparam("after", type_=sa.BigInteger), sa.bindparam("upto", type_=sa.BigInteger)
LAST = sa.select(sa.func.coalesce(sa.func.max(comparisons.c.seq), 0))
"""The number of the newest row of the log."""

_EFFECTIVE = (
    sa.select(
        comparisons.c.seq,
        comparisons.c.pair,
        pairs.c.first_row,
        pairs.c.second_row,
        comparisons.c.answer,
        comparisons.c.left_row,
        comparisons.c.annotator,
        pairs.c.reserved,
        pairs.c.repeat,
        comparisons.c.shown_at,
        comparisons.c.answered_at,
    )
    .join(pairs, pairs.c.id == comparisons.c.pair)
    .where(
        comparisons.c.seq > _after,
        comparisons.c.seq <= _upto,
        comparisons.c.question == sa.bindparam("question", type_=sa.Text),
        COMPARISONS.counted,
        pairs.c.expected.is_(
            None
        ),  # the one place that keeps known answers apart; `Known.answers` reads them
    )
    .order_by(comparisons.c.seq)
)
_SUPERSEDED = (
    sa.select(comparisons.c.seq)
    .join(_later, _later.c.supersedes == comparisons.c.id)
    .where(
        _later.c.seq > _after,
        _later.c.seq <= _upto,
        comparisons.c.seq <= _after,
        comparisons.c.answer != WITHDRAWN,
    )
    .order_by(comparisons.c.seq)
)
