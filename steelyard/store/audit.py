"""The audit log (who did what and when), the hash chain of all logs, and signatures: what can be proved later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.chain import LOGS, Head
from steelyard.store.database import Database
from steelyard.store.evidence import append_audit, chained_rows, head
from steelyard.store.logfile import write_log
from steelyard.store.records import AuditEntry
from steelyard.store.schema import audit
from steelyard.store.signature import Signature, Signing, read_signatures, sign

__all__ = ["Audit"]


class Audit:
    """Who did what and when; where each log ends; who vouched for it."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(
        self, actor: str, action: str, detail: Mapping[str, Any] | None = None, *, now: float | None = None
    ) -> int:
        """Write down what somebody did.

        Args:
            actor: who; `system` for what happened by itself.
            action: what, in a few words ("log in", "export").
            detail: JSON.

        Returns:
            Its number.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            return append_audit(
                self._db, connection, at, fields.name(actor, "an actor"), action, detail or {}
            )

    def log(self, after: int = 0, limit: int | None = None, *, action: str | None = None) -> list[AuditEntry]:
        """Entries in their order, from the first one after number `after`; with `action`, those about it alone."""
        about = sa.true() if action is None else audit.c.action == action
        return self._read(sa.and_(audit.c.seq > after, about), audit.c.seq, limit)

    def latest(
        self, limit: int, before: int | None = None, *, action: str | None = None, actor: str | None = None
    ) -> list[AuditEntry]:
        """The last entries, newest first; with `before`, the last ones before that number; with `action`, those about it; with
        `actor`, those by somebody."""
        earlier = sa.true() if before is None else audit.c.seq < before
        about = sa.true() if action is None else audit.c.action == action
        by = sa.true() if actor is None else audit.c.actor == actor
        return self._read(sa.and_(earlier, about, by), audit.c.seq.desc(), limit)

    def _read(
        self, which: sa.ColumnElement[bool], order: sa.ColumnElement[int], limit: int | None
    ) -> list[AuditEntry]:
        query = sa.select(audit).where(which).order_by(order).limit(limit)
        with self._db.reading() as connection:
            return [AuditEntry(**row) for row in connection.execute(query).mappings()]

    def heads(self) -> tuple[Head, ...]:
        """Where each log ends: number and hash of its last row. Noted elsewhere, they are evidence for all before."""
        with self._db.reading() as connection:
            return tuple(head(connection, log) for log in LOGS)

    def rows(self, log: str, *, after: int = 0, upto: int | None = None) -> Iterator[dict[str, Any]]:
        """Every row of a log (`comparisons`, `grades` or `audit`), undone ones included, as it is hashed.

        Args:
            log: which one.
            after: from the first row after this number.
            upto: up to this number; None for all there are.
        """
        return chained_rows(self._db, log, after, upto)

    def export(self, path: str | Path) -> tuple[Head, ...]:
        """Write all three logs with their hashes as JSON Lines; `steelyard.store.logfile.verify_log` reads them.

        Returns:
            The heads, which the file's first line carries too.

        Raises:
            StoreError: the file cannot be written.
        """
        heads = self.heads()
        rows = ((one.log, row) for one in heads for row in self.rows(one.log, upto=one.seq))
        write_log(Path(path), heads, rows)
        return heads

    def sign(self, signing: Signing, *, key: Any = None, now: float | None = None) -> Signature:
        """Sign the study as it is now.

        Args:
            signing: who, with which meaning, and what lies outside the store.
            key: a `steelyard.study.signing.Key` that signs the statement too, so that nobody who only has the
                database can forge it.
            now: seconds since 1970; None asks the database.

        Raises:
            StoreError: a field cannot be stored.
        """
        return sign(self._db, signing, key, now)

    def signatures(self) -> list[Signature]:
        """Every signature, oldest first, and how much came after each."""
        with self._db.reading() as connection:
            return read_signatures(connection)
