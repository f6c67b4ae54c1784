"""Handing out pairs: to as many different people as wanted, each pair to nobody else meanwhile.

A lease remembers that a pair was handed to an annotator and with which sides; it reserves the pair until it expires.
The row stays: whoever was handed a pair may answer it later too – an answer that waited for the network is not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.database import Database
from steelyard.store.log import COMPARISONS, counted
from steelyard.store.pairs import lock_pairs
from steelyard.store.records import Leased
from steelyard.store.schema import comparisons, images, pair_leases, pairs

__all__ = ["LeaseTable", "end_leases", "give_back"]


class LeaseTable(Database):
    """Methods about handing out pairs."""

    def lease_pairs(
        self, annotator: str, n: int, *, seconds: float, rng: np.random.Generator, now: float | None = None
    ) -> list[Leased]:
        """Hand pairs to an annotator, oldest first.

        What the annotator still holds comes first, with the same sides and extended, so reloading a page shows the
        same pairs. New ones are open pairs that the annotator has not answered and that fewer people than wanted
        have answered or hold.

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
        leased = self._hand_out(annotator, wanted, seconds, rng, now, wait=False)
        if len(leased) < wanted and not self._sqlite:
            # What others were just looking at was skipped; before saying that nothing is left, wait for them.
            leased = self._hand_out(annotator, wanted, seconds, rng, now, wait=True)
        return leased

    def _hand_out(
        self,
        annotator: str,
        n: int,
        seconds: float,
        rng: np.random.Generator,
        now: float | None,
        *,
        wait: bool,
    ) -> list[Leased]:
        with self._writing() as connection:
            at = self._clock(connection, now)
            ensure_annotators(connection, self, [annotator], at)
            mine = _held(annotator, at).order_by(pair_leases.c.handed_at, pair_leases.c.pair).limit(n)
            if not self._sqlite:
                # Lock first, then look again: a lease may run out and be taken over between the two.
                lock_pairs(connection, connection.execute(mine).scalars().all())
            held = connection.execute(mine).scalars().all()
            taken = _take(connection, annotator, n - len(held), at, wait=wait)
            self._reserve(connection, annotator, [*held, *taken], at, at + seconds, rng)
            return _leases(connection, annotator, [*held, *taken])

    def _reserve(
        self,
        connection: Connection,
        annotator: str,
        ids: Sequence[int],
        at: float,
        expires: float,
        rng: np.random.Generator,
    ) -> None:
        for chunk in fields.chunks(ids):
            known = sa.select(pair_leases.c.pair).where(
                pair_leases.c.annotator == annotator, pair_leases.c.pair.in_(chunk)
            )
            again = set(connection.execute(known).scalars())
            rows = connection.execute(
                sa.select(pairs.c.id, pairs.c.first_row, pairs.c.second_row).where(pairs.c.id.in_(chunk))
            )
            sides = {id: (first, second) for id, first, second in rows}
            if again:
                renew = sa.update(pair_leases).where(
                    pair_leases.c.annotator == annotator, pair_leases.c.pair.in_(again)
                )
                connection.execute(renew.values(expires=expires))
            new = [id for id in chunk if id not in again]
            if new:
                common = {"annotator": annotator, "handed_at": at, "expires": expires}
                turned = rng.integers(2, size=len(new)).tolist()
                connection.execute(
                    sa.insert(pair_leases),
                    [
                        {"pair": id, "left_row": sides[id][side], **common}
                        for id, side in zip(new, turned, strict=True)
                    ],
                )

    def release_leases(self, annotator: str, *, now: float | None = None) -> int:
        """Give back what an annotator holds, so that others get it at once.

        Returns:
            How many pairs were given back.
        """
        with self._writing() as connection:
            at = self._clock(connection, now)
            running = sa.and_(pair_leases.c.annotator == annotator, pair_leases.c.expires > at)
            lock_pairs(
                connection, connection.execute(sa.select(pair_leases.c.pair).where(running)).scalars().all()
            )
            return connection.execute(sa.update(pair_leases).where(running).values(expires=at)).rowcount

    def free_pair_count(self, annotator: str, *, now: float | None = None) -> int:
        """How many pairs `lease_pairs` could hand to this annotator, those already held included."""
        with self._reading() as connection:
            at = self._clock(connection, now)
            held = sa.select(sa.func.count()).select_from(_held(annotator, at).subquery())
            free = sa.select(sa.func.count()).select_from(pairs).where(_available(annotator, at))
            return int(connection.execute(held).scalar_one() + connection.execute(free).scalar_one())


