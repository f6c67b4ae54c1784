"""The append-only log: one way of writing for answers about pairs and grades of images.

A row is written once. A row that `supersedes` an earlier one replaces it, or withdraws it when it says nothing
itself (undo). What counts are the rows that say something and that nothing supersedes; of those there is at most
one for each annotator and subject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import schema
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, UnknownRecordError
from steelyard.store.fields import chunks
from steelyard.store.records import Recorded

__all__ = ["COMPARISONS", "GRADES", "Log", "append", "counted"]


@dataclass(frozen=True)
class Log:
    """A log and its words.

    Attributes:
        table: with `seq`, `id`, `annotator`, `supersedes`.
        subject: column of what is judged.
        said: column of the judgement.
        silence: what `said` holds in an undo.
        content: columns that make two submissions with the same id the same.
        what: a row in words.
        about: the subject in words.
    """

    table: sa.Table
    subject: str
    said: str
    silence: str | None
    content: tuple[str, ...]
    what: str
    about: str

    def speaks(self, table: sa.FromClause) -> sa.ColumnElement[bool]:
        """Rows that are no undo."""
        return table.c[self.said].is_not(None) if self.silence is None else table.c[self.said] != self.silence


COMPARISONS = Log(
    schema.comparisons,
    "pair",
    "answer",
    schema.WITHDRAWN,
    ("pair", "annotator", "answer", "left_row", "supersedes"),
    "answer",
    "pair",
)
GRADES = Log(
    schema.grades,
    "image_row",
    "grade",
    None,
    ("image_row", "annotator", "grade", "supersedes"),
    "grade",
    "image",
)


def counted(log: Log, table: sa.FromClause, upto: int | None = None) -> sa.ColumnElement[bool]:
    """The condition that a row counts – now, or when the log ended at number `upto`."""
    later = log.table.alias("later")
    superseding = sa.select(sa.literal(1)).where(later.c.supersedes == table.c.id)
    if upto is not None:
        superseding = superseding.where(later.c.seq <= upto)
    return sa.and_(log.speaks(table), ~superseding.exists())


def append(
    database: Database, connection: Connection, log: Log, rows: Sequence[dict[str, Any]]
) -> list[Recorded]:
    """Write rows at the end of the log, all or none.

    The caller holds the locks of all subjects and has checked the fields.

    Returns:
        One record a row, in order; `created` is False where the same row was there before.

    Raises:
        ConflictError: same id with other content; a second judgement of the same subject by the same annotator;
            superseding what was superseded, another annotator's row or an undo by an undo.
        UnknownRecordError: what is superseded does not exist.
    """
    table, subject, said = log.table, log.subject, log.said
    supersedes = {row["supersedes"] for row in rows if row["supersedes"] is not None}
    known: dict[str, Any] = {}
    superseded: set[str] = set()
    standing: dict[tuple[int, str], str] = {}
    columns = [table.c[name] for name in ("id", *log.content)]
    for ids in chunks(sorted({row["id"] for row in rows} | supersedes)):
        for found in connection.execute(sa.select(*columns).where(table.c.id.in_(ids))).mappings():
            known[found["id"]] = found
    for ids in chunks(sorted(supersedes)):
        superseded.update(
            connection.execute(sa.select(table.c.supersedes).where(table.c.supersedes.in_(ids))).scalars()
        )
    for subjects in chunks(sorted({row[subject] for row in rows})):
        query = sa.select(table.c.id, table.c[subject], table.c.annotator)
        for id, about, annotator in connection.execute(
            query.where(table.c[subject].in_(subjects), counted(log, table))
        ):
            standing[about, annotator] = id

    new: list[dict[str, Any]] = []
    for row in rows:
        id, earlier, key = row["id"], row["supersedes"], (row[subject], row["annotator"])
        if id in known:
            if any(known[id][name] != row[name] for name in log.content):
                raise ConflictError(
                    f"{log.what} {id} was sent before with other content; make a new id for a new {log.what}"
                )
            continue
        if earlier is not None:
            if earlier not in known:
                raise UnknownRecordError(f"there is no {log.what} {earlier} that could be undone or replaced")
            if (known[earlier][subject], known[earlier]["annotator"]) != key:
                raise ConflictError(
                    f"{log.what} {earlier} is about another {log.about} or by another annotator than {row['annotator']!r}; "
                    "only one's own can be undone or replaced"
                )
            if earlier in superseded:
                raise ConflictError(f"{log.what} {earlier} was undone or replaced before")
            if row[said] == log.silence and known[earlier][said] == log.silence:
                raise ConflictError(
                    f"{log.what} {earlier} is itself an undo; judge the {log.about} again instead"
                )
        if row[said] != log.silence and standing.get(key, earlier) != earlier:
            raise ConflictError(
                f"{row['annotator']!r} already judged {log.about} {row[subject]} ({log.what} {standing[key]}); "
                "undo or replace that first"
            )
        if earlier is not None:
            superseded.add(earlier)
            if standing.get(key) == earlier:
                del standing[key]
        if row[said] != log.silence:
            standing[key] = id
        known[id] = row
        new.append(row)

    if new:
        database._lock_log(connection)
        connection.execute(sa.insert(table), new)
    numbers: dict[str, int] = {}
    for ids in chunks(sorted({row["id"] for row in rows})):
        numbers.update(
            connection.execute(sa.select(table.c.id, table.c.seq).where(table.c.id.in_(ids))).tuples().all()
        )
    created = {row["id"] for row in new}
    # An id that occurs twice in one call was written by its first occurrence.
    return [Recorded(numbers[row["id"]], row["id"], _first(created, row["id"])) for row in rows]


def _first(created: set[str], id: str) -> bool:
    if id in created:
        created.remove(id)
        return True
    return False
