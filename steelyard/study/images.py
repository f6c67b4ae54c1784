"""The images of a study over time: others join them, their folder moves, and every process that has it open follows.

The store knows first which images joined, in one transaction; `catalog.arrow` is then written with their rows at its end.
Whoever finds the file shorter than the store – the power went in between – completes it from there. A process that has
the study open looks at the file now and then (`CatalogWatch`), so nothing has to be started again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.errors import CatalogError, StudyError, command
from steelyard.images.catalog import Catalog
from steelyard.images.decode import OnError
from steelyard.images.joining import (
    Newcomer,
    described_as,
    find_newcomers,
    is_extension,
    with_newcomers,
    with_report,
)
from steelyard.images.reading import originals_in, read_catalog
from steelyard.images.remote import as_place, whole_place
from steelyard.images.report import CatalogReport
from steelyard.privacy import user_name
from steelyard.progress import Progress
from steelyard.store.records import NewImage
from steelyard.store.store import Store

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = ["Added", "CatalogWatch", "add_images", "complete_catalog", "kept_by", "relocate"]

log = logging.getLogger("steelyard")
_FILE = "catalog.arrow"


@dataclass(frozen=True)
class Added:
    """What `Study.add` did.

    Attributes:
        images: how many joined.
        known: how many files are images that were in the study already.
        total: images of the study now.
        report: what was left out or noticed, each by name.
    """

    images: int
    known: int
    total: int
    report: CatalogReport


def add_images(
    study: Study, images: Catalog | str | Path, *, labels: str | Path | None = None, layout: str | None = None,
    by: str | None = None, only: Collection[str] | None = None, progress: Progress | None = None,
) -> Added:  # fmt: skip
    """See `Study.add`; with `only`, these paths of the source alone."""
    new = images if isinstance(images, Catalog) else _read(study, images, labels, layout, only, progress)
    with _alone(study.folder):
        catalog = _complete(study.folder, Catalog.open(study.folder / _FILE), study.store, CatalogReport())
        # Files of a watched folder come one by one: a bad one keeps nobody else out.
        refusing: OnError = "fail" if only is None else "skip"
        joining = find_newcomers(catalog, new, study.grade_names, on_error=refusing)
        if joining.grade_names != catalog.grade_names:
            # Before the rows that need them: the store keeps codes only.
            catalog = described_as(catalog, grade_names=joining.grade_names)
            catalog.save(study.folder / _FILE)
        rows = [NewImage(0, image.id, image.path, image.group, image.grade) for image in joining.images]
        folder = str(new.root or "") if isinstance(images, Catalog) else str(images)
        added = study.store.images.append(rows, by=by or user_name(), detail={"folder": folder})
        if added:
            study.store.settings.keep("images joined", True)
        _complete(study.folder, catalog, study.store, joining.report)
    study.follow()
    return Added(added, joining.known, len(study.catalog), joining.report)


def kept_by(study: Study, catalog: Catalog) -> Catalog:
    """The catalog, told where this study keeps files that lie elsewhere."""
    catalog.originals = originals_in(study.folder / "cache", study.config.images)
    return catalog


def _read(
    study: Study, source: str | Path, labels: str | Path | None, layout: str | None, only: Collection[str] | None,
    progress: Progress | None,
) -> Catalog:  # fmt: skip
    """The images of a folder or URL, read like the study's own unless a layout is named."""
    own = study.config.images.layout
    if study.catalog.kind != "files":
        raise StudyError(
            f"images can join where each is a file of its own, and this study compares {study.catalog.kind}; "
            "make another study with: steelyard init"
        )
    # A table that came with the first images says nothing of these.
    chosen = layout or ("csv" if labels else "folder" if own in ("csv", "features", "medmnist") else own)
    config = study.config.images.with_changes(
        root=whole_place(source),
        layout=chosen,
        labels=str(Path(labels).resolve()) if labels else "",
        features="",
        on_error="skip" if only is not None else study.config.images.on_error,
    )
    return read_catalog(
        config, known=frozenset(study.catalog.ids), only=only, cache=study.folder / "cache", progress=progress
    )


