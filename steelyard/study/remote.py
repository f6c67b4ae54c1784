"""A study on a machine that has only its store and its shelf: a private folder, made and kept up to date from the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from steelyard.config import StudyConfig
from steelyard.errors import StudyError
from steelyard.images.cache import cached_rows
from steelyard.images.catalog import Catalog
from steelyard.images.presence import look_for_files
from steelyard.privacy import keep_private
from steelyard.store.store import Store
from steelyard.study.sharing import SHARED, check_version, shelf_of
from steelyard.study.shelf import Kept, Shelf
from steelyard.study.study import Study

__all__ = ["RemoteStudy"]


class RemoteStudy:
    """A worker's copy of a study.

    Args:
        store: URL of the store.
        models: URL of the shelf; empty takes the one that the study names.
        cache: a folder for the copy, which a later worker takes up.
        images: where the images are on this machine; None where they are at the same path, or not needed.

    Raises:
        StoreError: the store cannot be used, or is of another version than this one.
        StudyError: the study shares nothing, or a newer version does.
    """

    def __init__(self, store: str, models: str, cache: Path, images: Path | None = None) -> None:
        self._store, self._models, self._images = store, models, images
        self._seen: Any = None
        with Store.open(store, create=False, migrate=False) as opened:
            record = self._record(opened)
            self._url = models or str(record["config"].get("models", ""))
            shelf = shelf_of(self._url, opened)
            if shelf is None:
                raise StudyError("the study names no `models`; say where its models are: --models URL")
            self.folder = cache / str(opened.settings.get("shelf"))
            for folder in (self.folder / "models", self.folder / "cache"):
                folder.mkdir(parents=True, exist_ok=True)
            keep_private(self.folder, new=True)
            self._take(record, shelf)

    def open(self) -> Study:
        """The study, open; its models come from the shelf and go there."""
        study = Study.open(self.folder, store=self._store)
        study.sharing.home = False
        return study

    def refresh(self, study: Study) -> None:
        """Take over what has become of configuration and images since.

        Raises: as the constructor.
        """
        record = self._record(study.store)
        if record != self._seen:
            assert study.sharing.shelf is not None
            self._take(record, study.sharing.shelf)

    def check_inputs(self, study: Study) -> None:
        """Make sure that there is something to learn from on this machine.

        Raises:
            StudyError: the images are not here, and what the model sees of them has not been shared.
        """
        if study.described:
            return
        files = look_for_files(study.catalog)
        if files.looked and files.missing == files.looked:
            raise StudyError(
                f"not one of the study's images is on this machine ({study.catalog.root}/{files.example} for example is not), and "
                "no features have been shared; name their folder here with --images DIR, or let the server compute the features: "
                "steelyard serve STUDY"
            )

    def _record(self, store: Store) -> dict[str, Any]:
        record: dict[str, Any] | None = store.settings.get(SHARED)
        if record is None:
            raise StudyError(
                f'{store.url} holds a study that shares nothing yet; set models = "URL" in its study.toml and run it there once: '
                "steelyard serve STUDY"
            )
        check_version(str(record["steelyard"]), "what the study shares")
        return record

    def _take(self, record: dict[str, Any], shelf: Shelf) -> None:
        config = StudyConfig.from_dict(record["config"], source="the shared study.toml")
        config = config.with_changes(store="", models=self._url)
        files = {name: Kept(*kept) for name, kept in record["files"].items()}
        before = {} if self._seen is None else self._seen["files"]
        if self._seen is None or record["files"] != before:
            self._take_files(files, config, shelf)
        toml = self.folder / "study.toml"
        if not toml.exists() or StudyConfig.load(toml, any_strategy=True) != config:
            config.save(toml)  # last: a folder with a study.toml is a whole study
        self._seen = record

    def _take_files(self, files: dict[str, Kept], config: StudyConfig, shelf: Shelf) -> None:
        source: Path | None = None
        for name, kept in files.items():
            if name in ("catalog.features.npy", "catalog.pixels.npy"):
                source = self.folder / name.replace(".npy", f".{kept.digest[:16]}.npy")
                self._get(source, kept, shelf)
        given = self.folder / f".catalog-{files['catalog.arrow'].digest[:16]}.arrow"
        self._get(given, files["catalog.arrow"], shelf)
        catalog = Catalog.open(given)
        if source is not None or self._images is not None:
            catalog = catalog.with_root(self._images, source=source)
        catalog.save(self.folder / "catalog.arrow")
        if kept_rows := files.get("inputs.npy"):
            rows = self.folder / "cache" / f".inputs-{kept_rows.digest[:16]}.npy"
            self._get(rows, kept_rows, shelf)
            _fill_cache(
                self.folder / "cache", catalog, config, np.load(rows, mmap_mode="r", allow_pickle=False)
            )

    def _get(self, target: Path, kept: Kept, shelf: Shelf) -> None:
        if target.exists():  # named after its content, and renamed when it was whole
            return
        coming = target.with_name(f"{target.name}.new")
        shelf.get(f"files/{kept.digest}", coming, kept)
        coming.rename(target)


def _fill_cache(cache: Path, catalog: Catalog, config: StudyConfig, rows: Any) -> None:
    """Put rows that others computed where this machine would look for its own."""
    from steelyard.ranker.features import feature_settings

    if len(rows) != len(catalog):
        return  # images have joined since; they are described when their rows come
    ranker = config.ranker
    cached_rows(
        cache, catalog.ids, lambda wanted: np.asarray(rows[wanted]), row_shape=rows.shape[1:], dtype=rows.dtype,
        settings=feature_settings(ranker.backbone, ranker.image_size, ranker.weights, recipe=ranker.recipe),
    )  # fmt: skip
