"""The rows of a study, independent of the database: what is copied from SQLite to PostgreSQL and back.

A portable dump is a file of JSON lines. The first names the schema revision; then each table names itself and its
columns and is followed by its rows, in the order of their keys; the last line counts. Columns are read from the
database and not from `schema.py`, so that a study of an older revision is dumped as it is, and is made again by the
migrations up to that revision.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store.errors import StoreError

__all__ = [
    "LEFT_OUT",
    "TableRows",
    "fill_store",
    "read_dump",
    "stored_revision",
    "table_names",
    "table_rows",
    "write_dump",
]

LEFT_OUT = frozenset({"sessions", "attempts", "handshakes"})
"""Tables that no backup holds: whoever has a copy should not be signed in with it, nor know who tried to."""

FORMAT = 1
_CHUNK = 5_000
_LONGEST_LINE = 64 * 2**20  # a hostile dump must not fill the memory with one line


@dataclass(frozen=True)
class TableRows:
    """A table on its way from one database to another.

    Attributes:
        name: of the table.
        columns: their names.
        rows: one list of values a row: numbers, texts, booleans, None and bytes; JSON is kept as the text it is.
    """

    name: str
    columns: list[str]
    rows: Iterable[list[Any]] = field(repr=False)


def stored_revision(connection: Connection) -> str | None:
    """The schema revision written in a database; None where there is none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def table_names(connection: Connection) -> list[str]:
    """The tables of a study, without the one that holds the revision."""
    return sorted(set(sa.inspect(connection).get_table_names()) - {"alembic_version"})


def table_rows(connection: Connection) -> Iterator[TableRows]:
    """Every table of a study, referenced tables first. The connection must see one snapshot throughout."""
    for table in _tables(connection):
        if table.name in LEFT_OUT:
            continue
        # JSON as its text: not a digit of it changes on the way, as the hash chain demands.
        columns = [
            sa.cast(column, sa.Text).label(column.name) if isinstance(column.type, sa.JSON) else column
            for column in table.columns
        ]
        query = sa.select(*columns).order_by(*table.primary_key.columns)
        result = connection.execution_options(stream_results=True).execute(query)
        yield TableRows(
            table.name,
            [column.name for column in table.columns],
            (list(row) for row in result.yield_per(_CHUNK)),
        )


def write_dump(connection: Connection, file: IO[bytes]) -> dict[str, int]:
    """Write a portable dump; returns how many rows each table has."""
    counts: dict[str, int] = {}
    _write(file, {"steelyard": "dump", "format": FORMAT, "revision": stored_revision(connection)})
    for table in table_rows(connection):
        _write(file, {"table": table.name, "columns": table.columns})
        counts[table.name] = 0
        for row in table.rows:
            _write(file, [_as_json(value) for value in row])
            counts[table.name] += 1
    _write(file, {"end": counts})
    return counts


def read_dump(file: IO[bytes]) -> tuple[str, Iterator[TableRows]]:
    """The revision of a portable dump, and its tables, read as they are taken.

    Raises:
        StoreError: it is no dump, has a newer format, or ends too early.
    """
    head = _line(file)
    if not isinstance(head, dict) or head.get("steelyard") != "dump":
        raise StoreError("this is no portable dump of a study")
    if head.get("format") != FORMAT:
        raise StoreError(
            f"the dump has format {head.get('format')}, and this Steelyard reads format {FORMAT}; upgrade Steelyard"
        )
    return str(head["revision"]), _read_tables(file)


def _read_tables(file: IO[bytes]) -> Iterator[TableRows]:
    counts: dict[str, int] = {}
    line = _line(file)
    while isinstance(line, dict) and "table" in line:
        name, columns = str(line["table"]), [str(column) for column in line["columns"]]
        counts[name] = 0
        following: list[Any] = []

        def rows(
            name: str = name, width: int = len(columns), following: list[Any] = following
        ) -> Iterator[list[Any]]:
            while isinstance(row := _line(file), list):
                if len(row) != width:
                    raise StoreError(
                        f"row {counts[name]} of {name} in the dump has {len(row)} values, not {width}"
                    )
                counts[name] += 1
                yield [_from_json(value) for value in row]
            following.append(row)

        yield TableRows(name, columns, rows())
        line = following[0] if following else None
    if line != {"end": counts}:
        raise StoreError("the dump is not whole: its last line does not count its rows; take another backup")


def fill_store(connection: Connection, tables: Iterable[TableRows]) -> dict[str, int]:
    """Put rows into the empty tables of the same revision, in the transaction of the connection.

    Raises:
        StoreError: a table or column is unknown here.
    """
    known = {table.name: table for table in _tables(connection)}
    for name in reversed(known):  # a migration may have put something there, like a secret of the study
        connection.execute(sa.delete(known[name]))
    counts: dict[str, int] = {}
    for given in tables:
        table = known.get(given.name)
        if table is None or given.name in LEFT_OUT or set(given.columns) - set(table.columns.keys()):
            raise StoreError(
                f"the backup has a table {given.name!r} with columns {', '.join(given.columns)}, which its revision does not have"
            )
        counts[given.name] = _insert(connection, table, given)
    return counts


def _insert(connection: Connection, table: sa.Table, given: TableRows) -> int:
    names = ", ".join(f'"{name}"' for name in given.columns)
    count = 0
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" for _ in given.columns)
        for chunk in _chunks(given.rows):
            connection.exec_driver_sql(
                f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', [tuple(row) for row in chunk]
            )
            count += len(chunk)
        return count
    cursor = connection.connection.cursor()
    with cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
        for row in given.rows:
            copy.write_row(row)
            count += 1
    cursor.close()
    for column in table.primary_key.columns:
        if column.identity is not None:  # or the next row would get a number that is taken
            connection.execute(
                sa.text(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column.name}'), greatest(max({column.name}), 1), "
                    f'max({column.name}) IS NOT NULL) FROM "{table.name}"'
                )
            )
    if count:
        connection.execute(sa.text(f'ANALYZE "{table.name}"'))
    return count


def _tables(connection: Connection) -> list[sa.Table]:
    found = sa.MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def _chunks(rows: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    chunk: list[list[Any]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _write(file: IO[bytes], value: Any) -> None:
    file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _line(file: IO[bytes]) -> Any:
    line = file.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise StoreError("the dump is not whole: it ends in the middle of a line; take another backup")
    try:
        return json.loads(line)
    except ValueError as error:
        raise StoreError(f"the dump is damaged: {error}; take another backup") from None


def _as_json(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, (bytes, memoryview)) else value


def _from_json(value: Any) -> Any:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
