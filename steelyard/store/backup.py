"""Copies of a store that are whole, even while people answer.

SQLite is copied through its backup interface. PostgreSQL is dumped by `pg_dump` where one is installed that knows the
server and the database holds no other study, and as a portable dump (dump.py) otherwise. Either way the copy is one moment of the store.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.files import UNFINISHED, move_new, sync_file
from steelyard.store import postgres_tools
from steelyard.store.database import make_engine, read_url, wrapped_errors
from steelyard.store.dump import LEFT_OUT, stored_revision, table_names, write_dump
from steelyard.store.errors import DamagedError, StoreError
from steelyard.store.faults import translated
from steelyard.store.place import alone

_EXISTS = "a backup never overwrites; name another file than this"

__all__ = ["StoreCopy", "copy_sqlite", "copy_store"]


@dataclass(frozen=True)
class StoreCopy:
    """A copy of a store in one file.

    Attributes:
        path: `study.db` (SQLite), `study.jsonl` (portable) or `study.pgdump`.
        revision: of its schema.
        rows: how many each table has.
        heads: where each log ends: `seq`, and `hash` where the log is chained.
        models: paths of the models that were announced, oldest first.
    """

    path: Path
    revision: str
    rows: dict[str, int]
    heads: dict[str, dict[str, Any]]
    models: tuple[str, ...]


def copy_store(url: str, folder: Path, *, portable: bool = False) -> StoreCopy:
    """Copy a store as it is at this moment, whatever its revision; sessions are left out.

    Args:
        url: of the store.
        folder: where the copy goes; nobody else writes there.
        portable: a portable dump even where `pg_dump` or a SQLite file would do.

    Raises:
        StoreError: it cannot be read, is damaged or no study, or the copy cannot be written.
    """
    source = read_url(url)
    if source.get_backend_name() == "sqlite":
        file = copy_sqlite(Path(str(source.database)), folder / "study.db")
        _forget_sessions(file)
        engine = sa.create_engine(sa.URL.create("sqlite", database=str(file)))  # as it is, not in WAL mode
    else:
        engine = make_engine(source)
        file = folder / "study.jsonl"
    try:
        with wrapped_errors(engine), engine.connect() as connection:
            if engine.dialect.name != "sqlite":
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                copied = _describe(connection, file)
                if engine.dialect.name == "sqlite":
                    if portable:
                        copied = _dumped(connection, copied, folder / "study.jsonl")
                        file.unlink()
                    return copied
                server = int(connection.execute(sa.text("SHOW server_version_num")).scalar_one()) // 10_000
                # pg_dump writes a whole database, other studies too, and names schemas so that they cannot be moved.
                whole = not portable and alone(connection)
                tool = postgres_tools.tool_for("pg_dump", server) if whole else None
                if tool is None:
                    return _dumped(connection, copied, file)
                snapshot = str(connection.execute(sa.text("SELECT pg_export_snapshot()")).scalar_one())
                file = folder / "study.pgdump"
                postgres_tools.dump(tool, source, file, snapshot=snapshot, without=sorted(LEFT_OUT))
                return replace(copied, path=file)
    finally:
        engine.dispose()


def _dumped(connection: Connection, copied: StoreCopy, file: Path) -> StoreCopy:
    with file.open("xb") as writing:
        rows = write_dump(connection, writing)
    return replace(copied, path=file, rows=rows)


def _describe(connection: Connection, file: Path) -> StoreCopy:
    revision = stored_revision(connection)
    if revision is None:
        raise StoreError("the database holds no study; there is nothing to back up")
    names = [name for name in table_names(connection) if name not in LEFT_OUT]
    rows = {
        name: int(connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one())
        for name in names
    }
    models: sa.Select[Any] = (
        sa.select(sa.column("path")).select_from(sa.table("models")).order_by(sa.column("id"))
    )
    return StoreCopy(file, revision, rows, _heads(connection), tuple(connection.execute(models).scalars()))


def _heads(connection: Connection) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    inspector = sa.inspect(connection)
    for log in ("comparisons", "grades", "audit"):
        if inspector.has_table(log):
            names = {column["name"] for column in inspector.get_columns(log)} & {"seq", "hash"}
            columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in sorted(names)]
            query = sa.select(*columns).select_from(sa.table(log))
            last = connection.execute(query.order_by(sa.column("seq").desc()).limit(1)).mappings().first()
            found[log] = dict(last) if last is not None else {"seq": 0}
    return found


def _forget_sessions(file: Path) -> None:
    with closing(sqlite3.connect(file)) as copy:
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise DamagedError(
                "the database is damaged and is not backed up, as a good backup might make room for a bad one; "
                "see what is wrong with: steelyard check – and copy the whole folder before you try anything",
                said=str(found),
            )
        copy.execute("PRAGMA secure_delete = ON")  # not in a free page either
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in sorted(LEFT_OUT & tables):
            copy.execute(f'DELETE FROM "{table}"')
        copy.commit()


def copy_sqlite(file: Path, target: Path) -> Path:
    """Copy the last committed state through SQLite's backup interface.

    The copy appears under its name only when it is complete and on disk.

    Args:
        file: the database.
        target: a path that does not exist yet.

    Raises:
        StoreError: the target exists or has no folder.
        UnavailableError: it cannot be written; the disk may be full.
    """
    if target.exists():
        raise StoreError(_EXISTS, place=str(target))
    if not target.parent.is_dir():
        raise StoreError("the folder of the backup does not exist; create it first", place=str(target))
    if not file.exists():
        raise StoreError(
            "there is no such database; restore a backup with: steelyard restore", place=str(file)
        )
    unfinished = target.with_name(f"{target.name}.{os.getpid()}{UNFINISHED}")
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            closing(sqlite3.connect(file, timeout=30)) as source,
            closing(sqlite3.connect(unfinished)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
        sync_file(unfinished)
        move_new(unfinished, target)
    except FileExistsError:
        raise StoreError(_EXISTS, place=str(target)) from None
    except (sqlite3.Error, OSError) as error:
        raise translated(str(target), error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target