def end_leases(connection: Connection, annotator: str, ids: Sequence[int], at: float) -> None:
    """End leases because their pairs were answered; the pairs' locks are held."""
    for chunk in fields.chunks(sorted(set(ids))):
        running = sa.and_(
            pair_leases.c.annotator == annotator, pair_leases.c.pair.in_(chunk), pair_leases.c.expires > at
        )
        connection.execute(sa.update(pair_leases).where(running).values(expires=at))


def give_back(
    database: Database,
    connection: Connection,
    annotator: str,
    pair: int,
    left_row: int,
    at: float,
    expires: float,
) -> None:
    """Hand a pair to an annotator again after an undo, with the sides it had; the pair's lock is held."""
    values = {"pair": pair, "annotator": annotator, "left_row": left_row, "handed_at": at, "expires": expires}
    insert = database._insert(pair_leases).values(values)
    update = {"left_row": left_row, "handed_at": at, "expires": expires}
    connection.execute(insert.on_conflict_do_update(index_elements=["pair", "annotator"], set_=update))


def _answered(annotator: str) -> sa.ColumnElement[bool]:
    """The pair counts an answer of this annotator; most open pairs have none of anybody, which is cheap to see."""
    own = sa.select(sa.literal(1)).where(
        comparisons.c.pair == pairs.c.id,
        comparisons.c.annotator == annotator,
        counted(COMPARISONS, comparisons),
    )
    return sa.and_(pairs.c.answers > 0, own.exists())


def _held(annotator: str, at: float) -> sa.Select[Any]:
    """Pairs that the annotator holds and has not answered."""
    return (
        sa.select(pair_leases.c.pair)
        .join(pairs, pairs.c.id == pair_leases.c.pair)
        .where(
            pair_leases.c.annotator == annotator,
            pair_leases.c.expires > at,
            pairs.c.open,
            ~_answered(annotator),
        )
    )


def _available(annotator: str, at: float) -> sa.ColumnElement[bool]:
    """Open pairs that could be handed to the annotator and are not held already."""
    running = sa.and_(pair_leases.c.pair == pairs.c.id, pair_leases.c.expires > at)
    own = sa.select(sa.literal(1)).where(running, pair_leases.c.annotator == annotator)
    others = sa.select(sa.func.count()).where(running, pair_leases.c.annotator != annotator).scalar_subquery()
    # Who answered holds no lease any more, so nobody is counted twice.
    return sa.and_(
        pairs.c.open, pairs.c.answers + others < pairs.c.raters, ~_answered(annotator), ~own.exists()
    )


def _take(connection: Connection, annotator: str, n: int, at: float, *, wait: bool) -> list[int]:
    """Lock `n` available pairs, or as many as there are."""
    available = _available(annotator, at)
    found: list[int] = []
    last = 0
    while len(found) < n:
        query = (
            sa.select(pairs.c.id)
            .where(pairs.c.id > last, available)
            .order_by(pairs.c.id)
            .limit(n - len(found))
        )
        if connection.dialect.name == "sqlite":
            return list(connection.execute(query).scalars())
        locked = (
            connection.execute(query.with_for_update(key_share=True, skip_locked=not wait)).scalars().all()
        )
        if not locked:
            break
        # Somebody may have committed a lease between our look and our lock; with the lock held, look again.
        last = locked[-1]
        found += connection.execute(
            sa.select(pairs.c.id).where(pairs.c.id.in_(locked), available).order_by(pairs.c.id)
        ).scalars()
    return found


def _leases(connection: Connection, annotator: str, ids: Sequence[int]) -> list[Leased]:
    left, right = images.alias("left_image"), images.alias("right_image")
    right_row = pairs.c.first_row + pairs.c.second_row - pair_leases.c.left_row
    query = (
        sa.select(
            pair_leases.c.pair,
            pair_leases.c.annotator,
            left.c.id.label("left"),
            right.c.id.label("right"),
            left.c.row.label("left_row"),
            right.c.row.label("right_row"),
            pairs.c.round,
            pairs.c.strategy,
            pairs.c.reason,
            pairs.c.reserved,
            pairs.c.repeat,
            pair_leases.c.expires,
        )
        .join(pairs, pairs.c.id == pair_leases.c.pair)
        .join(left, left.c.row == pair_leases.c.left_row)
        .join(right, right.c.row == right_row)
        .where(pair_leases.c.annotator == annotator)
    )
    found: dict[int, Leased] = {}
    for chunk in fields.chunks(ids):
        for row in connection.execute(query.where(pair_leases.c.pair.in_(chunk))).mappings():
            found[row["pair"]] = Leased(**row)
    return [found[id] for id in ids]
