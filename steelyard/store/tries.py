"""Tries to sign in with a password, counted before the password is looked at.

A try takes its place here first and gives it back when the password was right, so that as many get through as are
allowed however many come at once, from however many server processes, before and after a restart.

- One name from one address: 10 in five minutes.
- One name from everywhere: 10 in an hour, then one at a time with a pause that doubles up to five minutes. Whoever
  signed in with the name before carries a device cookie and is counted apart, 10 in five minutes for each device: an
  attacker who keeps a name busy does not keep its owner out.
- One address: 100 different unknown names in five minutes. A hospital behind one address mistypes less than that, and
  devices that are known pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store.database import Database
from steelyard.store.schema import attempts

__all__ = ["Tries", "Try"]

# A key of PostgreSQL's advisory locks, as in database.py.
ATTEMPT_LOCK = 0x57EE_1A4D_0004
MOST = 10
WINDOW_SECONDS = 300.0
MEMORY_SECONDS = 3600.0
LONGEST_PAUSE = 300.0
UNKNOWN_NAMES = 100


@dataclass(frozen=True, slots=True)
class Try:
    """Whether somebody may try now.

    Attributes:
        id: the place that was taken, None where there was none.
        wait: seconds until there is one.
    """

    id: int | None
    wait: float = 0.0


class Tries:
    """Tries to sign in with a password."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def take(
        self,
        name_hash: str,
        address: str,
        *,
        known: bool,
        device: str | None = None,
        now: float | None = None,
    ) -> Try:
        """Take a place for one try.

        Args:
            name_hash: of the name, keyed: people type passwords there by mistake.
            address: where it comes from.
            known: whether somebody has the name.
            device: a device that signed in with this name before, or None.
            now: the time.
        """
        with self._db.writing() as connection:
            self._db.lock(connection, ATTEMPT_LOCK)
            at = self._db.clock(connection, now)
            connection.execute(sa.delete(attempts).where(attempts.c.at <= at - MEMORY_SECONDS))
            wait, counted_as = _wait(connection, at, name_hash, address, device)
            if wait > 0:
                return Try(None, wait)
            values = {
                "at": at,
                "name_hash": name_hash,
                "address": address,
                "device": counted_as,
                "known": known,
            }
            insert = sa.insert(attempts).values(values).returning(attempts.c.id)
            return Try(int(connection.execute(insert).scalar_one()))

    def give_back(self, id: int) -> None:
        """Forget a try that did not happen: the server was too busy to check the password."""
        with self._db.writing() as connection:
            connection.execute(sa.delete(attempts).where(attempts.c.id == id))

    def forgive(self, name_hash: str, address: str, device: str | None = None) -> None:
        """Somebody signed in: forget their own slips, from this address or device; others' stay counted."""
        mine = attempts.c.address == address
        if device is not None:
            mine = sa.or_(mine, attempts.c.device == device)
        with self._db.writing() as connection:
            connection.execute(sa.delete(attempts).where(attempts.c.name_hash == name_hash, mine))


def _wait(
    connection: Connection, at: float, name_hash: str, address: str, device: str | None
) -> tuple[float, str | None]:
    """Seconds to wait, and the device that the try counts for."""
    query = sa.select(attempts.c.at, attempts.c.address, attempts.c.device).where(
        attempts.c.name_hash == name_hash
    )
    rows = connection.execute(query.order_by(attempts.c.at)).all()
    recent = at - WINDOW_SECONDS
    if device is not None and sum(row.device == device and row.at > recent for row in rows) < MOST:
        return 0.0, device
    # A device that guesses is from now on a device like any other.
    strangers = [row for row in rows if row.device is None]
    waits = [0.0]
    from_here = [row.at for row in strangers if row.address == address and row.at > recent]
    if len(from_here) >= MOST:
        waits.append(from_here[-MOST] + WINDOW_SECONDS - at)
    if len(strangers) >= MOST:
        pause = min(2.0 ** (len(strangers) - MOST), LONGEST_PAUSE)
        waits.append(strangers[-1].at + pause - at)
    unknown = (
        sa.select(attempts.c.name_hash, sa.func.max(attempts.c.at).label("last"))
        .where(attempts.c.address == address, sa.not_(attempts.c.known), attempts.c.at > recent)
        .group_by(attempts.c.name_hash)
        .order_by(sa.text("last"))
    )
    names = connection.execute(unknown).all()
    if len(names) >= UNKNOWN_NAMES:
        waits.append(names[-UNKNOWN_NAMES].last + WINDOW_SECONDS - at)
    return max(waits), None
