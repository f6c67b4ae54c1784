"""Are the files still what they were, and where are they after their folder was moved or renamed? Content decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from steelyard.errors import ImageError
from steelyard.images.files import find_images, look_at, look_at_all
from steelyard.images.remote import join
from steelyard.progress import Progress

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog

__all__ = ["Relocated", "find_again", "is_still", "what_is_wrong"]


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
    catalog: Catalog, root: Path | str, *, workers: int = 0, progress: Progress | None = None
) -> tuple[list[str], tuple[str, ...]]:
    """Where the images of a catalog are, looked for below a folder or a URL by their bytes.

    Images may lie in several folders, and one alone was moved: what is not below the new one but still where it was
    stays there, under its whole path.

    Args:
        catalog: of files.
        root: the folder or URL.
        workers: threads; 0 takes as many as fit.
        progress: called after each file.

    Returns:
        Their paths, the old one where the bytes are nowhere; and the old paths of those.

    Raises:
        CatalogError: there is no such folder.
        UnreachableError: nobody answers at the URL.
    """
    places: dict[str, str] = {}
    for item in look_at_all(root, find_images(root).paths, workers=workers, progress=progress):
        if not isinstance(item, ImageError):
            for frame, id in enumerate(item.ids, 1):
                path = join(root, item.path) if isinstance(root, str) else item.path
                places.setdefault(id, path + (f"#{frame}" if len(item.ids) > 1 else ""))
    found, missing = [], []
    for row, (id, path) in enumerate(zip(catalog.ids, catalog.paths, strict=True)):
        place = places.get(id) or _where_it_was(catalog, row, id)
        found.append(place or path)
        if not place:
            missing.append(path)
    return found, tuple(missing)


def _where_it_was(catalog: Catalog, row: int, id: str) -> str:
    """The whole path of an image whose file is as it was, else ""."""
    place, frame = catalog.place(row)
    try:
        if not is_still(place, max(frame, 1), id):
            return ""
    except ImageError:
        return ""
    whole = place if isinstance(place, str) else place.resolve().as_posix()
    return whole + (f"#{frame}" if frame else "")


def is_still(place: Path | str, frame: int, id: str) -> bool:
    """Does the file (or its frame, counted from 1) have the bytes that gave it its id? What is kept of it does not count.

    Raises:
        ImageError: it cannot be read.
    """
    found = look_at("", place) if isinstance(place, str) else look_at(place.parent, place.name)
    return id in found.ids[frame - 1 : frame]


def what_is_wrong(catalog: Catalog, row: int) -> str:
    """Why an image cannot be shown as it was when it joined; empty where it can. Reads it from where it lies."""
    place, frame = catalog.place(row)
    try:
        catalog.read_small(row, 1)
        if catalog.kind == "files" and not is_still(place, max(frame, 1), catalog.ids[row]):
            return "has other bytes than when the catalog was made"
    except ImageError as error:
        return error.reason
    return ""
