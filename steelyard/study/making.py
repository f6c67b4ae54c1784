"""Making a study's files: configuration, catalog and store, in an order that leaves a whole study or none."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steelyard.config import StudyConfig, ask_preset, ranker_preset
from steelyard.errors import CatalogError, ConfigError, StudyError, command, why_not
from steelyard.images.catalog import Catalog
from steelyard.privacy import keep_private, make_private, read_umask
from steelyard.progress import Progress
from steelyard.store.address import address, named_from_outside
from steelyard.store.records import NewImage
from steelyard.store.store import Store
from steelyard.study.asked import check_asked
from steelyard.study.images import complete_catalog
from steelyard.study.wording import check_grades, check_new_grades, note_wording

__all__ = [
    "check_catalog",
    "check_place",
    "check_store",
    "made_folder",
    "make_files",
    "open_files",
    "store_url",
    "study_config",
]

log = logging.getLogger("steelyard")
_WHOLE = "made whole"  # a setting of the store; without it `init` may have been killed half-way


def study_config(preset: str = "quick", **changes: Any) -> StudyConfig:
    """The configuration of a preset, with some keys changed: `study_config("paper", seed=3, ask={"raters": 2})`."""
    start = StudyConfig(ranker=ranker_preset(preset), ask=ask_preset(preset))
    return start.with_changes(**changes)


def check_place(place: Path) -> None:
    """Refuse a folder in which no study can be made, before anything is read for it.

    Raises:
        StudyError: it holds a study already, is a file or below one, or may not be written.
    """
    cannot = f"cannot make a study in {place}"
    try:
        if (place / "study.toml").exists():
            raise StudyError(f"{place} is a study already; open it, or choose another folder")
    except OSError as error:
        raise StudyError(f"{cannot}: {why_not(error)}") from None
    there = next(one for one in (place, *place.absolute().parents) if one.exists())
    if not there.is_dir():
        raise StudyError(f"{cannot}: {there} is a file, not a folder; choose another path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StudyError(
            f"{cannot}: {there} may not be written by you; choose another folder, or change whose it is"
        )


def check_catalog(catalog: Catalog, settings: StudyConfig) -> None:
    """Refuse images that no study can be made of.

    Raises:
        StudyError: there are fewer than two.
        ConfigError: nobody can grade by their grades.
    """
    if len(catalog) < 2:
        raise StudyError(f"a study compares images, and the catalog has {len(catalog)}; it needs 2 or more")
    check_new_grades(settings, catalog)


def check_store(settings: StudyConfig, catalog: Catalog) -> None:
    """Open the database that a configuration names, so that one that cannot be used is known before anything is computed.

    Raises:
        StoreError: it cannot be used, and why.
        StudyError: it holds another study.
    """
    if settings.store:
        with Store.open(address(settings.store)) as store:
            _check_unused(store, catalog)


@contextmanager
def made_folder(place: Path) -> Iterator[None]:
    """The folder of a new study while it is made; taken away again if nothing comes of it and it was not there before.

    Raises:
        StudyError: it holds a study already, or cannot be written.
    """
    check_place(place)
    ours = not place.exists()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o777 & ~read_umask())
    except OSError as error:
        raise StudyError(f"cannot make a study in {place}: {why_not(error)}") from None
    try:
        yield
    except BaseException:
        if ours:
            shutil.rmtree(place, ignore_errors=True)
        raise


def make_files(place: Path, catalog: Catalog, settings: StudyConfig, progress: Progress | None) -> Store:
    """Write a new study.

    Raises:
        StudyError: the folder holds a study already or cannot be written, or there are fewer than two images.
        ConfigError: nobody can grade by its grades.
    """
    check_place(place)
    check_catalog(catalog, settings)
    with made_folder(place):
        catalog.save(place / "catalog.arrow")
        if not settings.store:
            make_private(place / "study.db")
        store = Store.open(store_url(place, settings))
        try:
            if settings.store:
                _check_unused(store, catalog)
            _register(store, catalog, progress)
            note_wording(store, settings, catalog)
            # Written last: a folder with a study.toml is a whole study, whenever the power went.
            settings.save(place / "study.toml")
            for name in ("models", "cache"):
                (place / name).mkdir(exist_ok=True)
            keep_private(place, new=True)
            store.settings.keep(_WHOLE, True)
        except BaseException:
            store.close()
            raise
    return store


def open_files(place: Path, store_at: str = "") -> tuple[StudyConfig, Catalog, Store]:
    """Open the files of a study, migrating its database if it is an older one; `store_at` goes before what study.toml says.

    Raises:
        StudyError: there is no study in that folder, or not the whole of it; or its list of grades or its questions were changed
            so that grades or answers mean something else.
    """
    keep_private(place)
    if not (place / "study.toml").exists():
        raise StudyError(
            f"{place} is not a study (no study.toml); make one with: {command('init', place, '--images', 'DIR')}"
        )
    config = _load(place / "study.toml")
    if not (place / "catalog.arrow").exists():
        raise StudyError(
            f"{place / 'catalog.arrow'} is missing; restore a backup with: {command('restore', 'FILE', place, '--replace')}"
        )
    catalog = Catalog.open(place / "catalog.arrow")
    store = Store.open(store_at or store_url(place, config), create=False)
    try:
        if named_from_outside():
            _check_same(store, catalog, place)
        check_grades(store, config, catalog, str(place / "study.toml"))
        check_asked(store, config, str(place / "study.toml"))
    except BaseException:
        store.close()
        raise
    try:
        return config, complete_catalog(place, catalog, store), store
    except (
        CatalogError,
        StudyError,
    ) as error:  # a folder that cannot be written: what joined last has to wait
        log.warning("%s; images that were being added are not used", error)
        return config, catalog, store


def _load(path: Path) -> StudyConfig:
    """The configuration, also where the plug-in that asks is not installed: answers and scores can be read without it."""
    try:
        return StudyConfig.load(path)
    except ConfigError as error:
        config = StudyConfig.load(path, any_strategy=True)  # fails again if it was about anything else
        log.warning("%s; until then no pairs can be chosen", error)
        return config


def store_url(folder: Path, config: StudyConfig) -> str:
    """Where a study's answers are: in its file, or where study.toml or STEELYARD_STORE says.

    Raises:
        StudyError: the variable names a database, and the study's answers are in its file.
    """
    if named_from_outside() and not config.store:
        raise StudyError(
            f"the answers of {folder} are in its study.db, and STEELYARD_STORE names another database; leave the variable out, "
            "or move the study there: steelyard backup, then steelyard restore"
        )
    return address(config.store) or f"sqlite:///{(folder / 'study.db').resolve()}"


def _check_same(store: Store, catalog: Catalog, place: Path) -> None:
    """Refuse a database that the environment names and that knows other images: answers about ours would go there.

    Raises:
        StudyError: it does.
    """
    first = store.images.all(limit=1)
    if not first or first[0].id != catalog.ids[0] or store.images.count() < len(catalog):
        raise StudyError(
            f"STEELYARD_STORE names {store.url}, which holds the answers of another study than {place}; name its own database, "
            "or leave the variable out"
        )


def _check_unused(store: Store, catalog: Catalog) -> None:
    """Refuse a database that another study is in; what is left of an `init` that was killed is taken up."""
    count = store.images.count()
    if not count:
        return
    same = count == len(catalog) and [image.id for image in store.images.all()] == catalog.ids.tolist()
    if same and store.settings.get(_WHOLE) is None and not store.pairs.all(limit=1):
        return
    raise StudyError(
        f"{store.url} holds a study of {count} images already; give this one a schema of its own in the same database "
        "(…/database?schema=NAME), or another database"
    )


def _register(store: Store, catalog: Catalog, progress: Progress | None) -> None:
    groups, grades = catalog.groups, catalog.grades
    store.images.add_all(
        (
            NewImage(
                row, str(id), str(path), None if groups is None else str(groups[row]),
                None if grades is None or grades[row] < 0 else int(grades[row]),
            )
            for row, (id, path) in enumerate(zip(catalog.ids, catalog.paths, strict=True))
        ),
        progress=progress,
    )  # fmt: skip