def complete_catalog(folder: Path, catalog: Catalog, store: Store) -> Catalog:
    """The catalog with the images that the store knows beyond it, where adding them was cut short.

    Raises:
        CatalogError: the file cannot be written.
    """
    if catalog.kind != "files" or store.images.count() <= len(catalog):
        return catalog
    with _alone(folder):
        return _complete(folder, Catalog.open(folder / _FILE), store, CatalogReport())


def _complete(folder: Path, catalog: Catalog, store: Store, report: CatalogReport) -> Catalog:
    """Write the rows that are missing; whoever calls this is alone."""
    beyond = store.images.all(after_row=len(catalog) - 2)  # with the last one that both know
    if not beyond or beyond[0].id != catalog.ids[len(catalog) - 1]:
        return catalog  # not the same study: `steelyard check` says so
    both = with_report(catalog.report, report)
    new = [Newcomer(image.id, image.path, image.group, image.grade) for image in beyond[1:]]
    if new or both != catalog.report:
        catalog = described_as(with_newcomers(catalog, new), report=both)
        catalog.save(folder / _FILE)
    return catalog


def relocate(study: Study, root: str | Path) -> list[str]:
    """See `Study.relocate`.

    Raises:
        StudyError: there is no such folder, or it holds not one of the images; nothing is changed.
    """
    place = as_place(root)
    if isinstance(place, str) and study.catalog.kind != "files":
        raise StudyError(
            f"only images in files can be found again at a URL, and this study compares {study.catalog.kind}"
        )
    if isinstance(place, Path) and not place.is_dir():
        there = f"{root} is a file, not a folder" if place.exists() else f"there is no folder {root}"
        raise StudyError(f"{there}; name the folder that holds the images now: {_say_again(study)}")
    with _alone(study.folder):
        study.follow()
        if study.catalog.kind == "files":
            found, _, missing = study.catalog.relocate(place)
        else:
            found = study.catalog.with_root(root)
            paths = [found.source.name] if found.kind == "npz" and found.source else []
            paths = found.paths.tolist() if found.kind == "features" else paths
            missing = tuple(path for path in paths if not (Path(root) / path).is_file())
        if len(missing) == (1 if found.kind == "npz" else len(found)):
            raise StudyError(
                f"{root} holds not one of the {len(found)} images ({missing[0]} for example is not there), so nothing was "
                f"changed; name the folder that holds them: {_say_again(study)}"
            )
        found.save(study.folder / _FILE)
    study.store.images.relocate(dict(zip(map(str, found.ids), map(str, found.paths), strict=True)))
    study.config = study.config.with_changes(images={"root": whole_place(place)})
    study.config.save(study.folder / "study.toml")
    study.follow()
    return list(missing)


def _say_again(study: Study) -> str:
    return command("relocate", study.folder, "DIR")


class CatalogWatch:
    """Notices that a study's catalog was written anew; several threads may ask.

    Args:
        folder: of the study.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._lock = threading.Lock()
        self._seen = self._look()

    def follow(self, study: Study, use: Callable[[Catalog], None]) -> bool:
        """Use the catalog as it is on disk now; whether there was anything new.

        What cannot be read, or is about other images, is told once and left alone: people go on with what they have.
        """
        if self._look() == self._seen:
            return False
        with self._lock:
            now = self._look()
            if now == self._seen:
                return False
            self._seen = now
            try:
                found = Catalog.open(self._file)
            except CatalogError as error:
                log.warning("%s; the images known so far are used", error)
                return False
            if not is_extension(found, study.catalog):
                log.warning("%s is about other images now; those known so far are used", self._file)
                return False
            use(found)
            return True

    def _look(self) -> tuple[int, ...]:
        try:
            seen = self._file.stat()
        except OSError:
            return ()
        return seen.st_ino, seen.st_size, seen.st_mtime_ns


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time writes a study's catalog; a killed one gives the lock back."""
    from filelock import FileLock

    try:
        (folder / "cache").mkdir(exist_ok=True)
        lock = FileLock(folder / "cache" / "catalog.lock", poll_interval=0.05)
        lock.acquire()
    except OSError as error:
        raise StudyError(f"{folder} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
