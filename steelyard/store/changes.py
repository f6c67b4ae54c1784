"""Changes that are made once, however often they are sent: each has an id that the client made.

A reply may be lost after the commit. Whoever sends the same change again must find it made, not make it twice – and
must not undo what somebody else did in between. So the id is written in the transaction that makes the change.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError
from steelyard.store.schema import changes

__all__ = ["ChangeTable", "claim"]


def claim(
    database: Database, connection: Connection, change: str | None, actor: str, what: str, at: float
) -> bool:
    """Whether a change is still to be made; from now on it is not.

    Args:
        database: open.
        connection: of the transaction that makes the change.
        change: its id; None is always to be made.
        actor: who makes it.
        what: what it is, so that an id used for something else is noticed.
        at: when.

    Raises:
        ConflictError: the id was used for another change.
    """
    if change is None:
        return True
    values = {"id": fields.client_id(change), "actor": actor, "what": what, "at": at}
    # PostgreSQL waits here for a transaction that has just written the same id, and then finds it.
    insert = database._insert(changes).values(values).on_conflict_do_nothing().returning(changes.c.id)
    if connection.execute(insert).first() is not None:
        return True
    _check(connection, change, actor, what)
    return False


def _check(connection: Connection, change: str, actor: str, what: str) -> bool:
    found = connection.execute(
        sa.select(changes.c.actor, changes.c.what).where(changes.c.id == change)
    ).one_or_none()
    if found is not None and (found.actor != actor or found.what != what):
        raise ConflictError(f"the id {change} was used for another change; make a new id for a new change")
    return found is not None


class ChangeTable(Database):
    """Methods about changes that happen outside the database: files, the configuration."""

    def changed(self, change: str | None, actor: str, what: str) -> bool:
        """Whether a change was made already.

        Raises:
            ConflictError: the id was used for another change.
        """
        if change is None:
            return False
        with self._reading() as connection:
            return _check(connection, fields.client_id(change), actor, what)
