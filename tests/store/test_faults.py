"""Every error of a driver is yours, try again or broken – and what nobody foresaw is never yours."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from steelyard.store.errors import (
    BusyError,
    ConflictError,
    DamagedError,
    StoreError,
    UnavailableError,
)
from steelyard.store.faults import translated
from steelyard.store.records import NewImage
from steelyard.store.store import Store

PLACE = "postgresql+psycopg://kt:***@db.hospital.example/study"

# One code of every class of PostgreSQL's appendix A, and every code that is decided apart from its class.
SQLSTATES = {
    StoreError: ["22001", "22003", "22021", "22P02", "22P05"],
    ConflictError: ["23502", "23503", "23505", "23514"],
    BusyError: ["40001", "40P01", "55006", "55P03", "57014"],
    UnavailableError: [
        "08000", "08001", "08003", "08006", "25006", "25P03", "28000", "28P01", "3D000", "53000", "53100", "53200",
        "53300", "57P01", "57P02", "57P03", "57P05", "58000", "58030",
    ],
    DamagedError: [
        "03000", "09000", "0A000", "0B000", "0F000", "0L000", "0P000", "0Z000", "20000", "21000", "24000", "25000",
        "25P02", "26000", "27000", "2B000", "2D000", "2F000", "34000", "38000", "39000", "3B000", "3F000", "42501",
        "42601", "42P01", "44000", "54000", "55000", "72000", "F0000", "HV000", "P0001", "XX000", "XX001", "XX002",
        "ZZ999",
    ],
}  # fmt: skip

SQLITE = {
    StoreError: ["TOOBIG", "MISMATCH"],
    ConflictError: ["CONSTRAINT"],
    BusyError: ["BUSY", "LOCKED", "INTERRUPT", "PROTOCOL"],
    UnavailableError: ["PERM", "NOMEM", "READONLY", "IOERR", "FULL", "CANTOPEN", "NOLFS"],
    DamagedError: [
        "ERROR", "INTERNAL", "ABORT", "CORRUPT", "NOTFOUND", "EMPTY", "SCHEMA", "MISUSE", "AUTH", "FORMAT", "RANGE",
        "NOTADB",
    ],
}  # fmt: skip


def from_postgres(state: str) -> DBAPIError:
    original = psycopg.errors.lookup(state)("kt at 10.0.0.7, /var/run/postgresql/.s.PGSQL.5432") if _known(state) else _odd()  # fmt: skip
    return DBAPIError("SELECT 1", {}, original)


def _known(state: str) -> bool:
    try:
        psycopg.errors.lookup(state)
    except KeyError:
        return False
    return True


def _odd() -> psycopg.Error:
    error = psycopg.DatabaseError("an SQLSTATE that nobody has seen yet")
    error.sqlstate = "ZZ999"
    return error


@pytest.mark.parametrize(
    ("kind", "state"), [(kind, state) for kind, states in SQLSTATES.items() for state in states]
)
def test_every_class_of_postgresql(kind: type[StoreError], state: str) -> None:
    assert type(translated(PLACE, from_postgres(state))) is kind


def test_all_codes_that_the_driver_knows_are_decided() -> None:
    """Only what is about values and constraints is the caller's; 5 of 6 answers were thrown away for less."""
    codes = {
        found.sqlstate
        for found in vars(psycopg.errors).values()
        if isinstance(found, type) and issubclass(found, psycopg.Error) and found.sqlstate
    }
    assert len(codes) > 200
    for code in codes:
        error = translated(PLACE, from_postgres(code))
        yours = not isinstance(error, (UnavailableError, DamagedError))
        assert yours == (code[:2] in ("22", "23")), code


