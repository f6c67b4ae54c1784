"""A row for each image: read, resized and pushed through something in batches, computed once and cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ImageError, RankerError

if TYPE_CHECKING:
    from steelyard.progress import Progress

__all__ = ["Readable", "Source", "is_catalog", "rows_of"]


class Readable(Protocol):
    """What is needed of a catalog."""

    @property
    def ids(self) -> Any:
        """An id for each image."""

    def __len__(self) -> int: ...

    def read(self, row: int, /) -> NDArray[np.uint8]:
        """RGB, shape (H, W, 3)."""


Source = Readable | NDArray[np.uint8] | Sequence[NDArray[np.uint8]]


def rows_of(
    source: Source,
    push: Callable[[NDArray[np.uint8]], NDArray[np.float32]],
    *,
    side: int,
    row_shape: tuple[int, ...],
    settings: Mapping[str, Any],
    cache: Path | None = None,
    batch: int = 16,
    threads: int = 0,
    progress: Progress | None = None,
    scaled: bool = False,
) -> NDArray[np.float32]:
    """What comes out for every image, shape (N, *row_shape).

    Args:
        source: a catalog, or pictures: uint8 of the shape (N, H, W, 3), or a sequence of (H, W, 3) of any sizes.
        push: pictures of one size (B, side, side, 3) → rows (B, *row_shape).
        side: pixels that images are resized to, each way.
        row_shape: shape of one row.
        settings: everything the rows depend on besides the image.
        cache: folder that keeps the rows, by content and settings; None computes them anew.
        batch: images per pass.
        threads: CPU threads meanwhile; 0 leaves the default.
        progress: told how many images are done.
        scaled: a JPEG may be unpacked smaller, to no less than twice the side; pixels differ a little.

    Raises:
        RankerError: pictures that are not uint8 RGB.
        ImageError: a picture of the catalog that cannot be read.
    """
    import torch

    from steelyard.images.decode import resize
    from steelyard.ranker.device import cpu_threads

    read = _reader(source, 2 * side if scaled else 0)

    at_hand: dict[int, NDArray[np.uint8] | ImageError] = {}

    def one(row: int) -> NDArray[np.uint8] | ImageError:
        try:
            return resize(read(row), side)
        except ImageError as error:
            return error

    def pictures(rows: list[int]) -> NDArray[np.uint8]:
        # Around one that cannot be read the cache asks again for parts of a batch: they are not unpacked again.
        if not at_hand.keys() >= set(rows):
            at_hand.clear()
            at_hand.update(zip(rows, pool.map(one, rows), strict=True))
        found = []
        for row in rows:
            picture = at_hand[row]
            if isinstance(picture, ImageError):
                raise picture
            found.append(picture)
        return np.stack(found)

    def compute(rows: NDArray[np.int64]) -> NDArray[np.float32]:
        parts = [push(pictures(rows[start : start + batch].tolist())) for start in range(0, len(rows), batch)]
        return np.concatenate(parts)

    # Decoders work outside of Python's lock: files are read by as many threads as the network has.
    with cpu_threads(threads), ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="read") as pool:
        if cache is not None:
            return _cached(source, compute, cache, row_shape, settings, batch, progress)
        found = np.empty((len(source), *row_shape), dtype=np.float32)
        for start in range(0, len(source), batch):
            rows = np.arange(start, min(start + batch, len(source)))
            found[rows] = compute(rows)
            if progress is not None:
                progress(int(rows[-1]) + 1, len(source), "features")
    return found


def _cached(
    source: Any,
    compute: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    folder: Path,
    row_shape: tuple[int, ...],
    settings: Mapping[str, Any],
    batch: int,
    progress: Progress | None,
) -> NDArray[np.float32]:
    from steelyard.images.cache import cached_rows
    from steelyard.images.files import content_id

    def ask(ids: Any, given: Callable[[NDArray[np.int64]], NDArray[np.float32]]) -> NDArray[np.float32]:
        return cached_rows(
            folder,
            ids,
            given,
            row_shape=row_shape,
            dtype=np.float32,
            settings=settings,
            progress=progress,
            batch=batch,
        )

    if is_catalog(source):
        return ask(source.ids, compute)
    ids = [
        content_id(repr(picture.shape).encode(), np.ascontiguousarray(picture).tobytes())
        for picture in source
    ]
    # A catalog has every picture once; an array may repeat one.
    once, first, back = np.unique(ids, return_index=True, return_inverse=True)
    return np.asarray(ask(once, lambda rows: compute(first[rows]))[back])


def is_catalog(source: Any) -> bool:
    """Whether it is a catalog, and not pictures."""
    return hasattr(source, "read") and hasattr(source, "ids")


def _reader(source: Any, least: int) -> Callable[[int], NDArray[np.uint8]]:
    """How to get picture i; one that can be unpacked smaller may come with sides of `least` pixels, 0 for whole."""
    if is_catalog(source):
        if least and hasattr(source, "read_small"):
            return lambda row: source.read_small(row, least)
        return source.read  # type: ignore[no-any-return]
    if isinstance(source, np.ndarray) and source.ndim != 4:
        raise RankerError(f"pictures have the shape (N, height, width, 3), not {source.shape}")
    for k, picture in enumerate(source[:1] if isinstance(source, np.ndarray) else source):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise RankerError(
                f"picture {k} is {picture.dtype} of {picture.shape}; expected uint8 RGB (height, width, 3)"
            )
    return lambda row: source[row]
