"""What the study remembers under a key: any value that JSON can hold."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.schema import settings

__all__ = ["Settings"]


class Settings:
    """Settings of the study, by key."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a setting, or `default`."""
        with self._db.reading() as connection:
            row = connection.execute(sa.select(settings.c.value).where(settings.c.key == key)).one_or_none()
        return default if row is None else row[0]

    def put(self, key: str, value: Any) -> None:
        """Set a setting, whatever it was."""
        values = {
            "key": fields.name(key, "a setting's key"),
            "value": fields.document(value, f"setting {key!r}"),
        }
        with self._db.writing() as connection:
            insert = self._db.insert(settings).values(values)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["key"], set_={"value": values["value"]})
            )

    def keep(self, key: str, value: Any) -> Any:
        """The value of a setting, set to `value` if it has none; of several callers at once, one wins."""
        values = {
            "key": fields.name(key, "a setting's key"),
            "value": fields.document(value, f"setting {key!r}"),
        }
        with self._db.writing() as connection:
            connection.execute(self._db.insert(settings).values(values).on_conflict_do_nothing())
            return connection.execute(sa.select(settings.c.value).where(settings.c.key == key)).scalar_one()
