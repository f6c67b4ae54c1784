"""Opening a store: create it, migrate an older one after a backup copy, refuse what is not ours.

Everything happens in one transaction under a lock, so any number of processes may open at once and a process killed
half-way leaves the study as it was.
"""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from steelyard.store.backup import copy_sqlite
from steelyard.store.database import MIGRATION_LOCK, wrapped_errors
from steelyard.store.errors import StoreError
from steelyard.store.place import make_schema
from steelyard.store.schema import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["check_revision", "known_revisions", "prepare", "quick_look", "upgrade"]

log = logging.getLogger("steelyard")
_MOST, _MOST_LEFT_OPEN = 8 * 2**20, 64 * 2**20  # bytes: 40 ms, 0.3 s


def prepare(engine: Engine, *, create: bool, migrate: bool = True) -> None:
    """Bring the database to the newest schema; where `migrate` is False, refuse an older one.

    Raises:
        StoreError: there is no study and none is to be created; it is something else, damaged, newer than this
            program, or older and not to be migrated.
    """
    url = engine.url.render_as_string(hide_password=True)
    if engine.dialect.name == "sqlite":
        file = Path(str(engine.url.database))
        if not file.exists() and not create:
            raise StoreError("there is no such file; make a study with: steelyard init", place=url)
        if not file.parent.is_dir():
            raise StoreError(
                "the folder of the database does not exist; create it first", place=url, said=str(file.parent)
            )
    with wrapped_errors(engine):
        with engine.connect() as connection:
            if _revision(connection) == REVISION:
                return
        with engine.connect() as connection:
            connection.execution_options(writing=True)
            with connection.begin():
                if engine.dialect.name != "sqlite":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
                _migrate(connection, url, create, migrate)


def check_revision(connection: Connection) -> None:
    """Refuse to go on with a study that another version has migrated meanwhile.

    Raises:
        StoreError: somebody did.
    """
    revision = _revision(connection)
    if revision != REVISION:
        raise StoreError(
            f"the study was migrated to revision {revision} while this Steelyard, which knows {REVISION}, had it open; upgrade "
            "Steelyard here and start it again",
            place=connection.engine.url.render_as_string(hide_password=True),
        )


def quick_look(engine: Engine) -> str | None:
    """A look at a SQLite file before it is used, at a bounded cost: what is damaged, in a sentence, or None.

    Reading a file takes 5 ms a megabyte. A small one is always read; a larger one after somebody died, or while somebody
    is at work: a clean shutdown leaves no `-wal`. The largest are left to `steelyard check`.
    """
    file = Path(str(engine.url.database))
    if engine.dialect.name != "sqlite" or not file.exists():
        return None
    log_file = file.with_name(f"{file.name}-wal")
    left_open = log_file.exists() and log_file.stat().st_size > 0
    if file.stat().st_size > (_MOST_LEFT_OPEN if left_open else _MOST):
        return None
    with wrapped_errors(engine), engine.connect() as connection:
        found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    if found == "ok":
        return None
    log.warning(
        "%s is damaged (%s); stop writing to it, and see what is wrong with: steelyard check", file, found
    )
    return f"the file of the store is damaged: {found}"


def _migrate(connection: Connection, url: str, create: bool, migrate: bool) -> None:
    revision = _revision(connection)
    if revision == REVISION:  # another process was faster
        return
    if revision is None:
        tables = sa.inspect(connection).get_table_names()
        if tables:
            raise StoreError(
                "the database holds other tables and no study; name another one, or a schema of its own: "
                "…/database?schema=NAME",
                place=url,
                said=f"{', '.join(sorted(tables)[:3])} …",
            )
        if not create:
            raise StoreError("the database holds no study; make one with: steelyard init", place=url)
        if connection.dialect.name != "sqlite":
            make_schema(connection)

    if revision is not None and revision not in known_revisions():
        raise StoreError(
            f"the study was written by a newer Steelyard (revision {revision}; this one knows up to "
            f"{REVISION}); upgrade Steelyard – nothing was changed",
            place=url,
        )
    if revision is not None and not migrate:
        raise StoreError(
            f"the study has revision {revision}, and this newer Steelyard has {REVISION}; upgrade the machine that serves it "
            "first, or install its version here – nothing was changed",
            place=url,
        )
    if revision is not None and connection.dialect.name == "sqlite":
        # We hold the write lock, so the copy is exactly what the migration starts from.
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        file = Path(str(connection.engine.url.database))
        copy_sqlite(file, file.with_name(f"{file.name}.backup-{revision}-{stamp}"))
    upgrade(connection, REVISION)


def upgrade(connection: Connection, revision: str) -> None:
    """Run the migrations up to a revision, in the transaction of the connection."""
    from alembic import command

    config = _alembic()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def known_revisions() -> set[str]:
    """Revisions that this version can read and migrate."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions()}


def _alembic() -> Config:
    # Alembic is loaded only when there is something to migrate; opening a study should be quick.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _revision(connection: Connection) -> str | None:
    """The revision written in the database; None where there is none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return revision
