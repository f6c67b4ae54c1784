"""The audit log (who did what and when, append-only) and the study's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.evidence import continued
from steelyard.store.records import AuditEntry
from steelyard.store.schema import audit, settings

__all__ = ["AuditLog", "append_audit"]


class AuditLog(Database):
    """Methods about the audit log and settings."""

    def audit(
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
        with self._writing() as connection:
            at = self._clock(connection, now)
            return append_audit(self, connection, at, fields.name(actor, "an actor"), action, detail or {})

    def audit_log(self, after: int = 0, limit: int | None = None) -> list[AuditEntry]:
        """Entries in their order, from the first one after number `after`."""
        return self._audited(audit.c.seq > after, audit.c.seq, limit)

    def latest_audit(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The last entries, newest first; with `before`, the last ones before that number."""
        earlier = sa.true() if before is None else audit.c.seq < before
        return self._audited(earlier, audit.c.seq.desc(), limit)

    def _audited(
        self, which: sa.ColumnElement[bool], order: sa.ColumnElement[int], limit: int | None
    ) -> list[AuditEntry]:
        query = sa.select(audit).where(which).order_by(order).limit(limit)
        with self._reading() as connection:
            return [AuditEntry(**row) for row in connection.execute(query).mappings()]

    def setting(self, key: str, default: Any = None) -> Any:
        """The value of a setting, or `default`."""
        with self._reading() as connection:
            row = connection.execute(sa.select(settings.c.value).where(settings.c.key == key)).one_or_none()
        return default if row is None else row[0]

    def settings(self) -> dict[str, Any]:
        """All settings."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(settings).order_by(settings.c.key))
            return {row.key: row.value for row in rows}

    def set_setting(self, key: str, value: Any) -> None:
        """Set a setting to a value that JSON can hold."""
        values = {
            "key": fields.name(key, "a setting's key"),
            "value": fields.document(value, f"setting {key!r}"),
        }
        with self._writing() as connection:
            insert = self._insert(settings).values(values)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["key"], set_={"value": values["value"]})
            )

    def kept_setting(self, key: str, value: Any) -> Any:
        """The value of a setting, which becomes `value` if it has none; of several that come at once one is kept."""
        values = {
            "key": fields.name(key, "a setting's key"),
            "value": fields.document(value, f"setting {key!r}"),
        }
        with self._writing() as connection:
            connection.execute(self._insert(settings).values(values).on_conflict_do_nothing())
            return connection.execute(sa.select(settings.c.value).where(settings.c.key == key)).scalar_one()


def append_audit(
    database: Database, connection: Connection, at: float, actor: str, action: str, detail: Mapping[str, Any]
) -> int:
    """Write an entry in a running transaction; the log's lock comes last, so call it at the end."""
    entry = {
        "at": at,
        "actor": actor,
        "action": fields.name(action, "an action"),
        "detail": fields.document(dict(detail), "the detail of an audit entry"),
    }
    database._lock_log(connection)
    [row] = continued(connection, "audit", [entry])
    connection.execute(sa.insert(audit), row)
    return int(row["seq"])
