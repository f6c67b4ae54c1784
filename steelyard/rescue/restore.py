"""`steelyard restore`: from a backup file to a study, whole or not at all.

Everything is verified first, then written below a name that is no study's, then moved into place with `study.toml` last.
Whoever is killed half-way leaves no folder that looks like a study and is none.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.config import StudyConfig
from steelyard.errors import StoreError, StudyError
from steelyard.files import sync_folder, sync_tree
from steelyard.progress import Progress
from steelyard.rescue.archive import Archive
from steelyard.rescue.check import Finding, check_study
from steelyard.store.address import address, kept_address
from steelyard.store.database import read_url
from steelyard.store.refill import check_revision, refill, require_empty
from steelyard.store.store import Store
from steelyard.study.making import store_url
from steelyard.study.sharing import leave_shelf

__all__ = ["Restored", "restore_study"]


_PATTERNS = ("study.toml", "study.db", "study.db-*", "catalog.arrow", "catalog.*.npy", "models")
"""What makes a study, `study.toml` first: without it a folder is none. A `-wal` or `-journal` of another database beside
the new one would be read as its newest part."""

STAGING = ".restoring-"


@dataclass(frozen=True)
class Restored:
    """What was restored.

    Attributes:
        folder: the study.
        about: the manifest of the backup.
        store: where the answers are now, without a password.
        replaced: where the study that was there before has gone; None if there was none.
        findings: what `check` says about it.
    """

    folder: Path
    about: dict[str, Any]
    store: str
    replaced: Path | None
    findings: list[Finding]


def restore_study(
    file: str | Path,
    folder: str | Path,
    *,
    store: str = "",
    replace: bool = False,
    progress: Progress | None = None,
) -> Restored:
    """Make a study from a backup file.

    Args:
        file: as `backup_study` wrote it.
        folder: where the study goes; it may hold images, but no study.
        store: URL of an empty PostgreSQL database, or STEELYARD_STORE; by default answers go to `study.db` in the folder.
        replace: move a study that is there into a folder `replaced-TIME` within it; nothing is deleted.
        progress: told how far it is.

    Raises:
        StudyError: the file is damaged or no backup, the folder holds a study, or it cannot be written.
        StoreError: the database is not empty, or a newer version wrote the backup.
    """
    place, store = Path(folder), kept_address(store)
    if store and read_url(store).get_backend_name() == "sqlite":
        raise StudyError(
            "--store names a PostgreSQL database; leave it out to restore into study.db of the study's folder"
        )
    with Archive.open(Path(file)) as archive:
        _check_kind(archive, store)
        check_revision(str(archive.about.get("revision")))
        if store:
            require_empty(address(store))
        present = study_parts(place)
        if present and not replace:
            names = ", ".join(path.name for path in present[:4])
            raise StudyError(
                f"{place} holds a study, or what is left of one ({names}); restore into another folder, or move it aside with "
                "--replace"
            )
        archive.verify(progress)
        _require_still(place)
        try:
            replaced = _put(archive, place, store, progress)
        except OSError as error:
            raise StudyError(
                f"{place} could not be written ({error.strerror or error}); free some space or name another folder"
            ) from error
        about = dict(archive.about)
    with Store.open(
        store_url(place, StudyConfig.load(place / "study.toml", any_strategy=True)), create=False
    ) as opened:
        # What was answered after the backup is gone; whoever reads the log later should know why.
        opened.audit.add(
            "restore", "restored from a backup", {"made": about.get("made"), "heads": about.get("heads")}
        )
        leave_shelf(opened)
        shown = opened.url
    return Restored(place, about, shown, replaced, check_study(place, progress=progress))


def study_parts(place: Path) -> list[Path]:
    """What a folder holds of a study, `study.toml` first."""
    return [path for pattern in _PATTERNS for path in sorted(place.glob(pattern))]


def _check_kind(archive: Archive, store: str) -> None:
    stores = [name for name in archive.members if name.startswith("store/")]
    if len(stores) != 1 or not {"study.toml", "catalog.arrow"} <= set(archive.members):
        raise StudyError(f"{archive.path} is not a complete backup: it lacks store, configuration or catalog")
    if stores[0].endswith(".pgdump") and not store:
        raise StoreError(
            "the backup was made by pg_dump and goes into PostgreSQL; name an empty database with "
            "--store postgresql+psycopg://user:password@host/database"
        )


def _require_still(place: Path) -> None:
    """Refuse to move a database that somebody has open.

    Leaving WAL mode takes a lock that nobody else may share; it also brings `-wal` into the file that is moved aside.
    """
    file = place / "study.db"
    if not file.exists():
        return
    try:
        with closing(sqlite3.connect(file, timeout=0.5)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StudyError(f"{file} is in use; stop whoever serves {place}, then restore") from None
    except sqlite3.DatabaseError:
        pass  # damaged: that is why it is replaced


def _put(archive: Archive, place: Path, store: str, progress: Progress | None) -> Path | None:
    _require_space(archive, place)
    made = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=place))
    try:
        archive.extract(staging, progress)
        if progress is not None:
            progress(0, 1, "filling the store")
        copy = next((staging / "store").iterdir())
        if store:
            refill(copy, address(store))
            copy.unlink()
        elif copy.suffix == ".db":
            copy.rename(staging / "study.db")
        else:
            refill(copy, f"sqlite:///{(staging / 'study.db').absolute()}")
            (staging / "study.db").chmod(0o600)
            copy.unlink()
        (staging / "store").rmdir()
        config = StudyConfig.load(
            staging / "study.toml", any_strategy=True
        )  # before the old one is moved aside
        if config.store != store or config.models:  # no backup of ours names these; another's may name yours
            config.with_changes(store=store, models="").save(staging / "study.toml")
        sync_tree(staging)
        _require_still(place)  # filling the store may have taken a while
        replaced = _move_aside(place)
        for part in sorted(staging.iterdir(), key=lambda path: path.name == "study.toml"):
            if part.name == "study.toml":
                sync_folder(place)  # all others have their names on disk before this one has
            part.rename(place / part.name)
        sync_folder(place)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if made and not any(place.iterdir()):
            place.rmdir()
    return replaced


def _require_space(archive: Archive, place: Path) -> None:
    total = sum(member.bytes for member in archive.members.values())
    there = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < 2 * total:  # a dump and the database made of it are there at the same time
        raise StudyError(
            f"the backup unpacks to {total / 1e6:,.1f} MB and needs twice that for a while; {there} has {free / 1e6:,.1f} MB "
            "left – nothing was restored"
        )


def _move_aside(place: Path) -> Path | None:
    parts = study_parts(place)
    if not parts:
        return None
    stamp, number = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), 1
    aside = place / f"replaced-{stamp}"
    while aside.exists():
        number += 1
        aside = place / f"replaced-{stamp}-{number}"
    aside.mkdir(mode=0o700)
    for part in parts:
        part.rename(aside / part.name)
        if part.name == "study.toml":
            sync_folder(place)
    sync_folder(aside)
    sync_folder(place)
    return aside
