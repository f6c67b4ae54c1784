"""Where in a PostgreSQL database a study lies: many share one database, each in a schema of its own (`…/database?schema=colon`).

The schema is all that is on the connection's search path, so every statement, migration and function sees one study and
no other. Locks by number are the database's, not the schema's: each study's numbers are its own, as the function that
writes its answers says, so nobody waits for another study, and every process agrees however its URL spells the place.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from steelyard.store.errors import StoreError

__all__ = [
    "LOG_LOCK",
    "alone",
    "lock_offset",
    "make_schema",
    "read_offset",
    "schema_of",
    "stay_in_schema",
]

LOG_LOCK = 0x57EE_1A4D_0002
"""The advisory lock of the logs, in a database that holds one study; migration 0006 writes it into a function."""

_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


def schema_of(url: URL) -> str:
    """The schema that a URL names; empty for the database's own search path, which is `public` as a rule.

    Raises:
        StoreError: it is no name of a schema.
    """
    named = url.query.get("schema", "")
    if url.get_backend_name() == "sqlite" or not named:
        return ""
    if not isinstance(named, str) or not _NAME.fullmatch(named) or named == "information_schema":
        raise StoreError(
            "schema= names one schema: lower-case letters, digits and _, a letter first, 63 at most, not beginning with pg_",
            place=url.render_as_string(hide_password=True), said=str(named),
        )  # fmt: skip
    return named


def stay_in_schema(engine: Engine) -> None:
    """Have every connection of an engine see the schema that its URL names, and nothing else."""
    schema = schema_of(engine.url)
    if not schema:
        return

    def without(_: object, __: object, ___: object, options: dict[str, Any]) -> None:
        options.pop("schema")  # ours, not the driver's

    def choose(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f'SET search_path = "{schema}"')
        connection.commit()

    sa.event.listen(engine, "do_connect", without)
    # First of all: what SQLAlchemy looks up on a new connection is then looked up in this schema.
    sa.event.listen(engine, "connect", choose, insert=True)


def make_schema(connection: Connection) -> None:
    """Make the schema that the URL names, if there is none; in the transaction of the connection.

    Raises:
        StoreError: this user may not.
    """
    schema = schema_of(connection.engine.url)
    if (
        not schema
        or connection.execute(sa.select(sa.func.to_regnamespace(f'"{schema}"'))).scalar() is not None
    ):
        return
    may = sa.text("SELECT has_database_privilege(current_database(), 'CREATE'), current_user")
    allowed, user = connection.execute(may).one()
    if not allowed:
        raise StoreError(
            f"there is no schema {schema}, and {user} may not make it; have the database's owner run: "
            f'CREATE SCHEMA {schema} AUTHORIZATION "{user}"',
            place=connection.engine.url.render_as_string(hide_password=True),
        )
    connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')


def alone(connection: Connection) -> bool:
    """Whether a database is this study's only: it names no schema, and no other schema holds a study."""
    if schema_of(connection.engine.url):
        return False
    studies = sa.text("SELECT count(*) FROM pg_class WHERE relname = 'alembic_version' AND relkind = 'r'")
    return int(connection.execute(studies).scalar_one()) <= 1


def lock_offset(schema: str) -> int:
    """What is xored into the locks of a new study in this schema; two names that share one only wait for each other.

    The last byte of a lock, which says what is locked, stays.
    """
    return zlib.crc32(schema.encode()) << 8 if schema else 0


def read_offset(connection: Connection) -> int:
    """What is xored into the locks of an existing study: the function that writes its answers has it."""
    query = "SELECT prosrc FROM pg_proc WHERE proname = 'steelyard_answer' AND pg_function_is_visible(oid)"
    source = connection.execute(sa.text(query)).scalar()
    found = re.search(r"pg_advisory_xact_lock\((\d+)\)", source or "")
    return int(found[1]) ^ LOG_LOCK if found else 0
