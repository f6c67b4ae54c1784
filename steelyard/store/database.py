"""The connection: transactions that commit, roll back and wrap errors, the same for SQLite and PostgreSQL.

Rules that keep concurrent processes right:

- SQLite has one writer at a time (BEGIN IMMEDIATE); what follows concerns PostgreSQL.
- Whoever changes the leases or the answers of a pair holds that pair's row lock and looks again after getting it.
- Locks are taken in the order annotator → image → pair (ascending ids) → log, so nobody waits in a circle.
- Rows of a log get their number under one lock that lasts until the commit. A reader who has seen number 7 will
  therefore never meet a 6 that was committed later: "newer than 7" misses nothing.
"""

from __future__ import annotations

import math
import os
import selectors
import shutil
import sqlite3
import threading
import time as clock
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from steelyard.environment import read_secret
from steelyard.errors import ConfigError, MissingExtraError
from steelyard.store import fields
from steelyard.store.errors import BusyError, StoreError, UnavailableError
from steelyard.store.faults import translated
from steelyard.store.place import LOG_LOCK, read_offset, schema_of, stay_in_schema

__all__ = [
    "BUSY_SECONDS",
    "MIGRATION_LOCK",
    "Database",
    "make_engine",
    "read_url",
    "wrapped_errors",
]

BUSY_SECONDS = 30
"""How long a writer waits for the one before it."""

LEAST_FREE = 1 << 20
"""Bytes that must be free next to a SQLite file for it to count as writable."""

CONNECT_SECONDS = 10
"""How long PostgreSQL may take to answer a new connection."""

RESTED_SECONDS = 1.0
"""A pooled connection that was idle for longer is tested before it is used."""

CLOCK_SECONDS = 60.0
"""How often the server's clock is read."""

# Keys of PostgreSQL's advisory locks; any numbers will do as long as they stay the same. place.py has that of the logs.
# Migrations take turns in the whole database; the others are each study's own (`Database.lock`).
MIGRATION_LOCK = 0x57EE_1A4D_0001
IMAGES_LOCK = 0x57EE_1A4D_0003


