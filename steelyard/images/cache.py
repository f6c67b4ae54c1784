"""Rows computed once per image – resized pixels, backbone features – in memory-mapped files.

A cache is a folder for each combination of settings, with three files:

    settings.json    what was computed, for people
    rows.dat         the rows, one after the other
    ids.dat          their ids, 32 bytes each, in the same order

A row counts only when its id is in `ids.dat`, and the id is written after the row has reached the disk. So whoever is
killed while writing leaves whole rows only; the torn rest is overwritten by the next. Computing needs no lock;
appending takes one, and looks first at what others have appended meanwhile: several processes can fill one cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from steelyard.errors import CatalogError, ImageError
from steelyard.files import write_atomically
from steelyard.images.columns import Strings, hex_view
from steelyard.images.decode import Reading
from steelyard.images.files import content_id
from steelyard.images.ordered import gather
from steelyard.progress import Progress

__all__ = [
    "RowFiles", "UnreadableImages", "cached_pixels", "cached_rows", "find_rows", "kept_rows", "keys_of", "pixel_settings",
]  # fmt: skip

_FORMAT = 1
_ID = np.dtype("S32")


class UnreadableImages(ImageError):
    """Some images could not be read; the rows of all others are in the cache.

    Leave them out and ask again, which costs nothing:

        try:
            rows = cached_rows(folder, catalog.ids, compute, …)
        except UnreadableImages as error:
            catalog = catalog.subset(np.delete(np.arange(len(catalog)), error.positions))
            rows = cached_rows(folder, catalog.ids, compute, …)

    Attributes:
        failures: position in `ids` and error of each.
    """

    def __init__(self, failures: Sequence[tuple[int, ImageError]]) -> None:
        self.failures = tuple(failures)
        first = self.failures[0][1]
        more = len(self.failures) - 1
        super().__init__(first.path, first.reason + (f" (and {more} more unreadable images)" if more else ""))

    @property
    def positions(self) -> list[int]:
        """Positions of the unreadable images, ascending."""
        return [position for position, _ in self.failures]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failures,)


def cached_rows(
    folder: str | Path,
    ids: Sequence[str] | NDArray[np.str_] | Strings,
    compute: Callable[[NDArray[np.int64]], NDArray[Any]],
    *,
    row_shape: Sequence[int],
    dtype: DTypeLike,
    settings: Mapping[str, Any],
    progress: Progress | None = None,
    text: str = "features",
    batch: int = 64,
    on_error: Literal["finish", "fail"] = "finish",
) -> NDArray[Any]:
    """A row for each id, computed now or earlier.

    When `compute` raises an ImageError, its batch is computed again one by one, so that one bad file costs only
    itself; everything that can be computed is kept, then the bad ones are raised together.

    Args:
        folder: where caches are kept.
        ids: the images.
        compute: given positions in `ids`, shape (b,), returns rows of shape (b, *row_shape). Called for missing rows.
        row_shape: shape of one row.
        dtype: of the rows.
        settings: everything the rows depend on besides the image (backbone, size, version …), as plain JSON values;
            other settings are another cache.
        progress: told after each batch how many of all rows are there.
        text: what it is told is computed.
        batch: images computed at a time.
        on_error: `finish` what can be computed before raising, or `fail` at the first bad image.

    Returns:
        Shape (len(ids), *row_shape), rows in the order of `ids`: the memory map itself (read-only) where the cache
        has them in this order, else an array gathered from it.

    Raises:
        UnreadableImages: images that `compute` could not read; all other rows are in the cache.
        CatalogError: settings that are not JSON, rows of another shape or not finite, or a disk that is full.
    """
    keys = keys_of(ids)
    store = RowFiles(Path(folder), tuple(int(n) for n in row_shape), np.dtype(dtype), settings)
    failures: list[tuple[int, ImageError]] = []
    todo = store.missing(keys)
    if len(todo):  # an id that is given twice is computed once
        todo = todo[np.sort(np.unique(keys[todo], return_index=True)[1])]
    if len(todo):
        store.prepare()
    done = len(keys) - len(todo)
    if progress is not None and len(todo):
        progress(done, len(keys), text)
    while len(todo):
        now, todo = todo[:batch], todo[batch:]
        # Another process may have computed them since.
        store.refresh()
        wanted = now[store.not_by_others(keys[now])]
        rows, good, bad = _try(compute, wanted, on_error)
        failures += bad
        if len(good):
            store.append(keys[good], _checked(rows, store, keys[good]))
        done += len(now)
        if progress is not None:
            progress(done, len(keys), text)
    if failures:
        raise UnreadableImages(failures)
    return store.take(keys)


def kept_rows(
    folder: str | Path, ids: Sequence[str] | NDArray[np.str_] | Strings, settings: Mapping[str, Any]
) -> NDArray[Any] | None:
    """The rows of all ids as `cached_rows` gives them, None where one is missing. Nothing is computed or written.

    The shape of a row need not be known: finding it out may mean loading a network.
    """
    keys, store = keys_of(ids), find_rows(Path(folder), settings)
    return None if store is None or len(store.missing(keys)) else store.take(keys)


def find_rows(folder: Path, settings: Mapping[str, Any]) -> RowFiles | None:
    """The cache of some settings, whatever the shape of its rows."""
    for path in sorted(folder.glob("*/settings.json")):
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # somebody is making it, or it is not ours
        if about.get("settings") == dict(settings) and about.get("format") == _FORMAT:
            return RowFiles(folder, tuple(about["row_shape"]), np.dtype(about["dtype"]), settings)
    return None


class _Readable(Protocol):
    @property
    def ids(self) -> Strings: ...
    def read_many(self, rows: Any = ..., *, size: int | None = ..., workers: int = ...) -> Reading: ...


def pixel_settings(size: int) -> dict[str, Any]:
    """What cached pixels depend on besides the image."""
    return {"what": "pixels", "size": size, "resize": "bilinear squeeze", "version": 1}


def cached_pixels(
    folder: str | Path,
    catalog: _Readable,
    size: int,
    *,
    workers: int = 0,
    progress: Progress | None = None,
    on_error: Literal["finish", "fail"] = "finish",
) -> NDArray[np.uint8]:
    """All pictures of a catalog resized to a square, uint8 (N, size, size, 3), decoded once and mapped from then on.

    Raises:
        UnreadableImages: as in `cached_rows`.
    """

    def compute(positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        reading = catalog.read_many(positions, size=size, workers=workers)
        rows = [rgb for _, rgb in reading]
        if reading.failures:
            raise reading.failures[0][1]
        return np.stack(rows)

    return cached_rows(
        folder,
        catalog.ids,
        compute,
        row_shape=(size, size, 3),
        dtype=np.uint8,
        settings=pixel_settings(size),
        progress=progress,
        text="pixels",
        batch=256,
        on_error=on_error,
    )


def _try(
    compute: Callable[[NDArray[np.int64]], NDArray[Any]], wanted: NDArray[np.int64], on_error: str
) -> tuple[NDArray[Any], NDArray[np.int64], list[tuple[int, ImageError]]]:
    """Rows, the positions they belong to, and what could not be read."""
    if not len(wanted):
        return np.empty(0), wanted, []
    try:
        return np.asarray(compute(wanted)), wanted, []
    except ImageError as error:
        if on_error == "fail":
            raise
        if len(wanted) == 1:
            return np.empty(0), wanted[:0], [(int(wanted[0]), error)]
    # Halving finds b bad images among n with about b·log₂(n) calls and keeps the good ones in batches.
    middle = len(wanted) // 2
    left, right = (_try(compute, half, on_error) for half in (wanted[:middle], wanted[middle:]))
    parts = [part for part in (left, right) if len(part[1])]
    rows = np.concatenate([part[0] for part in parts]) if parts else np.empty(0)
    return rows, np.concatenate([left[1], right[1]]), left[2] + right[2]


class RowFiles:
    """The files of one cache."""

    def __init__(
        self, folder: Path, shape: tuple[int, ...], dtype: np.dtype[Any], settings: Mapping[str, Any]
    ) -> None:
        about = {"settings": settings, "row_shape": shape, "dtype": dtype.str, "format": _FORMAT}
        try:
            text = json.dumps(about, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CatalogError(
                f"cache settings are plain JSON values, not {dict(settings)!r}: {error}"
            ) from error
        self.folder = folder / hashlib.blake2b(text.encode()).hexdigest()[:16]
        self.about = json.dumps(about, sort_keys=True, indent=1)
        self.shape, self.dtype = shape, dtype
        self.row_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if self.row_bytes < 1 or dtype.hasobject:
            raise CatalogError(f"a cached row has at least one number, not shape {shape} of {dtype}")
        self.count = 0
        self._parts: list[NDArray[np.bytes_]] = []
        self._others: set[bytes] = set()
        self._add(self._read_new())

    @property
    def known(self) -> NDArray[np.bytes_]:
        """Ids of the rows in the file, in order."""
        if len(self._parts) != 1:  # put together when asked for, not after every batch
            self._parts = [np.concatenate([np.empty(0, dtype=_ID), *self._parts])]
        return self._parts[0]

    def refresh(self) -> None:
        """See what others have added since."""
        added = self._read_new()
        self._add(added)
        self._others.update(added.tolist())

    def _read_new(self) -> NDArray[np.bytes_]:
        path = self.folder / "ids.dat"
        size = path.stat().st_size if path.exists() else 0
        more = size // _ID.itemsize - self.count
        if more <= 0:
            return np.empty(0, dtype=_ID)
        with path.open("rb") as file:
            file.seek(self.count * _ID.itemsize)
            added = np.frombuffer(file.read(more * _ID.itemsize), dtype=_ID)
        # After a power cut a file system may show zeros where nothing was written yet.
        empty = added == b""
        return added[: int(np.argmax(empty))] if empty.any() else added

    def not_by_others(self, keys: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        """Which of the keys nobody else has added since this cache was opened."""
        return np.fromiter((key not in self._others for key in keys.tolist()), dtype=bool, count=len(keys))

    def _add(self, keys: NDArray[np.bytes_]) -> None:
        if len(keys):
            self._parts.append(keys)
            self.count += len(keys)

    def places(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """For each key its row in the file, −1 where it has none."""
        known = self.known
        if not len(known):
            return np.full(len(keys), -1, dtype=np.int64)
        if np.array_equal(keys, known[: len(keys)]):  # the usual case, and the only one without sorting
            return np.arange(len(keys))
        order = np.argsort(known)
        rows = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(order) - 1)]
        return np.where(known[rows] == keys, rows, -1)

    def missing(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Positions of the keys that have no row yet."""
        return np.flatnonzero(self.places(keys) < 0)

    def prepare(self) -> None:
        """Make the folder."""
        with _disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / "settings.json"
            if not path.exists():
                write_atomically(path, self.about)

    def append(self, keys: NDArray[np.bytes_], rows: NDArray[Any]) -> None:
        """Add rows; those that somebody else added meanwhile are left out."""
        from filelock import FileLock  # flock or its like; a killed process gives it back

        with _disk_errors(self.folder), FileLock(self.folder / "lock", poll_interval=0.005):
            self.refresh()
            new = self.not_by_others(keys)
            keys, rows = keys[new], rows[new]
            _write(self.folder / "rows.dat", self.count * self.row_bytes, rows.tobytes())
            _write(self.folder / "ids.dat", self.count * _ID.itemsize, keys.tobytes())
            self._add(keys)

    def take(self, keys: NDArray[np.bytes_]) -> NDArray[Any]:
        """The rows of these keys, all of which are there: mapped if they are in order or very many, else gathered."""
        if not len(keys):
            return np.empty((0, *self.shape), dtype=self.dtype)
        places = self.places(keys)
        mapped = np.memmap(self.folder / "rows.dat", self.dtype, "r", shape=(self.count, *self.shape))
        first = int(places[0])
        if np.array_equal(places, np.arange(first, first + len(places))):
            return mapped[first : first + len(places)]
        return gather(mapped, places, self.folder)


