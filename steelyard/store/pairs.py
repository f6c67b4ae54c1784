"""Pairs in the store: each is there once, with the round, strategy and reason that chose it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from steelyard.store import fields, leases
from steelyard.store.annotators import ensure_annotators
from steelyard.store.database import Database
from steelyard.store.errors import StoreError
from steelyard.store.locks import DESCRIBED, hold_images, lock_pairs, no_pair
from steelyard.store.log import COMPARISONS, DECISIONS
from steelyard.store.records import Leased, NewPair, PairColumns, StoredPair
from steelyard.store.schema import comparisons, images, pair_leases, pairs

__all__ = ["ANSWERS", "DECIDED", "EXCLUDED", "Pairs", "put_pairs", "settle"]

_SMALL = 2**31 - 1


class Pairs:
    """Pairs that are asked about, and who holds them."""

    def __init__(self, database: Database) -> None:
        self._db = database
        # Annotators that were met in the database, from which nobody is ever removed.
        self._known: set[str] = set()

    def add_all(self, new: Sequence[NewPair], *, now: float | None = None) -> list[int]:
        """Add pairs to ask about; one that is there already (same images, same `repeat`) is not doubled.

        Returns:
            The id of each pair in the given order, also of those that were there; they stay as they were, but for those that a
            further opinion is wanted about (`NewPair.asked_of`).

        Raises:
            UnknownRecordError: a row is no image of this study.
            StoreError: an image paired with itself, or a field that cannot be stored.
        """
        with self._db.writing() as connection:
            ids = put_pairs(self._db, connection, new, self._db.clock(connection, now))
        if again := {
            id: pair.asked_of for id, pair in zip(ids, new, strict=True) if pair.asked_of is not None
        }:
            # In a transaction of its own, which takes locks of pairs as those of answers do.
            with self._db.writing() as connection:
                lock_pairs(connection, list(again))
                connection.execute(_ONE_MORE, [{"pair": id, "who": who} for id, who in again.items()])
        return ids

    def get(self, id: int) -> StoredPair:
        """One pair.

        Raises:
            UnknownRecordError: no pair has this number.
        """
        if 0 < id <= fields.LARGEST:
            with self._db.reading() as connection:
                row = connection.execute(_DESCRIBED_ONE, {"id": id}).mappings().one_or_none()
            if row is not None:
                return StoredPair(**row)
        raise no_pair(id)

    def find(self, a: str, b: str, repeat: int = 0) -> StoredPair | None:
        """The pair of two images given by id, in any order, or None."""
        query = sa.select(images.c.row).where(images.c.id.in_([a, b])).order_by(images.c.row)
        with self._db.reading() as connection:
            rows = connection.execute(query).scalars().all()
            if len(rows) != 2:
                return None
            its = {"first": rows[0], "second": rows[1], "repeat": repeat}
            row = connection.execute(_DESCRIBED_ROWS, its).mappings().one_or_none()
        return None if row is None else StoredPair(**row)

    def all(
        self, after_id: int = 0, limit: int | None = None, *, open: bool | None = None
    ) -> list[StoredPair]:
        """Pairs in the order of their ids, from the first one after `after_id`; `open` keeps open or closed ones."""
        query = DESCRIBED.where(pairs.c.id > after_id).order_by(pairs.c.id).limit(limit)
        if open is not None:
            query = query.where(pairs.c.open if open else ~pairs.c.open)
        with self._db.reading() as connection:
            return [StoredPair(**row) for row in connection.execute(query).mappings()]

    def columns(self, after_id: int = 0) -> PairColumns:
        """Pairs as columns; pass the last id as `after_id` next time to get only what is new."""
        with self._db.reading() as connection:
            columns = self._db.columns(connection, _COLUMNS, {"after": after_id})
        id, first, second, round, open, reserved, expected = columns
        return PairColumns(
            np.array(id, dtype=np.int64),
            np.array([first, second], dtype=np.int64).T.reshape(-1, 2),
            np.array(round, dtype=np.int64),
            np.array(open, dtype=bool),
            np.array(reserved, dtype=bool),
            np.array([word is not None for word in expected], dtype=bool),
        )

    def open_rows(self) -> NDArray[np.int64]:
        """Catalog rows of the pairs that still need answers, shape (n, 2)."""
        with self._db.reading() as connection:
            found = connection.execute(
                sa.select(pairs.c.first_row, pairs.c.second_row).where(pairs.c.open)
            ).all()
        return np.array([tuple(row) for row in found], dtype=np.int64).reshape(-1, 2)

    def open_count(self, *, unanswered: bool = False) -> int:
        """How many pairs still need answers, or have none at all: what anybody can be asked about."""
        query = sa.select(sa.func.count()).select_from(pairs).where(pairs.c.open)
        if unanswered:
            query = query.where(pairs.c.answers == 0)
        with self._db.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def lease(
        self, annotator: str, n: int, *, seconds: float, rng: np.random.Generator, now: float | None = None
    ) -> list[Leased]:
        """Hand pairs to an annotator, oldest first.

        What the annotator still holds comes first, with the same sides, so reloading a page shows the same pairs;
        it is extended when half of its time is over. New ones are open pairs that the annotator has not answered and
        that fewer people than wanted have answered or hold.

        Args:
            annotator: who asks; made known where it is not.
            n: how many at most, those already held included.
            seconds: how long they are reserved.
            rng: decides which image is on which side.
            now: seconds since 1970; None asks the database.

        Returns:
            Up to `n` leases; none when nothing is left for this annotator.
        """
        fields.name(annotator)
        wanted = fields.number(n, "the number of pairs", most=10_000)
        fields.positive(seconds, "the time of a lease")
        if self._db.sqlite or annotator not in self._known:
            with self._db.writing() as connection:
                at = self._db.clock(connection, now)
                ensure_annotators(connection, self._db, [annotator], at)
                if self._db.sqlite:
                    held, taken = leases.look(connection, annotator, wanted, at)
                    return leases.hand_out(connection, annotator, held, taken, at, seconds, rng)
            if self._db.settled:
                self._known.add(annotator)
        leased = self._lease_unlocked(annotator, wanted, seconds, rng, now)
        while len(leased) < wanted:
            # Pairs that others were just looking at were skipped. Before saying that nothing is left, wait for them;
            # in a transaction of its own, because whoever waits must not hold anything that others wait for.
            with self._db.writing() as connection:
                at = self._db.clock(connection, now)
                held, taken, lost = leases.waiting(connection, annotator, wanted, at)
                leased = leases.hand_out(connection, annotator, held, taken, at, seconds, rng)
            if not lost:
                break
        return leased

    def _lease_unlocked(
        self, annotator: str, n: int, seconds: float, rng: np.random.Generator, now: float | None
    ) -> list[Leased]:
        """Hand out on PostgreSQL what nobody else has locked, in one round trip.

        Between a look and a lock somebody may commit a lease. So its function (migration 0006) looks, locks, and looks
        again with the lock held.
        """
        flipped = (rng.integers(2, size=n) == 1).tolist()
        with self._db.calling() as connection:
            at = self._db.clock(connection, now)
            values = {"who": annotator, "n": n, "at": at, "seconds": float(seconds), "flipped": flipped}
            return [Leased(**row) for row in connection.execute(leases.CALL, values).mappings()]

    def gone(self, annotator: str) -> list[int]:
        """Of the pairs that were handed to an annotator lately, those that are asked no more: an image of theirs was taken out.

        Whoever holds such a pair may have it on the screen or waiting in a browser. An answer about it is kept all the same.
        """
        with self._db.reading() as connection:
            return list(connection.execute(_GONE, {"annotator": annotator}).scalars())

    def give_up(self, annotator: str, ids: Sequence[int], *, now: float | None = None) -> None:
        """End somebody's leases of pairs that they cannot be asked about; others may be handed them."""
        if ids:
            with self._db.writing() as connection:
                lock_pairs(connection, ids)
                leases.end_leases(
                    connection, [(id, annotator) for id in ids], self._db.clock(connection, now)
                )

    def held(self, annotator: str, *, now: float | None = None) -> set[int]:
        """Numbers of the pairs that somebody holds and has not answered."""
        with self._db.reading() as connection:
            at = self._db.clock(connection, now)
            return set(leases.running(connection, annotator, fields.LARGEST, at))

    def free_count(self, annotator: str = "", *, now: float | None = None) -> int:
        """How many pairs `lease` could hand to this annotator, those already held included; or to somebody new (no name)."""
        with self._db.reading() as connection:
            at = self._db.clock(connection, now)
            held = len(leases.running(connection, annotator, fields.LARGEST, at))
            free = connection.execute(leases.AVAILABLE_COUNT, {"annotator": annotator, "at": at}).scalar_one()
            return held + int(free)


