"""Changes that are made once, however often they are sent: each has an id that the client made.

A reply may be lost after the commit. Whoever sends the same change again must find it made, not make it twice – and
must not undo what somebody else did in between. So the id is written in the transaction that makes the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError
from steelyard.store.schema import changes

__all__ = ["Change", "change", "change_made"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change as its client names it.

    Attributes:
        first: whether it is to be made now; False when it was made before and only the reply is wanted.
        at: when it was made.
    """

    first: bool
    at: float


@contextmanager
def change(database: Database, id: str | None, actor: str, what: str, now: float | None) -> Iterator[Change]:
    """See `Store.change`."""
    with database.together() as connection:
        at = database.clock(connection, now)
        if id is None or _claim(database, connection, id, actor, what, at):
            yield Change(True, at)
        else:
            yield Change(False, _made(connection, id, actor, what) or at)


def change_made(database: Database, id: str | None, actor: str, what: str) -> float | None:
    """See `Store.change_made`."""
    if id is None:
        return None
    with database.reading() as connection:
        return _made(connection, fields.client_id(id), actor, what)


def _claim(database: Database, connection: Connection, id: str, actor: str, what: str, at: float) -> bool:
    """Write the id of a change, unless it is there."""
    values = {
        "id": fields.client_id(id),
        "actor": fields.name(actor),
        "what": fields.text(what, "a change"),
        "at": at,
    }
    # PostgreSQL waits here for a transaction that has just written the same id, and then finds it.
    insert = database.insert(changes).values(values).on_conflict_do_nothing().returning(changes.c.id)
    return connection.execute(insert).first() is not None


def _made(connection: Connection, id: str, actor: str, what: str) -> float | None:
    found = connection.execute(sa.select(changes).where(changes.c.id == id)).one_or_none()
    if found is None:
        return None
    if (found.actor, found.what) != (actor, what):
        raise ConflictError(f"the id {id} was used for another change; make a new id for a new change")
    return float(found.at)
