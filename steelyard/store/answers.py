"""Reading the log of answers: as it was written, and what of it counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.store import fields
from steelyard.store.counting import CountedLog
from steelyard.store.errors import UnknownRecordError
from steelyard.store.log import COMPARISONS
from steelyard.store.records import AnnotatorCount, AnswerArrays, Comparison
from steelyard.store.schema import WITHDRAWN, comparisons, images, pairs

__all__ = ["AnswerTable", "coded"]

_PACE_ANSWERS = 50
"""An annotator's pace is taken over so many of the latest answers."""


class AnswerTable(CountedLog):
    """Methods that read answers."""

    def comparison(self, id: str) -> Comparison:
        """One row of the log.

        Raises:
            UnknownRecordError: no answer has this id.
        """
        for comparison in self._read(_DESCRIBED.where(comparisons.c.id == fields.text(id, "an id"))):
            return comparison
        raise UnknownRecordError(f"there is no answer {id}")

    def comparisons(
        self, after: int = 0, limit: int | None = None, *, annotator: str | None = None
    ) -> list[Comparison]:
        """The log as it was written, undone answers included, from the first row after number `after`."""
        query = _DESCRIBED.where(comparisons.c.seq > after).order_by(comparisons.c.seq).limit(limit)
        if annotator is not None:
            query = query.where(comparisons.c.annotator == annotator)
        return self._read(query)

    def latest(self, annotator: str, n: int) -> list[Comparison]:
        """The latest answers of an annotator that count, newest first: what can be undone."""
        query = _DESCRIBED.where(comparisons.c.annotator == annotator, COMPARISONS.counts)
        return self._read(query.order_by(comparisons.c.seq.desc()).limit(n))

    def comparisons_of(self, image_id: str) -> list[Comparison]:
        """The answers that count about one image, in the order of the log."""
        row = sa.select(images.c.row).where(images.c.id == image_id).scalar_subquery()
        # Two lookups in two indices; an OR would read the whole table.
        its = sa.union(
            sa.select(pairs.c.id).where(pairs.c.first_row == row),
            sa.select(pairs.c.id).where(pairs.c.second_row == row),
        )
        query = _DESCRIBED.where(comparisons.c.pair.in_(its), COMPARISONS.counts)
        return self._read(query.order_by(comparisons.c.seq))

    def _read(self, query: sa.Select[Any]) -> list[Comparison]:
        with self._reading() as connection:
            return [_comparison(row) for row in connection.execute(query).mappings()]

    def effective_arrays(self, after: int = 0, upto: int | None = None) -> AnswerArrays:
        """The answers that count, as columns.

        The log is append-only, so what counted when it ended at any number can be read at any later time: a model
        that was trained up to number s can be trained again on exactly `effective_arrays(upto=s)`.

        Args:
            after: only answers after this number. `superseded` then lists earlier ones that count no more.
            upto: the end of the log; None takes the newest row.
        """
        with self._reading() as connection:
            last = int(connection.execute(_LAST).scalar_one())
            last = last if upto is None else min(last, upto)
            span = {"after": after, "upto": last}
            columns = self._columns(connection, _EFFECTIVE, span)
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

    def last_seq(self) -> int:
        """The number of the newest row of the log, 0 where it is empty."""
        with self._reading() as connection:
            return int(connection.execute(_LAST).scalar_one())

    def counts(self) -> list[AnnotatorCount]:
        """What each annotator did, by name; those who answered nothing are left out."""
        c = comparisons
        counts = sa.case((COMPARISONS.counts, 1), else_=0).label("counts")
        spoken = (
            sa.select(c.c.annotator, c.c.answer, c.c.answered_at, counts)
            .where(c.c.answer != WITHDRAWN)
            .subquery()
        )
        number = sa.func.sum(spoken.c.counts)
        query = (
            sa.select(
                spoken.c.annotator,
                number.label("answers"),
                sa.func.sum(sa.case((spoken.c.answer == Answer.EQUAL.value, spoken.c.counts), else_=0)).label(
                    "equal"
                ),
                sa.func.sum(
                    sa.case((spoken.c.answer == Answer.CANNOT_JUDGE.value, spoken.c.counts), else_=0)
                ).label("cannot_judge"),
                (sa.func.count() - number).label("undone"),
                sa.func.min(sa.case((spoken.c.counts == 1, spoken.c.answered_at))).label("first_at"),
                sa.func.max(sa.case((spoken.c.counts == 1, spoken.c.answered_at))).label("last_at"),
            )
            .group_by(spoken.c.annotator)
            .order_by(spoken.c.annotator)
        )
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
            paces = {}
            for row in rows:
                took = (
                    sa.select(c.c.answered_at - c.c.shown_at)
                    .where(
                        c.c.annotator == row["annotator"], c.c.shown_at.is_not(None), c.c.answer != WITHDRAWN
                    )
                    .order_by(c.c.seq.desc())
                    .limit(_PACE_ANSWERS)
                )
                latest = connection.execute(took).scalars().all()
                paces[row["annotator"]] = float(np.median(latest)) if latest else None
        return [AnnotatorCount(**row, seconds=paces[row["annotator"]]) for row in rows]


_LABELS = {a.value: np.nan if a.label is None else a.label for a in Answer}


def coded(names: Iterable[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Names as integer codes into the sorted names."""
    given = list(names)
    known = tuple(sorted(set(given)))
    code = {name: k for k, name in enumerate(known)}
    return np.array([code[name] for name in given], dtype=np.int64), known


def _comparison(row: sa.RowMapping) -> Comparison:
    answer = None if row["answer"] == WITHDRAWN else Answer(row["answer"])
    return Comparison(**{**row, "answer": answer})


_left, _right, _later = (
    images.alias("left_image"),
    images.alias("right_image"),
    comparisons.alias("later_row"),
)
_DESCRIBED = (
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

_after, _upto = sa.bindparam("after", type_=sa.BigInteger), sa.bindparam("upto", type_=sa.BigInteger)
_LAST = sa.select(sa.func.coalesce(sa.func.max(comparisons.c.seq), 0))
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
    .where(comparisons.c.seq > _after, comparisons.c.seq <= _upto, COMPARISONS.counted)
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
