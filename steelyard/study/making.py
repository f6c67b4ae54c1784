"""Making a study's files: configuration, catalog and store, in an order that leaves a whole study or none."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from steelyard.config import StudyConfig, ask_preset, ranker_preset
from steelyard.errors import ConfigError, StudyError
from steelyard.images.catalog import Catalog
from steelyard.privacy import keep_private, make_private, read_umask
from steelyard.progress import Progress
from steelyard.store.records import NewImage
from steelyard.store.store import Store

__all__ = ["current_config", "make_files", "open_files", "store_url", "study_config"]

log = logging.getLogger("steelyard")


def study_config(preset: str = "quick", **changes: Any) -> StudyConfig:
    """The configuration of a preset, with some keys changed: `study_config("paper", seed=3, ask={"raters": 2})`."""
    start = StudyConfig(ranker=ranker_preset(preset), ask=ask_preset(preset))
    return start.with_changes(**changes)


def make_files(place: Path, catalog: Catalog, settings: StudyConfig, progress: Progress | None) -> Store:
    """Write a new study.

    Raises:
        StudyError: the folder holds a study already, or there are fewer than two images.
    """
    if (place / "study.toml").exists():
        raise StudyError(f"{place} is a study already; open it, or choose another folder")
    if len(catalog) < 2:
        raise StudyError(f"a study compares images, and the catalog has {len(catalog)}; it needs 2 or more")
    if not place.exists():
        place.mkdir(parents=True, mode=0o777 & ~read_umask())
    catalog.save(place / "catalog.arrow")
    if not settings.store:
        make_private(place / "study.db")
    store = Store.open(store_url(place, settings))
    try:
        _register(store, catalog, progress)
        # Written last: a folder with a study.toml is a whole study, whenever the power went.
        settings.save(place / "study.toml")
        for name in ("models", "cache"):
            (place / name).mkdir(exist_ok=True)
        keep_private(place, new=True)
    except BaseException:
        store.close()
        raise
    return store


def open_files(place: Path) -> tuple[StudyConfig, Catalog, Store]:
    """Open the files of a study, migrating its database if it is an older one.

    Raises:
        StudyError: there is no study in that folder, or not the whole of it.
    """
    keep_private(place)
    if not (place / "study.toml").exists():
        raise StudyError(
            f"{place} is not a study (no study.toml); make one with: steelyard init {place} --images DIR"
        )
    config = _load(place / "study.toml")
    if not (place / "catalog.arrow").exists():
        raise StudyError(
            f"{place / 'catalog.arrow'} is missing; restore a backup with: steelyard restore FILE {place} --replace"
        )
    return config, Catalog.open(place / "catalog.arrow"), Store.open(store_url(place, config), create=False)


def _load(path: Path) -> StudyConfig:
    """The configuration, also where the plug-in that asks is not installed: answers and scores can be read without it."""
    try:
        return StudyConfig.load(path)
    except ConfigError as error:
        config = StudyConfig.load(path, any_strategy=True)  # fails again if it was about anything else
        log.warning("%s; until then no pairs can be chosen", error)
        return config


def current_config(folder: Path) -> StudyConfig:
    """What `study.toml` says now, for processes that go on while the page changes it.

    A strategy that is not installed here was told at opening; fits need none, and whoever chooses pairs hears of it.
    """
    return StudyConfig.load(folder / "study.toml", any_strategy=True)


def store_url(folder: Path, config: StudyConfig) -> str:
    """Where a study's answers are."""
    return config.store or f"sqlite:///{(folder / 'study.db').resolve()}"


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