def read_url(url: str) -> URL:
    """The parsed URL of a store.

    Raises:
        StoreError: it is none, or names neither a SQLite file nor PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            "the store's URL cannot be read; it looks like sqlite:///folder/study.db "
            "or postgresql+psycopg://user:password@host/database"
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        if parsed.database in (None, "", ":memory:") or str(parsed.database).startswith("file:"):
            raise StoreError(
                "answers must be kept; name a file, as in sqlite:///folder/study.db", place=str(parsed)
            )
        return parsed
    if parsed.drivername != "postgresql+psycopg":
        raise StoreError(
            f"a store is sqlite:///… or postgresql+psycopg://…, not {parsed.drivername}://…",
            said=parsed.render_as_string(hide_password=True),
        )
    if "@" in (parsed.host or "") or ("@" in (parsed.database or "") and "%40" not in url):
        # What is behind the first @ would be taken for a host, and a part of the password be told to everybody.
        raise StoreError(
            "a password with @ in it is written %40 in the store's URL; or give it by file (docs/operations.md)"
        )
    if isinstance(password := parsed.query.get("password"), str):  # where nothing would hide it
        parsed = parsed.difference_update_query(["password"]).set(password=password)
    schema_of(parsed)
    return parsed


def make_engine(url: URL) -> Engine:
    """An engine whose connections are durable and safe.

    Raises:
        MissingExtraError: PostgreSQL's driver is not installed.
    """
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(
            url, pool_size=10, max_overflow=40, hide_parameters=True,
            # Lists of ids make many different statements, and each that is kept takes some 10 KB.
            connect_args={"timeout": BUSY_SECONDS, "cached_statements": 32},
        )  # fmt: skip
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        # A host that is switched off does not refuse, it is silent; everybody would wait for the system's two minutes.
        patience = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS}
        engine = sa.create_engine(
            url, pool_size=10, max_overflow=40, pool_use_lifo=True, isolation_level="READ COMMITTED",
            hide_parameters=True, connect_args=patience,
        )  # fmt: skip
    except ModuleNotFoundError:
        raise MissingExtraError("a store on PostgreSQL", "postgres") from None
    sa.event.listen(engine, "do_connect", _bring_password)
    stay_in_schema(engine)
    sa.event.listen(engine, "connect", _set_up_postgresql)
    sa.event.listen(engine, "checkin", _rest)
    sa.event.listen(engine, "checkout", partial(_wake, engine))
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        # Many processes may open a new file at once; the change of mode does not wait for the lock by itself.
        for attempt in range(100):
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == 99:
                    raise
                clock.sleep(0.05)
    connection.execute("PRAGMA synchronous = FULL")  # an acknowledged answer survives a power cut
    connection.execute("PRAGMA foreign_keys = ON")
    # Bringing the log into the file takes as long as ten answers, and the answer that fills the log would pay for it; a
    # server does it aside (`checkpoint`), and the last one to leave does it in any case.
    connection.execute("PRAGMA wal_autocheckpoint = 10000")


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _bring_password(_: object, __: object, ___: object, options: dict[str, Any]) -> None:
    """Give a new connection the password that its URL does not hold; read each time, so that it may change."""
    try:
        if "password" not in options and (password := read_secret("STEELYARD_STORE_PASSWORD")):
            options["password"] = password
    except ConfigError as error:  # a server that runs waits for it to come back, as for the database itself
        raise UnavailableError("the password of the database cannot be read", said=str(error)) from None


def _set_up_postgresql(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        # Servers can be set to acknowledge before the disk has it; answers are worth the wait.
        cursor.execute("SET synchronous_commit = on")
        cursor.execute(f"SET lock_timeout = '{BUSY_SECONDS}s'")
    connection.commit()


def _rest(_: object, record: ConnectionPoolEntry) -> None:
    record.info["rests since"] = clock.monotonic()


def _wake(engine: Engine, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
    """Test a pooled connection: the server may have been restarted meanwhile.

    Asking costs a round trip. A server that went said so on the wire, where it can be seen without asking; only a
    connection that has rested may have lost its server without a word.
    """
    since = record.info.get("rests since")
    if since is None or (clock.monotonic() - since < RESTED_SECONDS and not _spoken_to(connection)):
        return
    try:
        engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError() from error  # this one and all that are as old are made anew


def _spoken_to(connection: Any) -> bool:
    """Whether there is something to read that nobody asked for: the server says goodbye, or has hung up."""
    if connection.closed:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(timeout=0))


class Database:
    """An open database, shared by the facets of a store."""

    def __init__(self, engine: Engine) -> None:
        self.url = engine.url.render_as_string(hide_password=True)
        self.engine = engine
        self.sqlite = engine.dialect.name == "sqlite"
        self._offset: int | None = None  # of our locks
        self._pid = os.getpid()
        # Threads queue here: a writer that SQLite itself makes wait sleeps for longer and longer and may be overtaken.
        self._writer = threading.Lock()
        # The transaction that this thread's calls belong to, if `_together` began one.
        self._running = threading.local()
        self._ahead, self._asked = 0.0, -math.inf  # the server's clock against ours, and when it was asked
        self.breaks = 0
        sa.event.listen(engine, "invalidate", self._broken)

    def _broken(self, *_: object) -> None:
        """A connection broke: `breaks` counts them, for those who remember what a database said.

        Another server may have taken over, which had not heard of the last commits and will give their numbers again.
        """
        self.breaks += 1

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._transaction(writing=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._transaction(writing=True) as connection:
            yield connection

    def blocks(
        self, query: sa.Select[Any], values: dict[str, Any], rows: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """A long result as `columns` gives it, so many rows at a time: one look at the database in the memory of a block."""
        with self._transaction(writing=False, lasting=True) as connection:
            if not self.sqlite:  # which plans a cursor for its first rows; all of them will be read
                connection.execute(sa.text("SET LOCAL cursor_tuple_fraction = 1"))
            result = connection.execute(query.execution_options(stream_results=True), values)
            while part := result.fetchmany(rows):
                yield list(zip(*part, strict=True))

    @contextmanager
    def calling(self) -> Iterator[Connection]:
        """For PostgreSQL's functions: a statement is a transaction of its own, one round trip with its commit."""
        with self._transaction(writing=False) as connection:
            yield connection

    @contextmanager
    def together(self) -> Iterator[Connection]:
        """One transaction for all calls of this thread inside it: they are kept together or not at all."""
        with self.writing() as connection:
            self._running.connection = connection
            try:
                yield connection
            finally:
                self._running.connection = None

    @property
    def settled(self) -> bool:
        """Whether what a call has just read or written is committed, and may be remembered."""
        return getattr(self._running, "connection", None) is None

    @contextmanager
    def _transaction(self, *, writing: bool, lasting: bool = False) -> Iterator[Connection]:
        if (running := getattr(self._running, "connection", None)) is not None:
            with wrapped_errors(self.engine):
                yield running
            return
        if self._pid != os.getpid():
            # A connection must not be used on both sides of a fork; the child starts with none.
            self.engine.dispose(close=False)
            self._pid, self._writer = os.getpid(), threading.Lock()
        with ExitStack() as stack:
            stack.enter_context(wrapped_errors(self.engine))
            if writing and self.sqlite:
                if not self._writer.acquire(timeout=BUSY_SECONDS):
                    raise BusyError(
                        "too many requests at once; nothing was written, try again", place=self.url
                    )
                stack.callback(self._writer.release)
            connection = stack.enter_context(self.engine.connect())
            if writing or self.sqlite:
                connection.execution_options(writing=writing)
            elif not lasting:  # a result that is read in blocks lasts as long as its transaction
                # Each statement sees what is committed then, in a transaction or not; without, BEGIN and COMMIT are
                # two round trips less.
                connection.execution_options(isolation_level="AUTOCOMMIT")
            stack.enter_context(connection.begin())
            yield connection

    def probe(self) -> None:
        """See `Store.probe`."""
        with self.reading() as connection:
            connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
            if not self.sqlite and connection.execute(sa.text("SELECT pg_is_in_recovery()")).scalar_one():
                raise UnavailableError("the database is a read-only standby", place=self.url)
        if self.sqlite:
            with self.writing():
                pass  # the lock for writing could be had
            if shutil.disk_usage(Path(str(self.engine.url.database)).parent).free < LEAST_FREE:
                raise UnavailableError("the disk of the database is full", place=self.url)

    def checkpoint(self) -> None:
        """See `Store.checkpoint`."""
        if not self.sqlite:
            return
        with wrapped_errors(self.engine):
            connection = self.engine.raw_connection()  # not in a transaction
            try:
                connection.driver_connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # type: ignore[union-attr]
            finally:
                connection.close()

    def clock(self, connection: Connection, now: float | None) -> float:
        """The given time, or that of the database's machine: several machines then share one clock.

        It is asked once a minute; in between our own goes on from there, which saves every request a round trip.
        """
        if now is not None:
            return fields.time(now, "now") or 0.0
        if self.sqlite:
            return clock.time()
        if clock.monotonic() - self._asked > CLOCK_SECONDS:
            told = float(connection.execute(_NOW).scalar_one())
            self._ahead, self._asked = told - clock.time(), clock.monotonic()
        return clock.time() + self._ahead

    def lock_log(self, connection: Connection) -> None:
        """Keep numbers of the logs in the order of commits; call it last, just before inserting."""
        self.lock(connection, LOG_LOCK)

    def lock_images(self, connection: Connection) -> None:
        """Let one at a time give rows to new images; call it before anything else is locked."""
        self.lock(connection, IMAGES_LOCK)

    def lock(self, connection: Connection, key: int) -> None:
        """Take one of this study's locks by number until the commit; SQLite has one writer at a time and needs none."""
        if self.sqlite:
            return
        if self._offset is None:
            self._offset = read_offset(connection)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key ^ self._offset)))

    def columns(self, connection: Connection, query: sa.Select[Any], values: dict[str, Any]) -> list[Any]:
        """The result as one tuple per column, bypassing SQLAlchemy's rows: for arrays of a hundred thousand entries."""
        result = connection.execute(query, values)
        names = len(result.keys())
        rows = result.cursor.fetchall() if result.cursor is not None else []
        result.close()
        return list(zip(*rows, strict=True)) if rows else [()] * names

    def filled(self, connection: Connection, table: sa.Table, n: int) -> None:
        """Have PostgreSQL analyse a table after a bulk insert; autovacuum may be a minute away."""
        if n >= 10_000 and not self.sqlite:
            connection.execute(sa.text(f"ANALYZE {table.name}"))

    def insert(self, table: sa.Table) -> Any:
        """An INSERT that knows ON CONFLICT."""
        return sqlite.insert(table) if self.sqlite else postgresql.insert(table)


_NOW = sa.text("SELECT extract(epoch FROM clock_timestamp())")


@contextmanager
def wrapped_errors(engine: Engine) -> Iterator[None]:
    """Turn what a driver raises into a StoreError that names the store, without its password."""
    try:
        yield
    except StoreError:
        raise
    except (
        SQLAlchemyError,
        engine.dialect.loaded_dbapi.Error,
        OverflowError,
        UnicodeError,
        OSError,
    ) as error:
        raise translated(engine.url.render_as_string(hide_password=True), error) from error
