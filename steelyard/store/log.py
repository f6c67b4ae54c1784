"""The append-only log: one way of writing for answers about pairs, decisions about them and grades of images.

A row is written once. A row that `supersedes` an earlier one replaces it, or withdraws it when it says nothing
itself (undo). What counts are the rows that say something and that nothing supersedes; of those there is at most
one for each annotator and subject – of answers, for each annotator, pair and question; and one decision for each pair and
question, whoever made it.

Statements are built once, when the module is loaded: building one takes longer than running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import schema
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, UnknownRecordError
from steelyard.store.evidence import continued
from steelyard.store.fields import chunks
from steelyard.store.records import Recorded

__all__ = ["COMPARISONS", "DECISIONS", "GRADES", "Log"]


class Log:
    """A log, its words and its statements.

    Attributes:
        counts: the condition that a row counts, for finding a few: looked up row by row.
        counted: whether it counted when the log ended at number `:upto`; for reading all of them at once.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        subject: str,
        said: str,
        silence: str | None,
        content: tuple[str, ...],
        what: str,
        about: str,
        part: str | None = None,
        role: str | None = None,
        personal: bool = True,
    ) -> None:
        """Describe a log.

        Args:
            table: with `seq`, `id`, `annotator`, `supersedes`.
            subject: column of what is judged.
            said: column of the judgement.
            silence: what `said` holds in an undo.
            content: columns that make two submissions with the same id the same.
            what: a row in words.
            about: the subject in words.
            part: column of the part of the subject that is judged by itself, None where there are no parts.
            role: of its rows, where a table holds several.
            personal: whether everybody has their own judgement of a subject, which nobody else undoes or replaces.
        """
        self.table, self.subject, self.said, self.silence, self.content = (
            table,
            subject,
            said,
            silence,
            content,
        )
        self.what, self.about, self.role, self.personal = what, about, role, personal
        whose = ("annotator",) if personal else ()
        self._key = (subject, *whose) if part is None else (subject, *whose, part)
        later = table.alias("later")
        speaks = table.c[said].is_not(None) if silence is None else table.c[said] != silence
        if role is not None:
            # Spelled out: an index over one role is not found for a parameter.
            speaks = sa.and_(speaks, table.c.role == sa.literal_column(f"'{role}'"))
        upto = sa.bindparam("upto", type_=sa.BigInteger)
        # There is at most one (the column is unique). PostgreSQL turns NOT EXISTS into a join with the whole log, which
        # is right for reading everything and wrong for the ten latest; a scalar is always looked up.
        superseding = sa.select(later.c.seq).where(later.c.supersedes == table.c.id)
        self.counts = sa.and_(speaks, superseding.scalar_subquery().is_(None))
        self.counted = sa.and_(speaks, ~superseding.where(later.c.seq <= upto).exists())
        given: sa.BindParameter[Any] = sa.bindparam("given", expanding=True)
        self._known = sa.select(*(table.c[name] for name in ("id", *content))).where(table.c.id.in_(given))
        self._superseded = sa.select(table.c.supersedes).where(table.c.supersedes.in_(given))
        self._standing = sa.select(table.c.id, *(table.c[name] for name in self._key)).where(
            table.c[subject].in_(given), self.counts
        )
        self._numbers = sa.select(table.c.id, table.c.seq).where(table.c.id.in_(given))
        self._insert = sa.insert(table)
        self._columns = tuple(column.name for column in table.c)

    def append(
        self, database: Database, connection: Connection, rows: Sequence[dict[str, Any]]
    ) -> list[Recorded]:
        """Write rows at the end of the log, all or none.

        The caller holds the locks of all subjects and has checked the fields.

        Args:
            database: whose transaction this is.
            connection: of that transaction.
            rows: with every field that the chain vouches for (`chain.FIELDS`) but `seq`; they get the log's role.

        Returns:
            One record a row, in order; `created` is False where the same row was there before.

        Raises:
            ConflictError: same id with other content; a second judgement of the same subject by the same annotator;
                superseding what was superseded, another annotator's row, or an undo by an undo.
            UnknownRecordError: what is superseded does not exist.
        """
        if self.role is not None:
            rows = [{**row, "role": self.role} for row in rows]
        supersedes = sorted({row["supersedes"] for row in rows if row["supersedes"] is not None})
        known: dict[str, Any] = {}
        superseded: set[str] = set()
        standing: dict[tuple[Any, ...], str] = {}
        for ids in chunks(sorted({row["id"] for row in rows}.union(supersedes))):
            for found in connection.execute(self._known, {"given": ids}).mappings():
                known[found["id"]] = found
        for ids in chunks(supersedes):
            superseded.update(connection.execute(self._superseded, {"given": ids}).scalars())
        for subjects in chunks(sorted({row[self.subject] for row in rows})):
            for id, *its in connection.execute(self._standing, {"given": subjects}):
                standing[tuple(its)] = id

        new: dict[str, dict[str, Any]] = {}
        for row in rows:
            id, earlier, key = row["id"], row["supersedes"], tuple(row[name] for name in self._key)
            if id in known:
                if any(known[id][name] != row[name] for name in self.content):
                    raise ConflictError(
                        f"{self.what} {id} was sent before with other content; make a new id for a new {self.what}"
                    )
                continue
            if earlier is not None:
                self._check_supersedes(row, known.get(earlier), earlier in superseded)
                superseded.add(earlier)
                if standing.get(key) == earlier:
                    del standing[key]
            if row[self.said] != self.silence:
                if key in standing:
                    who = f"{row['annotator']!r} already judged" if self.personal else "somebody has decided"
                    raise ConflictError(
                        f"{who} this {self.about} ({self.what} {standing[key]}); undo or replace that first"
                    )
                standing[key] = id
            known[id] = new[id] = row

        if new:
            database.lock_log(connection)
            done = continued(connection, self.table.name, new.values())
            connection.execute(self._insert, [{name: row[name] for name in self._columns} for row in done])
            database.filled(connection, self.table, len(new))
            numbers = {row["id"]: row["seq"] for row in done}
        else:
            numbers = {}
        for ids in chunks(sorted({row["id"] for row in rows}.difference(numbers))):
            numbers.update((id, seq) for id, seq in connection.execute(self._numbers, {"given": ids}))
        # An id that occurs twice in one call was written by its first occurrence.
        return [Recorded(numbers[row["id"]], row["id"], new.pop(row["id"], None) is not None) for row in rows]

    def _check_supersedes(self, row: dict[str, Any], target: Any, superseded: bool) -> None:
        earlier = row["supersedes"]
        if target is None or (self.role is not None and target["role"] != self.role):
            raise UnknownRecordError(f"there is no {self.what} {earlier} that could be undone or replaced")
        if any(target[name] != row[name] for name in self._key):
            raise ConflictError(
                f"{self.what} {earlier} is about another {self.about} or question, or by another annotator than "
                f"{row['annotator']!r}; only one's own can be undone or replaced"
            )
        if superseded:
            raise ConflictError(f"{self.what} {earlier} was undone or replaced before")
        if row[self.said] == self.silence and target[self.said] == self.silence:
            raise ConflictError(
                f"{self.what} {earlier} is itself an undo; judge the {self.about} again instead"
            )


_CONTENT = ("pair", "annotator", "answer", "left_row", "supersedes", "question", "role")
COMPARISONS = Log(
    schema.comparisons,
    subject="pair",
    said="answer",
    silence=schema.WITHDRAWN,
    content=_CONTENT,
    what="answer",
    about="pair",
    part="question",
    role=schema.ANSWER,
)
DECISIONS = Log(
    schema.comparisons,
    subject="pair",
    said="answer",
    silence=schema.WITHDRAWN,
    content=_CONTENT,
    what="decision",
    about="pair",
    part="question",
    role=schema.DECISION,
    personal=False,
)
GRADES = Log(
    schema.grades,
    subject="image_row",
    said="grade",
    silence=None,
    content=("image_row", "annotator", "grade", "supersedes"),
    what="grade",
    about="image",
)
