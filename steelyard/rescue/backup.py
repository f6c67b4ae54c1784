"""`steelyard backup`: everything that cannot be computed again, in one file, while people answer."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from steelyard import __version__
from steelyard.config import StudyConfig
from steelyard.errors import StudyError, command
from steelyard.files import UNFINISHED, move_new, sync_file
from steelyard.images.catalog import Catalog
from steelyard.progress import Progress
from steelyard.rescue.archive import ENDING, ArchiveWriter, safe_name
from steelyard.store.backup import StoreCopy, copy_store
from steelyard.study.making import store_url

__all__ = ["BackupMade", "backup_study"]

_ATTEMPTS = 5


@dataclass(frozen=True)
class BackupMade:
    """A backup.

    Attributes:
        path: of the file.
        bytes: its size.
        answers: rows of the log of comparisons in it.
        models: those in it, as `models/round-007-5f0c12ab`.
        notes: what is not in it, in sentences.
    """

    path: Path
    bytes: int
    answers: int
    models: tuple[str, ...]
    notes: tuple[str, ...]


def backup_study(
    folder: str | Path,
    target: str | Path | None = None,
    *,
    all_models: bool = False,
    portable: bool = False,
    progress: Progress | None = None,
) -> BackupMade:
    """Write a study to one file: store, configuration, catalog and newest model, but no images and no caches.

    The file appears under its name when it is whole and on disk; it can be read by its owner only. The study may be
    in use: the store is copied as it is at one moment, and the model is the newest of that moment.

    Args:
        folder: the study.
        target: the file; by default `backups/NAME-TIME.steelyard.zip` in the study's folder.
        all_models: every model that is still there, not only the newest.
        portable: a dump that any database can read, even where PostgreSQL's own tools are there.
        progress: told how far it is.

    Raises:
        StudyError: the file exists or cannot be written.
        StoreError: the store cannot be read, or is damaged.
    """
    place = Path(folder)
    if not (place / "study.toml").exists():
        raise StudyError(f"{place} is not a study (no study.toml)")
    if not (place / "catalog.arrow").exists():
        raise StudyError(
            f"{place / 'catalog.arrow'} is missing; see what else is wrong with: {command('check', place)}"
        )
    config = StudyConfig.load(place / "study.toml", any_strategy=True)
    file = _default_target(place, config) if target is None else Path(target)
    if file.exists():
        raise StudyError(f"{file} exists; a backup never overwrites – name another file")
    if not file.parent.is_dir():
        raise StudyError(f"the folder {file.parent} does not exist; create it first")
    try:
        working = Path(tempfile.mkdtemp(prefix=f".{file.name}.", suffix=UNFINISHED, dir=file.parent))
    except OSError as error:
        raise StudyError(f"the backup {file} could not be written: {error.strerror or error}") from None
    try:
        made = _try_until_still(place, config, working, all_models, portable, progress)
        move_new(working / "backup.zip", file)
    except FileExistsError:
        raise StudyError(f"{file} exists; a backup never overwrites – name another file") from None
    except OSError as error:
        raise StudyError(
            f"the backup {file} could not be written ({error.strerror or error}) and nothing was left behind; free some space "
            "or name another folder"
        ) from error
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return BackupMade(file, file.stat().st_size, *made)


_Made = tuple[int, tuple[str, ...], tuple[str, ...]]


def _try_until_still(
    place: Path,
    config: StudyConfig,
    working: Path,
    all_models: bool,
    portable: bool,
    progress: Progress | None,
) -> _Made:
    # A trainer removes what only the newest two models need; a backup that was overtaken by two models starts again.
    for attempt in range(_ATTEMPTS):
        try:
            return _write(
                place, config, working, all_models, portable, progress, strict=attempt < _ATTEMPTS - 1
            )
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
            for path in working.iterdir():
                path.unlink()
    raise AssertionError("not reached")  # pragma: no cover


def _write(
    place: Path, config: StudyConfig, working: Path, all_models: bool, portable: bool, progress: Progress | None,
    *, strict: bool,
) -> _Made:  # fmt: skip
    def tell(step: int, text: str) -> None:
        if progress is not None:
            progress(step, 4, text)

    # Before the store: images that join meanwhile are in the store's copy, and opening completes the catalog from there.
    shutil.copyfile(place / "catalog.arrow", working / "catalog.arrow")
    tell(0, "copying the store")
    copied = copy_store(store_url(place, config), working, portable=portable)
    models, notes = _models(place, config, copied, all_models)
    with (working / "backup.zip").open("xb") as file:
        (working / "backup.zip").chmod(0o600)
        writer = ArchiveWriter(file)
        tell(1, "packing the store")
        writer.add(f"store/{copied.path.name}", copied.path)
        copied.path.unlink()
        tell(2, "packing catalog and models")
        # Where the database is stays here: the address may hold a password, and a restore names its own.
        config.with_changes(store="", models="").save(working / "study.toml")
        writer.add("study.toml", working / "study.toml")
        writer.add("catalog.arrow", working / "catalog.arrow")
        for array in _arrays(place, notes):
            writer.add(array.name, array)
        for model in models:
            if strict and model == models[-1] and not (place / model / "rows.npy").exists():
                raise FileNotFoundError(place / model / "rows.npy")
            for path in sorted((place / model).iterdir()):
                if path.is_file() and safe_name(f"{model}/{path.name}"):
                    writer.add(f"{model}/{path.name}", path)
        writer.finish(_about(config, copied, models))
    tell(3, "waiting for the disk")
    sync_file(working / "backup.zip")
    tell(4, "done")
    return copied.rows.get("comparisons", 0), tuple(models), tuple(notes)


def _about(config: StudyConfig, copied: StoreCopy, models: list[str]) -> dict[str, Any]:
    return {
        "study": config.name,
        "version": __version__,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "database": {".db": "sqlite", ".jsonl": "portable", ".pgdump": "postgresql"}[copied.path.suffix],
        "revision": copied.revision,
        "rows": copied.rows,
        "heads": copied.heads,
        "models": models,
    }


def _models(
    place: Path, config: StudyConfig, copied: StoreCopy, all_models: bool
) -> tuple[list[str], list[str]]:
    announced = copied.models
    there = [path for path in announced if (place / path / "checkpoint.json").is_file()]
    notes = [
        f"{path} is announced but not in the folder"
        for path in announced[-1:]
        if path not in there
    ]  # fmt: skip
    if all_models:
        return there, notes
    wanted = set(there[-1:]) | (set(there[:1]) if _starts_from_first(config) else set())
    return [path for path in there if path in wanted], notes


def _starts_from_first(config: StudyConfig) -> bool:
    """Whether the next model begins with the weights of the first one."""
    return config.ranker.kind == "network" and config.ranker.warm_start == "round0"


def _arrays(place: Path, notes: list[str]) -> Iterator[Path]:
    """Arrays that belong to the catalog and lie beside it."""
    source = Catalog.open(place / "catalog.arrow").source
    if source is None:
        return
    if source.parent == place.absolute() and safe_name(source.name):
        yield source
    else:
        notes.append(f"{source} is not in the backup; keep it as you keep images")


def _default_target(place: Path, config: StudyConfig) -> Path:
    folder = place / "backups"
    folder.mkdir(exist_ok=True, mode=0o700)
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in config.name) or "study"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1, 1000):
        file = folder / f"{name[:80]}-{stamp}{'' if number == 1 else f'-{number}'}{ENDING}"
        if not file.exists():
            return file
    raise StudyError(f"{folder} has a thousand backups of this second; name a file")  # pragma: no cover
