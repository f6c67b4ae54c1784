"""Copies of a SQLite study that are whole, even while people answer."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from steelyard.store.errors import StoreError
from steelyard.store.faults import translated

__all__ = ["copy_sqlite"]


def copy_sqlite(file: Path, target: Path) -> Path:
    """Copy the last committed state through SQLite's backup interface.

    The copy appears under its name only when it is complete and on disk.

    Args:
        file: the database.
        target: a path that does not exist yet.

    Raises:
        StoreError: the target exists or has no folder.
        UnavailableError: it cannot be written; the disk may be full.
    """
    if target.exists():
        raise StoreError("a backup never overwrites; name another file than this", place=str(target))
    if not target.parent.is_dir():
        raise StoreError("the folder of the backup does not exist; create it first", place=str(target))
    unfinished = target.with_name(f"{target.name}.unfinished-{os.getpid()}")
    try:
        with (
            closing(sqlite3.connect(file, timeout=30)) as source,
            closing(sqlite3.connect(unfinished)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
        _sync(unfinished)
        unfinished.replace(target)
        _sync(target.parent)
    except (sqlite3.Error, OSError) as error:
        raise translated(str(target), error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # pragma: no cover - Windows cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
