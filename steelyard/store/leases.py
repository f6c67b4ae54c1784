"""Handing out pairs, inside a running transaction: each to as many different people as wanted, and to nobody else.

A lease remembers that a pair was handed to an annotator and with which sides; it reserves the pair until it expires.
The row stays: whoever was handed a pair may answer it later too – an answer that waited for the network is not lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.locks import lock_pairs
from steelyard.store.log import COMPARISONS
from steelyard.store.records import Leased
from steelyard.store.schema import comparisons, images, pair_leases, pairs

__all__ = [
    "ANSWERED",
    "AVAILABLE_COUNT",
    "CALL",
    "end_leases",
    "give_back",
    "hand_out",
    "look",
    "read_leases",
    "running",
    "waiting",
]


def end_leases(connection: Connection, answered: Sequence[tuple[int, str]], at: float) -> None:
    """End the leases of pairs and annotators because they were answered; the pairs' locks are held."""
    for chunk in fields.chunks(sorted(set(answered))):
        connection.execute(_END, {"answered": chunk, "ids": [pair for pair, _ in chunk], "at": at})


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
    insert = database.insert(pair_leases).values(values)
    update = {"left_row": left_row, "handed_at": at, "expires": expires}
    connection.execute(insert.on_conflict_do_update(index_elements=["pair", "annotator"], set_=update))


def running(connection: Connection, annotator: str, n: int, at: float) -> dict[int, float]:
    """Pairs that the annotator holds, oldest first, and when each lease ends."""
    rows = connection.execute(_HELD, {"annotator": annotator, "n": n, "at": at})
    return {row.pair: row.expires for row in rows}


def look(connection: Connection, annotator: str, n: int, at: float) -> tuple[dict[int, float], list[int]]:
    """Pairs that the annotator holds, and new ones up to `n` together; nothing is locked."""
    held = running(connection, annotator, n, at)
    who = {"annotator": annotator, "at": at, "last": 0, "n": n - len(held)}
    return held, list(connection.execute(_AVAILABLE, who).scalars()) if len(held) < n else []


def waiting(
    connection: Connection, annotator: str, n: int, at: float
) -> tuple[dict[int, float], list[int], bool]:
    """As `look`, but locked, for PostgreSQL: waits for all locks in ascending order.

    Returns:
        Pairs that are held, new ones, and whether somebody else took one meanwhile.
    """
    who = {"annotator": annotator, "at": at}
    seen, free = look(connection, annotator, n, at)
    lock_pairs(connection, [*seen, *free])
    held = {id: expires for id, expires in running(connection, annotator, n, at).items() if id in seen}
    taken = list(connection.execute(_STILL_AVAILABLE, {**who, "ids": free}).scalars()) if free else []
    return held, taken, len(held) + len(taken) < len(seen) + len(free)


def hand_out(
    connection: Connection,
    annotator: str,
    held: Mapping[int, float],
    taken: Sequence[int],
    at: float,
    seconds: float,
    rng: np.random.Generator,
) -> list[Leased]:
    """Write the leases: of pairs that are held, which are extended, and of new ones."""
    # Only when half of the time is over: looking again and again should not write to the disk each time.
    if ending := [id for id, expires in held.items() if expires < at + seconds / 2]:
        _renew(connection, annotator, ending, at + seconds)
    if taken:
        _reserve(connection, annotator, taken, at, at + seconds, rng)
    return read_leases(connection, annotator, [*held, *taken])


def _renew(connection: Connection, annotator: str, ids: Sequence[int], expires: float) -> None:
    for chunk in fields.chunks(ids):
        connection.execute(_RENEW, {"who": annotator, "ids": chunk, "until": expires})


def _reserve(
    connection: Connection,
    annotator: str,
    ids: Sequence[int],
    at: float,
    expires: float,
    rng: np.random.Generator,
) -> None:
    for chunk in fields.chunks(ids):
        asked = connection.execute(_ASKED, {"annotator": annotator, "ids": chunk}).all()
        if again := [id for id, _, _, left in asked if left is not None]:
            _renew(connection, annotator, again, expires)
        if new := [(id, rows) for id, *rows, left in asked if left is None]:
            common = {"annotator": annotator, "handed_at": at, "expires": expires}
            sides = rng.integers(2, size=len(new)).tolist()
            connection.execute(
                _INSERT,
                [
                    {"pair": id, "left_row": rows[k], **common}
                    for (id, rows), k in zip(new, sides, strict=True)
                ],
            )


def read_leases(connection: Connection, annotator: str, ids: Sequence[int]) -> list[Leased]:
    """What was handed to the annotator, in the given order."""
    found: dict[int, Leased] = {}
    for chunk in fields.chunks(ids):
        for row in connection.execute(_LEASES, {"annotator": annotator, "ids": chunk}).mappings():
            found[row["pair"]] = Leased(**row)
    return [found[id] for id in ids]


