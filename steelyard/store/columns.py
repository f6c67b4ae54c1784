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

__all__ = ["BLOCK", "LAST", "answer_arrays", "coded", "last_decision", "lesson_arrays"]


def answer_arrays(database: Database, after: int, upto: int | None, question: str = "") -> AnswerArrays:
    """See `Answers.arrays`."""
    with database.reading() as connection:
        last, span = _span(connection, after, upto, question)
        columns = _read(database, connection, _ANSWERS, span)
        superseded = connection.execute(_SUPERSEDED, span).scalars().all()
    return _arrays(columns, last, superseded)


def lesson_arrays(database: Database, after: int, upto: int | None, question: str = "") -> AnswerArrays:
    """See `Answers.lessons`."""
    with database.reading() as connection:
        last, span = _span(connection, after, upto, question)
        decision = last_decision(connection, last)
        columns = _read(database, connection, _LESSONS if decision else _ANSWERS, span)
        superseded = set(connection.execute(_SUPERSEDED, span).scalars())
        if decision > after:
            superseded.update(connection.execute(_OVERRULED, span).scalars())
    return _arrays(columns, last, sorted(superseded), decision)


def last_decision(connection: Connection, upto: int) -> int:
    """The number of the newest row of the log, up to one, that makes a decision or takes one back; 0 if there is none."""
    return int(connection.execute(_LAST_DECISION, {"upto": upto}).scalar_one() or 0)


def _span(connection: Connection, after: int, upto: int | None, question: str) -> tuple[int, dict[str, Any]]:
    last = int(connection.execute(LAST).scalar_one())
    last = last if upto is None else min(last, upto)
    return last, {"after": after, "upto": last, "question": question}


def _read(
    database: Database, connection: Connection, query: sa.Select[Any], span: dict[str, Any]
) -> dict[str, Any]:
    """The columns by name, a block at a time: a million rows as Python objects take a gigabyte."""
    blocks: list[tuple[Any, ...]] = []
    codes: dict[str, int] = {}
    if span["upto"] - span["after"] > BLOCK:
        parts: Iterable[list[Any]] = database.blocks(query, span, BLOCK)
    else:  # nearly always: the last answers, in one round trip
        parts = [database.columns(connection, query, span)]
    for read in parts:
        said = np.array([_LABELS[word] for word in read[4]], dtype=np.float64)
        people = np.array([codes.setdefault(name, len(codes)) for name in read[6]], dtype=np.int64)
        read[4], read[6] = said, people
        blocks.append(tuple(np.array(part, dtype=kind) for part, kind in zip(read, _KINDS, strict=True)))
    if not blocks:  # a long log may hold nothing about this question
        blocks.append(tuple(np.empty(0, dtype=kind) for kind in _KINDS))
    columns = dict(zip(_NAMES, (np.concatenate(parts) for parts in zip(*blocks, strict=True)), strict=True))
    places, names = coded(codes)
    return {
        **columns,
        "annotator": places[columns["annotator"]] if codes else columns["annotator"],
        "annotators": names,
    }


def _arrays(columns: dict[str, Any], last: int, superseded: Sequence[int], decision: int = 0) -> AnswerArrays:
    first, second, left, said = (columns.pop(name) for name in ("first", "second", "left", "said"))
    left_first = first == left
    return AnswerArrays(
        **columns,
        pairs=np.stack([first, second], axis=1),
        # P1 is about (first, second); what was said is about (left, right).
        labels=np.where(left_first, said, 1.0 - said),
        left_first=left_first,
        last_seq=last,
        superseded=np.array(superseded, dtype=np.int64),
        last_decision=decision,
    )


BLOCK = 50_000
"""So many rows are read at once."""

_KINDS = (
    np.int64, np.int64, np.int64, np.int64, np.float64, np.int64, np.int64, np.bool_, np.int64, np.float64, np.float64,
)  # fmt: skip
_NAMES = (
    "seq", "pair", "first", "second", "said", "left", "annotator", "reserved", "repeat", "shown_at", "answered_at",
)  # fmt: skip
_LABELS = {a.value: np.nan if a.label is None else a.label for a in Answer}


def coded(names: Iterable[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Names as integer codes into the sorted names."""
    given = list(names)
    known = tuple(sorted(set(given)))
    code = {name: k for k, name in enumerate(known)}
    return np.array([code[name] for name in given], dtype=np.int64), known


_later = comparisons.alias("later_row")
_question = sa.bindparam("question", type_=sa.Text)
_after, _upto = (sa.bindparam(name, type_=sa.BigInteger) for name in ("after", "upto"))
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
# Spelled so that SQLite takes the index of decisions, not all rows from the newest on.
_number = comparisons.c.seq + 0
_LAST_DECISION = sa.select(sa.func.max(_number)).where(
    comparisons.c.role == sa.literal_column(f"'{DECISION}'"), _number <= _upto
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
