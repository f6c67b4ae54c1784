"""Pairs whose answer is known: some warm people up, with feedback, others check them unseen (gold).

They lie among the pairs, so that leases, sides, answers, undoing and the log work as for any other – but they are never
open: nobody gets one by asking for pairs, and no answer about one teaches, counts or is compared with others. Everybody
gets each of them once at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.pairs import Answer
from steelyard.store import fields, leases
from steelyard.store.annotators import ensure_annotators
from steelyard.store.columns import coded
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.locks import DESCRIBED
from steelyard.store.log import COMPARISONS
from steelyard.store.pairs import EXCLUDED, put_pairs
from steelyard.store.records import (
    Expected,
    KnownAnswer,
    KnownAnswers,
    KnownKind,
    KnownPair,
    Leased,
    NewKnown,
    NewPair,
)
from steelyard.store.schema import WITHDRAWN, comparisons, pair_leases, pairs

__all__ = ["KNOWN_REPEAT", "Known"]

KNOWN_REPEAT = 1_000_000
"""The repetition under which a known pair lies: apart from every question about the same two images, and there once."""


class Known:
    """Pairs with known answers."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add_all(self, new: Sequence[NewKnown], *, now: float | None = None) -> list[int]:
        """Add pairs with their answers; one that is there gets this answer, and is asked again if it was taken out.

        Returns:
            The number of each pair, in the given order.

        Raises:
            ConflictError: a pair is there for the other purpose; shown with feedback it can check nobody any more.
            UnknownRecordError: a row is no image of this study.
            StoreError: an image paired with itself, or a kind that does not exist.
        """
        for one in new:
            if one.kind not in get_args(KnownKind):
                raise StoreError(
                    f"a pair with a known answer is for {' or '.join(get_args(KnownKind))}, not {one.kind!r}"
                )
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            wanted = [_new_pair(one) for one in new]
            ids = put_pairs(self._db, connection, wanted, at)
            there = {row["id"]: row for row in _described(connection, ids)}
            for id, pair in zip(ids, wanted, strict=True):
                if there[id]["strategy"] != pair.strategy:
                    raise ConflictError(
                        f"images {there[id]['first']} and {there[id]['second']} are a pair for {there[id]['strategy']} already; "
                        f"take other images for {pair.strategy}"
                    )
                values = {"expected": pair.expected, "retired": None}
                connection.execute(sa.update(pairs).where(pairs.c.id == id).values(values))
        return ids

    def remove(self, ids: Sequence[int], *, now: float | None = None) -> None:
        """Hand pairs out no more. What was answered about them stays, and still does not count.

        Raises:
            UnknownRecordError: a number is of no pair with a known answer.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            there = {row["id"] for row in _described(connection, ids)}
            for id in ids:
                if id not in there:
                    raise UnknownRecordError(f"no pair with a known answer has the number {id}")
            connection.execute(sa.update(pairs).where(pairs.c.id.in_(sorted(there))).values(retired=at))

    def all(self, kind: KnownKind | None = None, *, retired: bool = False) -> list[KnownPair]:
        """Pairs in the order of their numbers; with `retired`, also those that are handed out no more."""
        query = DESCRIBED.where(_known).order_by(pairs.c.id)
        if kind is not None:
            query = query.where(pairs.c.strategy == kind)
        if not retired:
            query = query.where(pairs.c.retired.is_(None))
        with self._db.reading() as connection:
            return [_known_pair(row) for row in connection.execute(query).mappings()]

    def lease(
        self,
        annotator: str,
        kind: KnownKind,
        n: int,
        *,
        seconds: float,
        rng: np.random.Generator,
        beside: int | None = None,
        now: float | None = None,
    ) -> list[Leased]:
        """Hand pairs to an annotator: what they hold unanswered first, with the same sides, then others by chance.

        A lease of such a pair reserves it from nobody, so it does not run out.

        Args:
            annotator: who asks; made known where it is not.
            kind: of which.
            n: how many at most, those already held included.
            seconds: how long they are reserved, as it is written down.
            rng: decides which pairs, and which image is on which side.
            beside: number of another pair that this annotator was handed: the new ones are written down with its times, so
                that nothing about them stands out.
            now: seconds since 1970; None asks the database.
        """
        fields.name(annotator)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            ensure_annotators(connection, self._db, [annotator], at)
            who = {"annotator": annotator, "kind": kind, "at": at}
            held = list(connection.execute(_HELD, who).scalars())[:n]
            free = connection.execute(_FREE, who).all() if len(held) < n else []
            # Everybody warms up with the same pairs in the same order; gold comes to each in another.
            order = rng.permutation(len(free)) if kind == "gold" else np.arange(len(free))
            taken = [free[k] for k in order[: max(0, n - len(held))].tolist()]
            handed, expires = self._times(connection, annotator, beside) or (at, at + seconds)
            sides = rng.integers(2, size=len(taken)).tolist()
            for (id, *rows), side in zip(taken, sides, strict=True):
                values = {"pair": id, "annotator": annotator, "left_row": rows[side], "handed_at": handed}
                insert = self._db.insert(pair_leases).values({**values, "expires": expires})
                connection.execute(insert.on_conflict_do_nothing())
            return leases.read_leases(connection, annotator, [*held, *(row[0] for row in taken)])

    def _times(self, connection: Connection, annotator: str, pair: int | None) -> tuple[float, float] | None:
        query = sa.select(pair_leases.c.handed_at, pair_leases.c.expires).where(
            pair_leases.c.pair == pair, pair_leases.c.annotator == annotator
        )
        found = None if pair is None else connection.execute(query).one_or_none()
        return None if found is None else (found[0], found[1])

    def handed_at(self, annotator: str, ids: Sequence[int]) -> dict[int, float]:
        """When pairs of any kind were handed to somebody."""
        query = sa.select(pair_leases.c.pair, pair_leases.c.handed_at).where(
            pair_leases.c.annotator == annotator, pair_leases.c.pair.in_(ids)
        )
        with self._db.reading() as connection:
            return {row.pair: row.handed_at for row in connection.execute(query)}

    def holding(self, annotator: str, *, now: float | None = None) -> tuple[int, int, int]:
        """How many pairs of the study somebody holds, how many gold ones, and how many of those they never had."""
        with self._db.reading() as connection:
            at = self._db.clock(connection, now)
            ordinary = len(leases.running(connection, annotator, fields.LARGEST, at))
            who = {"annotator": annotator, "kind": "gold"}
            held, free = (len(connection.execute(query, who).all()) for query in (_HELD, _FREE))
            return ordinary, held, free

    def count(self, annotator: str | None = None, kind: KnownKind | None = None) -> int:
        """How many answers to such pairs count, of one annotator or of all."""
        query = (
            sa.select(sa.func.count())
            .select_from(comparisons)
            .join(pairs, pairs.c.id == comparisons.c.pair)
            .where(_known, comparisons.c.question == "", COMPARISONS.counts)
        )
        if annotator is not None:
            query = query.where(comparisons.c.annotator == annotator)
        if kind is not None:
            query = query.where(pairs.c.strategy == kind)
        with self._db.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def answer(self, comparison: str) -> KnownAnswer | None:
        """One answer to the main question beside what is known; None for one to any other pair, and for an undo."""
        query = sa.select(comparisons.c.pair, comparisons.c.left_row, comparisons.c.answer).where(
            comparisons.c.id == fields.client_id(comparison),
            comparisons.c.answer != WITHDRAWN,
            comparisons.c.question == "",
        )
        with self._db.reading() as connection:
            found = connection.execute(query).one_or_none()
            rows = [] if found is None else _described(connection, [found.pair])
        if not rows or found is None:
            return None
        pair = _known_pair(rows[0])
        left = "first" if found.left_row == pair.first_row else "second"
        worse = Answer.LEFT if pair.expected == left else Answer.RIGHT
        return KnownAnswer(pair, Answer(found.answer), Answer.EQUAL if pair.expected == "equal" else worse)

    def answers(self, annotator: str | None = None) -> KnownAnswers:
        """The answers to such pairs that count, as columns, beside what is known now."""
        query = _ANSWERS if annotator is None else _ANSWERS.where(comparisons.c.annotator == annotator)
        with self._db.reading() as connection:
            rows = connection.execute(query).all()
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(
            _ANSWERS.selected_columns
        )
        seq, pair, first, left, answer, expected, kind, who, shown, answered = columns
        said = np.array([_LABELS[word] for word in answer], dtype=np.float64)
        codes, names = coded(who)
        return KnownAnswers(
            seq=np.array(seq, dtype=np.int64),
            pair=np.array(pair, dtype=np.int64),
            labels=np.where(
                np.array(first, dtype=np.int64) == np.array(left, dtype=np.int64), said, 1.0 - said
            ),
            expected=np.array([_EXPECTED[word] for word in expected], dtype=np.float64),
            warmup=np.array([one == "warm-up" for one in kind], dtype=bool),
            annotator=codes,
            annotators=names,
            shown_at=np.array(shown, dtype=np.float64),
            answered_at=np.array(answered, dtype=np.float64),
        )


def _new_pair(one: NewKnown) -> NewPair:
    expected: Expected = "equal" if one.equal else "first" if one.worse < one.other else "second"
    return NewPair(one.worse, one.other, 0, one.kind, "", repeat=KNOWN_REPEAT, expected=expected)


def _described(connection: Connection, ids: Sequence[int]) -> list[Any]:
    return [
        row
        for chunk in fields.chunks(sorted(set(ids)))
        for row in connection.execute(DESCRIBED.where(_known, pairs.c.id.in_(chunk))).mappings()
    ]


def _known_pair(row: Any) -> KnownPair:
    kept = {name: row[name] for name in ("id", "first", "second", "first_row", "second_row", "expected")}
    return KnownPair(**kept, kind=row["strategy"], retired=row["retired"] is not None)


_LABELS = {a.value: np.nan if a.label is None else a.label for a in Answer}
_EXPECTED = {"first": 1.0, "second": 0.0, "equal": 0.5}

# The statements, built once.

_known = pairs.c.expected.is_not(None)
_who = sa.bindparam("annotator", type_=sa.Text)
_asked = sa.and_(
    _known, pairs.c.strategy == sa.bindparam("kind", type_=sa.Text), pairs.c.retired.is_(None), ~EXCLUDED
)
_HELD = (
    sa.select(pairs.c.id)
    .join(pair_leases, sa.and_(pair_leases.c.pair == pairs.c.id, pair_leases.c.annotator == _who))
    .where(_asked, ~leases.ANSWERED)
    .order_by(pair_leases.c.handed_at, pairs.c.id)
)
_handed = sa.select(sa.literal(1)).where(pair_leases.c.pair == pairs.c.id, pair_leases.c.annotator == _who)
_FREE = (
    sa.select(pairs.c.id, pairs.c.first_row, pairs.c.second_row)
    .where(_asked, ~_handed.exists())
    .order_by(pairs.c.id)
)
_ANSWERS = (
    sa.select(
        comparisons.c.seq,
        comparisons.c.pair,
        pairs.c.first_row,
        comparisons.c.left_row,
        comparisons.c.answer,
        pairs.c.expected,
        pairs.c.strategy,
        comparisons.c.annotator,
        comparisons.c.shown_at,
        comparisons.c.answered_at,
    )
    .join(pairs, pairs.c.id == comparisons.c.pair)
    .where(_known, comparisons.c.question == "", COMPARISONS.counts)
    .order_by(comparisons.c.seq)
)