def put_pairs(database: Database, connection: Connection, new: Sequence[NewPair], at: float) -> list[int]:
    """`Pairs.add_all` within a running transaction; takes the locks of images and of the log."""
    values = [_values(pair) for pair in new]
    excluded = hold_images(
        connection, {value[side] for value in values for side in ("first_row", "second_row")}
    )
    for value in values:
        value["created"] = at
        out = excluded[value["first_row"]] or excluded[value["second_row"]]
        value["open"] = not out and value["expected"] is None
    # Ids in the order of commits, so that `Pairs.columns(after_id)` misses none.
    database.lock_log(connection)
    # Only missing pairs are inserted: an INSERT that does nothing would still use up an id.
    known = _ids(connection, values)
    missing = {_key(value): value for value in reversed(values) if _key(value) not in known}
    if missing:
        connection.execute(sa.insert(pairs), list(reversed(missing.values())))
        database.filled(connection, pairs, len(missing))
        known |= _ids(connection, list(missing.values()))
    return [known[_key(value)] for value in values]


def settle(connection: Connection, ids: Sequence[int], *, third_reader: bool = False) -> None:
    """Work out `answers` and `open` of pairs from the log and from what is excluded; their locks are held.

    A pair that a lead has decided about is asked no more.

    Args:
        connection: of the transaction.
        ids: of the pairs.
        third_reader: ask a third person about those for two people on which the two differ, and no longer where they agree.
    """
    for chunk in fields.chunks(sorted(set(ids))):
        if third_reader:
            connection.execute(_THIRD, {"ids": chunk})
        connection.execute(_SETTLE, {"ids": chunk})