# The statements, built once.

_who = sa.bindparam("annotator", type_=sa.Text)
_at = sa.bindparam("at", type_=sa.Double)
_n = sa.bindparam("n", type_=sa.BigInteger)
_ids: sa.BindParameter[int] = sa.bindparam("ids", expanding=True)
_one = sa.literal(1)

# Most open pairs have no answer of anybody, which is cheaper to see than that there is none of this annotator.
ANSWERED = sa.and_(
    pairs.c.answers > 0,
    sa.select(_one)
    .where(
        comparisons.c.pair == pairs.c.id,
        comparisons.c.annotator == _who,
        comparisons.c.question == "",
        COMPARISONS.counts,
    )
    .exists(),
)
"""Whether the annotator has answered the main question about a pair."""

_running = sa.and_(pair_leases.c.pair == pairs.c.id, pair_leases.c.expires > _at)
_own = sa.select(_one).where(_running, pair_leases.c.annotator == _who)
_others = sa.select(sa.func.count()).where(_running, pair_leases.c.annotator != _who).scalar_subquery()
# Who answered holds no lease any more, so nobody is counted twice.
_available = sa.and_(pairs.c.open, pairs.c.answers + _others < pairs.c.raters, ~ANSWERED, ~_own.exists())

_HELD = (
    sa.select(pair_leases.c.pair, pair_leases.c.expires)
    .join(pairs, pairs.c.id == pair_leases.c.pair)
    .where(pair_leases.c.annotator == _who, pair_leases.c.expires > _at, pairs.c.open, ~ANSWERED)
    .order_by(pair_leases.c.handed_at, pair_leases.c.pair)
    .limit(_n)
)
_AVAILABLE = (
    sa.select(pairs.c.id)
    .where(pairs.c.id > sa.bindparam("last", type_=sa.BigInteger), _available)
    .order_by(sa.and_(pairs.c.asked_of.is_not(None), pairs.c.asked_of != _who), pairs.c.id)
    .limit(_n)
)
_STILL_AVAILABLE = sa.select(pairs.c.id).where(pairs.c.id.in_(_ids), _available).order_by(pairs.c.id)
AVAILABLE_COUNT = sa.select(sa.func.count()).select_from(pairs).where(_available)

# The rows of a pair, and which was on the left if the annotator was handed it before.
_ASKED = (
    sa.select(pairs.c.id, pairs.c.first_row, pairs.c.second_row, pair_leases.c.left_row)
    .outerjoin(pair_leases, sa.and_(pair_leases.c.pair == pairs.c.id, pair_leases.c.annotator == _who))
    .where(pairs.c.id.in_(_ids))
    .order_by(pairs.c.id)
)
_INSERT = sa.insert(pair_leases)
CALL = sa.text(
    "SELECT * FROM steelyard_lease(CAST(:who AS text), CAST(:n AS bigint), CAST(:at AS float8), "
    "CAST(:seconds AS float8), CAST(:flipped AS boolean[]))"
)
# By key alone: a condition on `expires` would have SQLite read all that the annotator ever held.
_RENEW = (
    sa.update(pair_leases)
    .where(pair_leases.c.annotator == sa.bindparam("who"), pair_leases.c.pair.in_(_ids))
    .values(expires=sa.bindparam("until"))
)
_END = (
    sa.update(pair_leases)
    .where(
        pair_leases.c.pair.in_(_ids),  # SQLite does not use an index for a list of tuples
        sa.tuple_(pair_leases.c.pair, pair_leases.c.annotator).in_(sa.bindparam("answered", expanding=True)),
        pair_leases.c.expires > _at,
    )
    .values(expires=_at)
)

_left, _right = images.alias("left_image"), images.alias("right_image")
_LEASES = (
    sa.select(
        pair_leases.c.pair,
        pair_leases.c.annotator,
        _left.c.id.label("left"),
        _right.c.id.label("right"),
        _left.c.row.label("left_row"),
        _right.c.row.label("right_row"),
        pairs.c.round,
        pairs.c.strategy,
        pairs.c.reason,
        pairs.c.reserved,
        pairs.c.repeat,
        pair_leases.c.expires,
    )
    .join(pairs, pairs.c.id == pair_leases.c.pair)
    .join(_left, _left.c.row == pair_leases.c.left_row)
    .join(_right, _right.c.row == pairs.c.first_row + pairs.c.second_row - pair_leases.c.left_row)
    .where(pair_leases.c.annotator == _who, pair_leases.c.pair.in_(_ids))
)
