"""A study on a machine that has only its store and its shelf: a private folder, made and kept up to date from the two."""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.config import RankerConfig, StudyConfig
from steelyard.errors import StudyError, why_not
from steelyard.files import UNFINISHED, sync_file, sync_folder
from steelyard.images.cache import cached_rows
from steelyard.images.catalog import Catalog
from steelyard.images.presence import look_for_files
from steelyard.privacy import keep_private
from steelyard.progress import Progress
from steelyard.store.store import Store
from steelyard.study.inputs import Inputs
from steelyard.study.sharing import (
    ABSENT,
    INPUTS,
    SHARED,
    SOME_INPUTS,
    check_version,
    remove_forgotten,
    shelf_of,
)
from steelyard.study.shelf import Kept, Shelf, ShelfError
from steelyard.study.study import Study

__all__ = ["RemoteStudy"]


@dataclass(frozen=True)
class _SharedInputs:
    """What was computed where the images are: also which of them could not be read there.

    Attributes:
        settings: what it depends on besides the images.
        inputs: as a study sees them.
    """

    settings: dict[str, Any]
    inputs: Inputs


class _Copy(Study):
    """A study that sees what the one it was copied from sees, whatever images are on this machine."""

    shared: _SharedInputs | None = None

    def seen(self, progress: Progress | None = None) -> Inputs:
        """What was shared; what this machine can compute where that is of other images or settings."""
        return super().seen(progress) if (given := self._given()) is None else given

    @property
    def described(self) -> bool:
        """Whether `seen` has nothing to compute any more."""
        return self._given() is not None or super().described

    def _given(self) -> Inputs | None:
        shared = self.shared
        if shared is None or shared.settings != _settings(self.config.ranker):
            return None
        return shared.inputs if len(shared.inputs.rows) == len(self.catalog) else None


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
        self._inputs: _SharedInputs | None = None
        with Store.open(store, create=False, migrate=False) as opened:
            record = self._record(opened)
            self._url = models or str(record["config"].get("models", ""))
            shelf = shelf_of(self._url, opened)
            if shelf is None:
                raise StudyError("the study names no `models`; say where its models are: --models URL")
            self._place = _place_of(record, shelf.study)
            self.folder = cache / shelf.study
            for folder in (self.folder / "models", self.folder / "cache"):
                folder.mkdir(parents=True, exist_ok=True)
                remove_forgotten(folder, f".*{UNFINISHED}")
            remove_forgotten(self.folder, f".*{UNFINISHED}")
            keep_private(self.folder, new=True)
            _forget_zeros(self.folder / "cache")
            self._take(record, shelf)

    def open(self) -> Study:
        """The study, open; its models come from the shelf and go there."""
        study = _Copy.open(self.folder, store=self._store)
        study.sharing.home = False
        study.sharing.use(study.sharing.shelf, self._place)
        self._show(study)
        return study

    def refresh(self, study: Study) -> None:
        """Take over what has become of configuration and images since, and from where it is shared now.

        Raises: as the constructor.
        """
        record = self._record(study.store)
        if record != self._seen:
            self._move(record, study)
            assert study.sharing.shelf is not None
            self._take(record, study.sharing.shelf)
            self._show(study)

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

    def _move(self, record: dict[str, Any], study: Study) -> None:
        """Go on where the study shares now."""
        place = _place_of(record, self.folder.name)
        if place == self._place:
            return
        url, name = place
        if name != self.folder.name:
            raise StudyError(
                "the store holds another copy of the study now, restored from a backup; start this worker again"
            )
        if self._models and self._models != url:
            raise StudyError(
                f"the study shares its models at {url} now, and this worker was told --models {self._models}; start it again with "
                "where they are now"
            )
        study.sharing.use(Shelf(url, name), place)
        self._url, self._place = url, place

    def _show(self, study: Study) -> None:
        assert isinstance(study, _Copy)
        study.shared = self._inputs

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
        if kept_rows := files.get(SOME_INPUTS) or files.get(INPUTS):
            self._take_inputs(kept_rows, files.get(ABSENT), catalog, config.ranker, shelf)

    def _take_inputs(
        self, kept: Kept, absent: Kept | None, catalog: Catalog, ranker: RankerConfig, shelf: Shelf
    ) -> None:
        """Have the copy see what was shared, and keep it by image: for when others join, which alone are computed then."""
        settings, cache = _settings(ranker), self.folder / "cache"
        if settings is None:
            return
        file = cache / f".rows-{kept.digest[:16]}.npy"
        self._get(file, kept, shelf)
        rows = np.load(file, mmap_mode="r", allow_pickle=False)
        if absent is None:  # shared by an earlier version, which left zeros
            without, reasons = np.flatnonzero(~rows.any(axis=1)), ()
        else:
            listed = cache / f".absent-{absent.digest[:16]}.json"
            self._get(listed, absent, shelf)
            about = json.loads(listed.read_text(encoding="utf-8"))
            without, reasons = np.array(about["rows"], dtype=np.int64), tuple(about["reasons"])
        self._inputs = _SharedInputs(settings, Inputs(rows, without, reasons))
        if len(rows) != len(catalog):
            return  # images have joined since; they are described when their rows come
        there = np.setdiff1d(np.arange(len(rows)), without)
        part = catalog.subset(there) if len(without) else catalog
        cached_rows(
            cache, part.ids, lambda wanted: np.asarray(rows[there[wanted]]), row_shape=rows.shape[1:], dtype=rows.dtype,
            settings=settings,
        )  # fmt: skip

    def _get(self, target: Path, kept: Kept, shelf: Shelf) -> None:
        """Have a file that is named after its content; another worker may be fetching it into the same folder."""
        if target.exists() and target.stat().st_size == kept.bytes:  # after a power cut it may be empty
            return
        coming = target.with_name(f".{target.name}.{secrets.token_hex(4)}{UNFINISHED}")
        try:
            shelf.get(f"files/{kept.digest}", coming, kept)
            sync_file(coming)
            coming.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise ShelfError(
                f"what the study shares cannot be kept here: {why_not(error, target)}"
            ) from error
        finally:
            coming.unlink(missing_ok=True)


def _place_of(record: dict[str, Any], name: str) -> list[str]:
    """URL and folder of what is shared; earlier versions wrote down the URL alone."""
    return list(record.get("shelf") or [str(record["config"].get("models", "")), name])


def _settings(ranker: RankerConfig) -> dict[str, Any] | None:
    """What the features of images depend on besides the images; None for a ranker that takes something else."""
    from steelyard.ranker.features import feature_settings

    if ranker.inputs != "features" or ranker.backbone == "none":
        return None
    return feature_settings(ranker.backbone, ranker.image_size, ranker.weights, recipe=ranker.recipe)


def _forget_zeros(cache: Path) -> None:
    """Drop features that an earlier version kept for images that could not be read: it took zeros for computed.

    That version is known by the name under which it kept what was shared.
    """
    for old in sorted(cache.glob(".inputs-*.npy")):
        try:
            whole = bool(np.load(old, mmap_mode="r", allow_pickle=False).any(axis=1).all())
        except (OSError, ValueError, EOFError):
            whole = False
        for about in () if whole else sorted(cache.glob("*/settings.json")):
            with suppress(FileNotFoundError):  # another worker that starts here was faster
                if '"what": "features"' in about.read_text(encoding="utf-8"):
                    shutil.rmtree(about.parent, ignore_errors=True)
        old.unlink(missing_ok=True)  # last: whoever is killed before looks again
