"""Pairs in the store: each is there once, with the round, strategy and reason that chose it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import StoreError, UnknownRecordError
from steelyard.store.log import COMPARISONS
from steelyard.store.records import NewPair, PairColumns, StoredPair
from steelyard.store.schema import comparisons, images, pair_leases, pairs

__all__ = ["ANSWERS", "EXCLUDED", "PairTable", "lock_images", "lock_pairs", "put_pairs", "settle"]

_SMALL = 2**31 - 1


class PairTable(Database):
    """Methods about pairs."""

    def add_pairs(self, new: Sequence[NewPair], *, now: float | None = None) -> list[int]:
        """Add pairs to ask about; one that is there already (same images, same `repeat`) is not doubled.

        Returns:
            The id of each pair in the given order, also of those that were there; they stay as they were.

        Raises:
            UnknownRecordError: a row is no image of this study.
            StoreError: an image paired with itself, or a field that cannot be stored.
        """
        with self._writing() as connection:
            return put_pairs(self, connection, new, self._clock(connection, now))

    def pair(self, id: int) -> StoredPair:
        """One pair.

        Raises:
            UnknownRecordError: no pair has this number.
        """
        if 0 < id <= fields.LARGEST:
            with self._reading() as connection:
                row = connection.execute(_DESCRIBED_ONE, {"id": id}).mappings().one_or_none()
            if row is not None:
                return StoredPair(**row)
        raise _no_pair(id)

    def find_pair(self, a: str, b: str, repeat: int = 0) -> StoredPair | None:
        """The pair of two images given by id, in any order, or None."""
        query = sa.select(images.c.row).where(images.c.id.in_([a, b])).order_by(images.c.row)
        with self._reading() as connection:
            rows = connection.execute(query).scalars().all()
            if len(rows) != 2:
                return None
            its = {"first": rows[0], "second": rows[1], "repeat": repeat}
            row = connection.execute(_DESCRIBED_ROWS, its).mappings().one_or_none()
        return None if row is None else StoredPair(**row)

    def pairs(
        self, after_id: int = 0, limit: int | None = None, *, open: bool | None = None
    ) -> list[StoredPair]:
        """Pairs in the order of their ids, from the first one after `after_id`; `open` keeps open or closed ones."""
        query = _DESCRIBED.where(pairs.c.id > after_id).order_by(pairs.c.id).limit(limit)
        if open is not None:
            query = query.where(pairs.c.open if open else ~pairs.c.open)
        with self._reading() as connection:
            return [StoredPair(**row) for row in connection.execute(query).mappings()]

    def pair_array(self, after_id: int = 0) -> NDArray[np.int64]:
        """All pairs ever chosen as catalog rows, shape (n, 2), smaller row first."""
        with self._reading() as connection:
            first, second = self._columns(connection, _ROWS, {"after": after_id})
        return np.array([first, second], dtype=np.int64).T.reshape(-1, 2)

    def pair_columns(self, after_id: int = 0) -> PairColumns:
        """Pairs as columns; pass the last id as `after_id` next time to get only what is new."""
        with self._reading() as connection:
            columns = self._columns(connection, _COLUMNS, {"after": after_id})
        id, first, second, round, open, reserved = columns
        return PairColumns(
            np.array(id, dtype=np.int64),
            np.array([first, second], dtype=np.int64).T.reshape(-1, 2),
            np.array(round, dtype=np.int64),
            np.array(open, dtype=bool),
            np.array(reserved, dtype=bool),
        )

    def open_pair_count(self) -> int:
        """How many pairs still want an answer of somebody."""
        with self._reading() as connection:
            return int(
                connection.execute(
                    sa.select(sa.func.count()).select_from(pairs).where(pairs.c.open)
                ).scalar_one()
            )

    def set_raters(self, ids: Sequence[int], raters: int) -> None:
        """Ask more or fewer people about pairs.

        Raises:
            UnknownRecordError: no pair has one of the numbers; nothing is changed.
        """
        wanted = fields.number(raters, "the number of raters", least=1, most=_SMALL)
        with self._writing() as connection:
            lock_pairs(connection, ids)
            for chunk in fields.chunks(sorted(set(ids))):
                connection.execute(sa.update(pairs).where(pairs.c.id.in_(chunk)).values(raters=wanted))
            settle(connection, ids)

    def drop_unasked_pairs(self, *, before_round: int | None = None) -> int:
        """Forget open pairs that nobody was ever handed or answered, so that better ones can be chosen.

        Args:
            before_round: only pairs of earlier rounds than this.

        Returns:
            How many were forgotten.
        """
        asked = sa.select(sa.literal(1)).where(pair_leases.c.pair == pairs.c.id)
        answered = sa.select(sa.literal(1)).where(comparisons.c.pair == pairs.c.id)
        unasked = sa.and_(pairs.c.open, ~asked.exists(), ~answered.exists())
        if before_round is not None:
            unasked = sa.and_(unasked, pairs.c.round < before_round)
        with self._writing() as connection:
            # On PostgreSQL a pair may be handed out between looking and locking, so look again with the lock held.
            locked = (
                sa.select(pairs.c.id).where(unasked).order_by(pairs.c.id).with_for_update(skip_locked=True)
            )
            dropped = 0
            for chunk in fields.chunks(connection.execute(locked).scalars().all()):
                dropped += connection.execute(sa.delete(pairs).where(pairs.c.id.in_(chunk), unasked)).rowcount
        return dropped


def put_pairs(database: Database, connection: Connection, new: Sequence[NewPair], at: float) -> list[int]:
    """`Store.add_pairs` within a running transaction; takes the locks of images and of the log."""
    values = [_values(pair) for pair in new]
    excluded = lock_images(
        connection, {value[side] for value in values for side in ("first_row", "second_row")}
    )
    for value in values:
        value["created"] = at
        value["open"] = not (excluded[value["first_row"]] or excluded[value["second_row"]])
    # Ids in the order of commits, so that `pair_columns(after_id)` misses none.
    database._lock_log(connection)
    # Only missing pairs are inserted: an INSERT that does nothing would still use up an id.
    known = _ids(connection, values)
    missing = {_key(value): value for value in reversed(values) if _key(value) not in known}
    if missing:
        connection.execute(sa.insert(pairs), list(reversed(missing.values())))
        database._filled(connection, pairs, len(missing))
        known |= _ids(connection, list(missing.values()))
    return [known[_key(value)] for value in values]


def lock_pairs(connection: Connection, ids: Sequence[int], *, missing_ok: bool = False) -> dict[int, Any]:
    """Lock pairs in ascending order and read them, with the ids of their images.

    Raises:
        UnknownRecordError: no pair has one of the numbers.
    """
    found: dict[int, Any] = {}
    wanted = sorted(set(ids))
    for id in wanted:
        if not 0 < id <= fields.LARGEST:
            raise _no_pair(id)
    statement = _DESCRIBED_AMONG if connection.dialect.name == "sqlite" else _LOCKED_AMONG
    for chunk in fields.chunks(wanted):
        for row in connection.execute(statement, {"ids": chunk}).mappings():
            found[row["id"]] = row
    for id in wanted:
        if id not in found and not missing_ok:
            raise _no_pair(id)
    return found


def settle(connection: Connection, ids: Sequence[int]) -> None:
    """Let `answers` and `open` of pairs follow from the log and from what is excluded; their locks are held."""
    for chunk in fields.chunks(sorted(set(ids))):
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
    }


def _key(value: dict[str, Any]) -> tuple[int, int, int]:
    return value["first_row"], value["second_row"], value["repeat"]


def _ids(connection: Connection, values: Sequence[dict[str, Any]]) -> dict[tuple[int, int, int], int]:
    """Ids of the given pairs as far as they are there."""
    wanted = {_key(value) for value in values}
    found: dict[tuple[int, int, int], int] = {}
    query = sa.select(pairs.c.id, pairs.c.first_row, pairs.c.second_row, pairs.c.repeat)
    for rows in fields.chunks(sorted({key[0] for key in wanted})):
        for id, *key in connection.execute(query.where(pairs.c.first_row.in_(rows))):
            if tuple(key) in wanted:
                found[key[0], key[1], key[2]] = id
    return found


def lock_images(connection: Connection, rows: Iterable[int]) -> dict[int, bool]:
    """For each row whether the image is excluded; locked, so that it stays so until the commit.

    Raises:
        UnknownRecordError: a row is no image of this study.
    """
    found: dict[int, bool] = {}
    wanted = sorted(set(rows))
    for chunk in fields.chunks(wanted):
        query = (
            sa.select(images.c.row, images.c.excluded_at)
            .where(images.c.row.in_(chunk))
            .order_by(images.c.row)
        )
        found |= {row: at is not None for row, at in connection.execute(query.with_for_update(read=True))}
    for row in wanted:
        if row not in found:
            raise UnknownRecordError(f"no image of this study has the row {row}")
    return found


def _no_pair(id: int) -> UnknownRecordError:
    return UnknownRecordError(f"no pair of this study has the number {id}")


# The statements, built once.

_first, _second = images.alias("first_image"), images.alias("second_image")
_among: sa.BindParameter[int] = sa.bindparam("ids", expanding=True)
_DESCRIBED = (
    sa.select(
        *(column for column in pairs.c if column.name != "answers"),
        _first.c.id.label("first"),
        _second.c.id.label("second"),
    )
    .join(_first, _first.c.row == pairs.c.first_row)
    .join(_second, _second.c.row == pairs.c.second_row)
)
_DESCRIBED_ONE = _DESCRIBED.where(pairs.c.id == sa.bindparam("id"))
_DESCRIBED_ROWS = _DESCRIBED.where(
    pairs.c.first_row == sa.bindparam("first"),
    pairs.c.second_row == sa.bindparam("second"),
    pairs.c.repeat == sa.bindparam("repeat"),
)
_DESCRIBED_AMONG = _DESCRIBED.where(pairs.c.id.in_(_among)).order_by(pairs.c.id)
_LOCKED_AMONG = _DESCRIBED_AMONG.with_for_update(of=pairs, key_share=True)

_after = pairs.c.id > sa.bindparam("after", type_=sa.BigInteger)
_ROWS = sa.select(pairs.c.first_row, pairs.c.second_row).where(_after).order_by(pairs.c.id)
_COLUMNS = (
    sa.select(
        pairs.c.id, pairs.c.first_row, pairs.c.second_row, pairs.c.round, pairs.c.open, pairs.c.reserved
    )
    .where(_after)
    .order_by(pairs.c.id)
)

ANSWERS = (
    sa.select(sa.func.count()).where(comparisons.c.pair == pairs.c.id, COMPARISONS.counts).scalar_subquery()
)
"""How many answers count about a pair."""

EXCLUDED = (
    sa.select(sa.literal(1))
    .where(images.c.row.in_([pairs.c.first_row, pairs.c.second_row]), images.c.excluded_at.is_not(None))
    .exists()
)
"""Whether an image of a pair was taken out."""

_SETTLE = (
    sa.update(pairs)
    .where(pairs.c.id.in_(_among))
    .values(answers=ANSWERS, open=sa.and_(pairs.c.raters > ANSWERS, ~EXCLUDED))
)
