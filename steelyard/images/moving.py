"""Are the files still what they were, and where are they after their folder was moved or renamed? Content decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from steelyard.errors import ImageError
from steelyard.images.files import find_images, look_at, look_at_all
from steelyard.progress import Progress

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog

__all__ = ["Relocated", "find_again", "is_still"]


class Relocated(NamedTuple):
    """What `Catalog.relocate` found.

    Attributes:
        catalog: the catalog with the new root and the new paths.
        moved: number of images whose path changed.
        missing: paths (as they were) of images whose bytes are nowhere below the new root; they keep their rows.
    """

    catalog: Catalog
    moved: int
    missing: tuple[str, ...]


def find_again(
    catalog: Catalog, root: Path, *, workers: int = 0, progress: Progress | None = None
) -> tuple[list[str], tuple[str, ...]]:
    """Where the images of a catalog are, looked for below a folder by their bytes.

    Images may lie in several folders, and one alone was moved: what is not below the new one but still where it was
    stays there, under its whole path.

    Args:
        catalog: of files.
        root: the folder.
        workers: threads; 0 takes as many as fit.
        progress: called after each file.

    Returns:
        Their paths, the old one where the bytes are nowhere; and the old paths of those.

    Raises:
        CatalogError: there is no such folder.
    """
    places: dict[str, str] = {}
    for item in look_at_all(root, find_images(root).paths, workers=workers, progress=progress):
        if not isinstance(item, ImageError):
            for frame, id in enumerate(item.ids, 1):
                places.setdefault(id, item.path + (f"#{frame}" if len(item.ids) > 1 else ""))
    found, missing = [], []
    for row, (id, path) in enumerate(zip(catalog.ids, catalog.paths, strict=True)):
        place = places.get(id) or _where_it_was(catalog, row, id)
        found.append(place or path)
        if not place:
            missing.append(path)
    return found, tuple(missing)


def _where_it_was(catalog: Catalog, row: int, id: str) -> str:
    """The whole path of an image whose file is as it was, else ""."""
    file, frame = catalog._file(row)
    try:
        if not is_still(file, max(frame, 1), id):
            return ""
    except ImageError:
        return ""
    return file.resolve().as_posix() + (f"#{frame}" if frame else "")


def is_still(file: Path, frame: int, id: str) -> bool:
    """Does the file (or its frame, counted from 1) have the bytes that gave it its id?

    Raises:
        ImageError: it cannot be read.
    """
    return id in look_at(file.parent, file.name).ids[frame - 1 : frame]