def _values(pair: NewPair) -> dict[str, Any]:
    first, second = (fields.number(row, "a catalog row") for row in (pair.first, pair.second))
    if first == second:
        raise StoreError(f"image {first} cannot be paired with itself")
    if pair.score is not None and not math.isfinite(pair.score):
        raise StoreError(f"the score of pair ({first}, {second}) is finite or None, not {pair.score!r}")
    return {
        "first_row": min(first, second),
        "second_row": max(first, second),
        "repeat": fields.number(pair.repeat, "the repetition of a pair", most=_SMALL),
        "round": fields.number(pair.round, "a round", most=_SMALL),
        "strategy": fields.text(pair.strategy, "a strategy's name"),
        "reason": fields.text(pair.reason, "a reason"),
        "score": None if pair.score is None else float(pair.score),
        "reserved": bool(pair.reserved),
        "raters": fields.number(pair.raters, "the number of raters", least=1, most=_SMALL),
        "answers": 0,
        "expected": pair.expected,
        "asked_of": None,
    }


def _key(value: dict[str, Any]) -> tuple[int, int, int]:
    return value["first_row"], value["second_row"], value["repeat"]


def _ids(connection: Connection, values: Sequence[dict[str, Any]]) -> dict[tuple[int, int, int], int]:
    """Ids of those of the given pairs that are there."""
    wanted = {_key(value) for value in values}
    found: dict[tuple[int, int, int], int] = {}
    query = sa.select(pairs.c.id, pairs.c.first_row, pairs.c.second_row, pairs.c.repeat)
    for rows in fields.chunks(sorted({key[0] for key in wanted})):
        for id, *key in connection.execute(query.where(pairs.c.first_row.in_(rows))):
            if tuple(key) in wanted:
                found[key[0], key[1], key[2]] = id
    return found


