"""Triggers that keep a log append-only, whoever holds the connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op

__all__ = ["append_only", "changeable"]


def append_only(table: str, *unique: str) -> None:
    """Make the database refuse to change or remove rows of a log.

    Args:
        table: the log; its key is `seq`.
        unique: its other unique columns; SQLite's INSERT OR REPLACE removes the rows that stand in its way without
            asking the DELETE trigger, so the conflict has to be refused before.
    """
    message = f"{table} is append-only"
    if op.get_bind().dialect.name == "sqlite":
        conflict = " OR ".join(f"{column} = NEW.{column}" for column in ("seq", *unique))
        for event, when in (
            ("UPDATE", ""),
            ("DELETE", ""),
            ("INSERT", f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {conflict})"),
        ):
            op.execute(
                f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} {when} "
                f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = 'restrict_violation'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_append_only()"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"
    )


@contextmanager
def changeable(table: str) -> Iterator[None]:
    """Let a migration fill a new column of a log; nobody else can, the transaction holds the table."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        op.execute(f"ALTER TABLE {table} DISABLE TRIGGER {table}_no_change")
        yield
        op.execute(f"ALTER TABLE {table} ENABLE TRIGGER {table}_no_change")
        return
    name = f"{table}_no_update"
    made = connection.execute(sa.text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": name})
    statement = made.scalar_one()
    op.execute(f"DROP TRIGGER {name}")
    yield
    op.execute(statement)
