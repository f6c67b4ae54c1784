"""What a cache has while it is being filled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.images.cache import find_rows, keys_of
from steelyard.images.columns import Strings

__all__ = ["missing_rows", "rows_so_far"]


def rows_so_far(
    folder: Path, ids: Strings, settings: Mapping[str, Any], most: int
) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """The rows that are there, the `most` oldest at most, and of which ids they are; zeros elsewhere. None where there are none.

    The oldest, because what somebody waits for is computed first and must not drop out later. Zeros that nobody touches take no memory.
    """
    kept = find_rows(folder, settings)
    places = np.empty(0, dtype=np.int64) if kept is None else kept.places(keys_of(ids))
    there = np.flatnonzero(places >= 0)
    if len(there) > most:
        there = np.sort(there[np.argsort(places[there])[:most]])
    if kept is None or not len(there):
        return None
    rows = np.zeros((len(ids), *kept.shape), dtype=kept.dtype)
    mapped = np.memmap(kept.folder / "rows.dat", kept.dtype, "r", shape=(kept.count, *kept.shape))
    rows[there] = mapped[places[there]]
    return rows, there


def missing_rows(folder: Path, ids: Strings, settings: Mapping[str, Any]) -> NDArray[np.int64]:
    """Positions of the ids that have no row yet."""
    kept = find_rows(folder, settings)
    return np.arange(len(ids)) if kept is None else kept.missing(keys_of(ids))
