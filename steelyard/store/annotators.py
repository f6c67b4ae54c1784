"""Annotators inside a running transaction: finding, adding and logging them out."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import UnknownRecordError
from steelyard.store.records import Annotator
from steelyard.store.schema import annotators, api_tokens, sessions

__all__ = ["end_access", "ensure_annotators", "known_annotator"]


def ensure_annotators(
    connection: Connection, database: Database, names: Iterable[str], at: float, *, active: bool = True
) -> None:
    """Add the names that are new, without any way to log in.

    Args:
        connection: of the transaction.
        database: whose.
        names: whoever is there already stays as they are.
        at: since when.
        active: False for names that a file brings: where a name is enough to come in (a proxy's, a session of another study),
            no import opens the door.
    """
    for chunk in fields.chunks(sorted(names)):
        known = set(connection.execute(_KNOWN, {"names": chunk}).scalars())
        for name in chunk:
            if name not in known:
                values = {"name": name, "created": at, "role": "annotator", "active": active}
                connection.execute(database.insert(annotators).values(values).on_conflict_do_nothing())


def end_access(connection: Connection, name: str, at: float, *, keep: str | None = None) -> None:
    """End somebody's sessions (but one) and tokens."""
    others = sa.delete(sessions).where(sessions.c.annotator == name)
    connection.execute(others if keep is None else others.where(sessions.c.token_hash != keep))
    valid = (api_tokens.c.annotator == name, api_tokens.c.revoked.is_(None))
    connection.execute(sa.update(api_tokens).where(*valid).values(revoked=at))


def known_annotator(connection: Connection, name: str) -> Annotator:
    """Somebody by name, in a running transaction.

    Raises:
        UnknownRecordError: nobody has this name.
    """
    row = connection.execute(sa.select(annotators).where(annotators.c.name == name)).mappings().one_or_none()
    if row is None:
        raise UnknownRecordError(f"there is no annotator {name!r}")
    return Annotator(**row)


_KNOWN = sa.select(annotators.c.name).where(annotators.c.name.in_(sa.bindparam("names", expanding=True)))
