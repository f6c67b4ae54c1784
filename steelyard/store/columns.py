"""The answers that count, as columns: what people said, or what is learnt from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.pairs import Answer
from steelyard.store.database import Database
from steelyard.store.log import COMPARISONS, DECISIONS
from steelyard.store.records import AnswerArrays
from steelyard.store.schema import ANSWER, DECISION, WITHDRAWN, comparisons, pairs

__all__ = ["LAST", "answer_arrays", "coded", "lesson_arrays"]


def answer_arrays(database: Database, after: int, upto: int | None, question: str = "") -> AnswerArrays:
    """See `Answers.arrays`."""
    with database.reading() as connection:
        last, span = _span(connection, after, upto, question)
        columns = database.columns(connection, _ANSWERS, span)
        superseded = connection.execute(_SUPERSEDED, span).scalars().all()
    return _arrays(columns, last, superseded)


def lesson_arrays(database: Database, after: int, upto: int | None, question: str = "") -> AnswerArrays:
    """See `Answers.lessons`."""
    with database.reading() as connection:
        last, span = _span(connection, after, upto, question)
        decision = int(connection.execute(_LAST_DECISION, {"upto": last}).scalar_one() or 0)
        columns = database.columns(connection, _LESSONS if decision else _ANSWERS, span)
        superseded = set(connection.execute(_SUPERSEDED, span).scalars())
        if decision > after:
            superseded.update(connection.execute(_OVERRULED, span).scalars())
    return _arrays(columns, last, sorted(superseded), decision)


def _span(connection: Connection, after: int, upto: int | None, question: str) -> tuple[int, dict[str, Any]]:
    last = int(connection.execute(LAST).scalar_one())
    last = last if upto is None else min(last, upto)
    return last, {"after": after, "upto": last, "question": question}


def _arrays(
    columns: Sequence[Sequence[Any]], last: int, superseded: Sequence[int], decision: int = 0
) -> AnswerArrays:
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
        superseded=np.array(superseded, dtype=np.int64),
        last_decision=decision,
    )


_LABELS = {a.value: np.nan if a.label is None else a.label for a in Answer}


def coded(names: Iterable[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Names as integer codes into the sorted names."""
    given = list(names)
    known = tuple(sorted(set(given)))
    code = {name: k for k, name in enumerate(known)}
    return np.array([code[name] for name in given], dtype=np.int64), known


_later = comparisons.alias("later_row")
_question = sa.bindparam("question", type_=sa.Text)
_after, _upto = sa.bindparam("after", type_=sa.BigInteger), sa.bindparam("upto", type_=sa.BigInteger)
LAST = sa.select(sa.func.coalesce(sa.func.max(comparisons.c.seq), 0))
"""The number of the newest row of the log."""

_COLUMNS = (
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
        comparisons.c.question == _question,
        pairs.c.expected.is_(
            None
        ),  # the one place that keeps known answers apart; `Known.answers` reads them
    )
    .order_by(comparisons.c.seq)
)
_ANSWERS = _COLUMNS.where(COMPARISONS.counted)

# A decision is about two images: it overrules what was said about them whenever they were asked about. There are few, and
# their index finds them.
_decided = (
    sa.select(pairs.c.first_row, pairs.c.second_row)
    .select_from(comparisons.join(pairs, pairs.c.id == comparisons.c.pair))
    .where(comparisons.c.seq <= _upto, comparisons.c.question == _question, DECISIONS.counted)
    .correlate(None)
)
_overruled = sa.tuple_(pairs.c.first_row, pairs.c.second_row).in_(_decided)
_LESSONS = _COLUMNS.where(sa.or_(sa.and_(COMPARISONS.counted, ~_overruled), DECISIONS.counted))
_OVERRULED = (
    sa.select(comparisons.c.seq)
    .join(pairs, pairs.c.id == comparisons.c.pair)
    .where(
        comparisons.c.seq <= _after,
        comparisons.c.role == ANSWER,
        comparisons.c.question == _question,
        comparisons.c.answer != WITHDRAWN,
        _overruled,
    )
)
_LAST_DECISION = sa.select(sa.func.max(comparisons.c.seq)).where(
    comparisons.c.role == sa.literal_column(f"'{DECISION}'"), comparisons.c.seq <= _upto
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