def sqlite_error(name: str, *, code: bool = True) -> sqlite3.Error:
    """As SQLite raises it: extended codes carry the kind in their low byte."""
    words = {"BUSY": "database is locked", "LOCKED": "database table is locked", "FULL": "database or disk is full",
             "IOERR": "disk I/O error", "CANTOPEN": "unable to open database file", "NOMEM": "out of memory",
             "READONLY": "attempt to write a readonly database", "CORRUPT": "database disk image is malformed",
             "NOTADB": "file is not a database", "TOOBIG": "string or blob too big", "PROTOCOL": "locking protocol",
             "CONSTRAINT": "UNIQUE constraint failed: x.y", "MISMATCH": "datatype mismatch", "INTERRUPT": "interrupted",
             "NOLFS": "large file support is disabled"}  # fmt: skip
    error = sqlite3.OperationalError(words.get(name, "something in /srv/study.db"))
    if code:
        error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}") | 0x0300
    return error


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SQLITE.items() for name in names])
def test_every_code_of_sqlite(kind: type[StoreError], name: str) -> None:
    assert type(translated("sqlite:////srv/study.db", DBAPIError("x", {}, sqlite_error(name)))) is kind
    assert type(translated("sqlite:////srv/study.db", sqlite_error(name))) is kind


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in SQLITE.items() for name in names if name not in ("PERM",)],
)
def test_python_310_tells_no_code_and_the_words_do(kind: type[StoreError], name: str) -> None:
    assert type(translated("", sqlite_error(name, code=False))) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.OperationalError("connection refused"), UnavailableError),
        (psycopg.InterfaceError("the connection is closed"), UnavailableError),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL"), StoreError),
        (psycopg.ProgrammingError("cannot adapt type"), DamagedError),
        (psycopg.InternalError("?"), DamagedError),
        (PoolTimeout("QueuePool limit"), BusyError),
        (OverflowError("Python int too large"), StoreError),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), StoreError),
        (OSError(28, "No space left on device"), UnavailableError),
        (sa.exc.StatementError("m", "s", {}, None), DamagedError),
        (sa.exc.ResourceClosedError("closed"), DamagedError),
    ],
)
def test_errors_without_a_code(error: Exception, kind: type[StoreError]) -> None:
    assert type(translated(PLACE, error)) is kind


def test_a_connection_that_broke_is_tried_again_whatever_the_driver_calls_it() -> None:
    lost = DBAPIError("x", {}, psycopg.ProgrammingError("?"), connection_invalidated=True)
    assert type(translated(PLACE, lost)) is UnavailableError


@pytest.mark.parametrize("state", [state for states in SQLSTATES.values() for state in states])
def test_what_is_told_to_others_names_no_place(state: str) -> None:
    error = translated(PLACE, from_postgres(state))
    assert str(error).startswith(PLACE), "whoever runs the server reads where it is"
    assert error.public
    for secret in ("kt", "10.0.0.7", "hospital", "/var/run", "5432", "postgresql"):
        assert secret not in error.public
    again = pickle.loads(pickle.dumps(error))  # errors cross process borders
    assert (type(again), str(again), again.public) == (type(error), str(error), error.public)


def test_a_real_postgresql_that_is_not_there() -> None:
    with pytest.raises(UnavailableError) as caught:
        Store.open("postgresql://kt:secret@127.0.0.1:1/study?connect_timeout=2")
    assert "127.0.0.1" not in (caught.value.public or "")


def run(connection: sa.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(sa.text(statement))


@pytest.mark.postgres
def test_a_real_postgresql_that_closes_the_line_takes_no_blame_to_the_client(postgres_url: str) -> None:
    with Store.open(postgres_url) as store:
        with pytest.raises(UnavailableError), store.database.writing() as connection:
            connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
        with pytest.raises(UnavailableError), store.database.writing() as connection:
            run(connection, "SET TRANSACTION READ ONLY", "DELETE FROM images")
        with pytest.raises(BusyError), store.database.writing() as connection:
            run(connection, "SET LOCAL statement_timeout = 20", "SELECT pg_sleep(2)")
        with pytest.raises(DamagedError), store.database.writing() as connection:
            connection.execute(sa.text("SELECT nonsense"))
        store.settings.keep("x", 1)
        assert store.settings.get("x") == 1


def test_a_real_sqlite_without_room_writes_nothing_and_goes_on(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/study.db") as store:

        def cramped(connection: Any) -> None:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")

        sa.event.listen(store.database.engine, "begin", cramped)
        with pytest.raises(UnavailableError, match="disk of the database is full"):
            store.images.add_all([NewImage(k, f"{k:032x}", "x" * 500) for k in range(500)])
        sa.event.remove(store.database.engine, "begin", cramped)
        store.database.engine.dispose()
        assert len(store.images.all()) == 0
        store.images.add_all([NewImage(0, f"{0:032x}", "x")])
        assert store.check() == []


def test_a_real_sqlite_in_a_folder_that_went_away(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    with Store.open(f"sqlite:///{folder}/study.db") as store:
        store.database.engine.dispose()
        folder.rename(tmp_path / "elsewhere")  # as a disk that is no longer mounted
        with pytest.raises(UnavailableError, match="cannot be opened"):
            store.settings.keep("x", 1)
        (tmp_path / "elsewhere").rename(folder)
        store.settings.keep("x", 1)