# The statements, built once.

_among: sa.BindParameter[int] = sa.bindparam("ids", expanding=True)
_DESCRIBED_ONE = DESCRIBED.where(pairs.c.id == sa.bindparam("id"))
_DESCRIBED_ROWS = DESCRIBED.where(
    pairs.c.first_row == sa.bindparam("first"),
    pairs.c.second_row == sa.bindparam("second"),
    pairs.c.repeat == sa.bindparam("repeat"),
)
_after = pairs.c.id > sa.bindparam("after", type_=sa.BigInteger)
_COLUMNS = (
    sa.select(
        pairs.c.id,
        pairs.c.first_row,
        pairs.c.second_row,
        pairs.c.round,
        pairs.c.open,
        pairs.c.reserved,
        pairs.c.expected,
    )
    .where(_after)
    .order_by(pairs.c.id)
)

ANSWERS = (
    sa.select(sa.func.count())
    .where(comparisons.c.pair == pairs.c.id, comparisons.c.question == "", COMPARISONS.counts)
    .scalar_subquery()
)
"""How many answers to the main question count about a pair; further questions neither open nor close one."""

EXCLUDED = (
    sa.select(sa.literal(1))
    .where(images.c.row.in_([pairs.c.first_row, pairs.c.second_row]), images.c.excluded_at.is_not(None))
    .exists()
)
"""Whether an image of a pair was taken out."""

DECIDED = (
    sa.select(sa.literal(1))
    .where(comparisons.c.pair == pairs.c.id, comparisons.c.question == "", DECISIONS.counts)
    .correlate(pairs)
    .exists()
)
"""Whether a lead has decided about a pair."""

# By the index on annotator and expiry; a browser keeps fewer pairs than that.
_lately = (
    sa.select(pair_leases.c.pair)
    .where(pair_leases.c.annotator == sa.bindparam("annotator", type_=sa.Text))
    .order_by(pair_leases.c.expires.desc())
    .limit(100)
    .subquery()
)
_GONE = (
    sa.select(pairs.c.id)
    .join(_lately, _lately.c.pair == pairs.c.id)
    .where(~pairs.c.open, EXCLUDED, ~leases.ANSWERED)
    .order_by(pairs.c.id)
)

# What was said, about (first, second): sides differ from one person to the next.
_said = sa.case(
    (comparisons.c.answer.in_(["equal", "cannot judge"]), comparisons.c.answer),
    ((comparisons.c.left_row == pairs.c.first_row) == (comparisons.c.answer == "left"), "first"),
    else_="second",
)
_DIFFER = (
    sa.select(sa.func.count(sa.distinct(_said)) > 1)
    .where(comparisons.c.pair == pairs.c.id, comparisons.c.question == "", COMPARISONS.counts)
    .correlate(pairs)
    .scalar_subquery()
)
# For one person more; not what is up already, what measures accuracy, or what is settled otherwise.
_ONE_MORE = (
    sa.update(pairs)
    .where(
        pairs.c.id == sa.bindparam("pair", type_=sa.BigInteger), ~pairs.c.open, pairs.c.answers > 0, ~pairs.c.reserved,
        ~EXCLUDED, ~DECIDED, pairs.c.expected.is_(None),
    )
    .values(raters=pairs.c.answers + 1, open=True, asked_of=sa.bindparam("who", type_=sa.Text))
)  # fmt: skip
_THIRD = (
    sa.update(pairs)
    .where(pairs.c.id.in_(_among), pairs.c.raters.in_([2, 3]), pairs.c.expected.is_(None))
    .values(raters=sa.case((_DIFFER, 3), else_=2))
)
_SETTLE = (
    sa.update(pairs)
    .where(pairs.c.id.in_(_among))
    .values(
        answers=ANSWERS,
        open=sa.and_(pairs.c.raters > ANSWERS, ~EXCLUDED, ~DECIDED, pairs.c.expected.is_(None)),
    )
)