def _write(path: Path, offset: int, data: bytes) -> None:
    """Put data at an offset and see it to the disk; what lay behind is cut off (the rest of a killed writer)."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _checked(rows: NDArray[Any], store: RowFiles, keys: NDArray[np.bytes_]) -> NDArray[Any]:
    if rows.shape != (len(keys), *store.shape):
        raise CatalogError(f"computed rows have the shape {rows.shape}, expected {(len(keys), *store.shape)}")
    with np.errstate(over="ignore"):  # what does not fit in float16 becomes infinite and is caught below
        rows = np.ascontiguousarray(rows, dtype=store.dtype)
    if store.dtype.kind == "f":
        good = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not good.all():
            bad = keys[~good][0].decode()
            raise CatalogError(f"the computed row of image {bad} is not finite; it was not cached")
    return rows


def keys_of(ids: Sequence[str] | NDArray[np.str_] | Strings) -> NDArray[np.bytes_]:
    """Ids as 32 bytes each; ids of another form are hashed to that length."""
    if isinstance(ids, Strings):
        try:
            keys = np.ascontiguousarray(hex_view(ids.arrow))
        except (ValueError, AttributeError):
            return keys_of(ids.tolist())
    else:
        plain = (
            id if len(id) == 32 and id.isascii() and id.isalnum() else content_id(id.encode())
            for id in map(str, ids)
        )
        keys = np.array(list(plain), dtype=_ID)
    return keys


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CatalogError(
            f"cannot write the cache {folder}: {error.strerror or error}; free some space or choose another folder"
        ) from error
