"""From the copy of a store back to a store, in the same kind of database or the other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import postgres_tools
from steelyard.store.database import MIGRATION_LOCK, make_engine, read_url, wrapped_errors
from steelyard.store.dump import fill_store, read_dump, stored_revision, table_names, table_rows
from steelyard.store.errors import StoreError
from steelyard.store.opening import known_revisions, upgrade
from steelyard.store.place import make_schema, schema_of
from steelyard.store.schema import REVISION

__all__ = ["check_revision", "refill", "require_empty"]


def check_revision(revision: str) -> None:
    """Refuse what a newer version wrote.

    Raises:
        StoreError: this version does not know the revision.
    """
    if revision not in known_revisions():
        raise StoreError(
            f"the backup was written by a newer Steelyard (revision {revision}; this one knows up to {REVISION}); "
            "upgrade Steelyard – nothing was restored"
        )


def require_empty(url: str) -> None:
    """Make sure that a PostgreSQL database can be reached and holds nothing.

    Raises:
        StoreError: it holds tables.
    """
    engine = make_engine(read_url(url))
    try:
        with wrapped_errors(engine), engine.connect() as connection:
            _require_empty(connection)
    finally:
        engine.dispose()


def refill(copy: Path, url: str) -> None:
    """Make a store from its copy, all or nothing.

    Args:
        copy: `study.db`, `study.jsonl` or `study.pgdump`, as `copy_store` named it.
        url: a database with nothing in it.

    Raises:
        StoreError: the database holds something, or the copy cannot be read.
    """
    target = read_url(url)
    if copy.suffix == ".pgdump":
        if target.get_backend_name() == "sqlite":
            raise StoreError(
                "the backup was made by pg_dump and can be restored into PostgreSQL only; name an empty database with "
                "--store postgresql+psycopg://…, or make the backup with --portable to move a study to SQLite"
            )
        if schema := schema_of(target):
            raise StoreError(
                f"the backup was made by pg_dump and can be restored into a database of its own only, not into the schema {schema}; "
                "leave ?schema= out, or make the backup with --portable"
            )
        _restore_with_tool(copy, url)
        return
    engine = make_engine(target)
    try:
        with wrapped_errors(engine), engine.connect() as connection:
            connection.execution_options(writing=True)
            with connection.begin():
                if engine.dialect.name != "sqlite":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
                    make_schema(connection)
                _require_empty(connection)
                _fill(connection, copy)
    finally:
        engine.dispose()
    if target.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(target.database))) as file:
            file.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it


def _fill(connection: Connection, copy: Path) -> None:
    if copy.suffix == ".jsonl":
        with copy.open("rb") as file:
            revision, tables = read_dump(file)
            check_revision(revision)
            upgrade(connection, revision)
            fill_store(connection, tables)
        return
    source = sa.create_engine(sa.URL.create("sqlite", database=str(copy)))
    try:
        with wrapped_errors(source), source.connect() as reading, reading.begin():
            revision = stored_revision(reading) or ""
            check_revision(revision)
            upgrade(connection, revision)
            fill_store(connection, table_rows(reading))
    finally:
        source.dispose()


def _restore_with_tool(copy: Path, url: str) -> None:
    engine = make_engine(read_url(url))
    try:
        with wrapped_errors(engine), engine.connect() as connection:
            _require_empty(connection)
            server = int(connection.execute(sa.text("SHOW server_version_num")).scalar_one()) // 10_000
    finally:
        engine.dispose()
    tool = postgres_tools.tool_for("pg_restore", server)
    if tool is None:
        raise StoreError(
            f"the backup was made by pg_dump, and there is no pg_restore of PostgreSQL {server} or newer here; install "
            "PostgreSQL's client programs, or make the backup with --portable"
        )
    postgres_tools.restore(tool, read_url(url), copy)


def _require_empty(connection: Connection) -> None:
    tables = [*table_names(connection), *(["alembic_version"] if stored_revision(connection) else [])]
    if tables:
        raise StoreError(
            f"the database holds tables already ({', '.join(sorted(tables)[:3])} …); a study is restored into an empty database "
            "– make one with createdb, or name a schema of its own: …/database?schema=NAME",
            place=connection.engine.url.render_as_string(hide_password=True),
        )
