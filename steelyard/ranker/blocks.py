"""Rows that may be a memory map of a million images, read in pieces."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Rows
from steelyard.errors import RankerError

__all__ = ["blocks", "check_finite", "gather"]

_PIECE = 256  # rows of a memory map read at a time, where they lie apart


def blocks(rows: NDArray[Any], numbers: int) -> Iterator[slice]:
    """Slices of so many numbers each; what was read of a memory map is given back to the system after each."""
    step = max(1, numbers // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield slice(start, start + step)
        _give_back(rows)


def gather(rows: NDArray[Any], index: Rows) -> NDArray[Any]:
    """`rows[index]`, in pieces where the rows are a memory map: the system may map megabytes around each row that is read."""
    if getattr(rows, "_mmap", None) is None:
        return np.asarray(rows[index])
    taken = np.empty((len(index), *rows.shape[1:]), dtype=rows.dtype)
    for start in range(0, len(index), _PIECE):
        taken[start : start + _PIECE] = rows[index[start : start + _PIECE]]
        _give_back(rows)
    return taken


def check_finite(rows: Floats, numbers: Sequence[int] | Rows | None = None) -> Floats:
    """The same rows, if every feature is finite.

    Args:
        rows: shape (n, F).
        numbers: which images they are, for the message; None counts from 0.

    Raises:
        RankerError: names the first image whose features are not.
    """
    if not np.isfinite(rows).all():
        where = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise RankerError(
            f"image {where if numbers is None else int(numbers[where])} has a feature that is not finite; leave it out or compute its "
            "features anew"
        )
    return rows


def _give_back(rows: NDArray[Any]) -> None:
    """Drop the pages of a memory map from our memory; they stay in the system's cache."""
    mapped = getattr(rows, "_mmap", None)
    # Of a copy-on-write map this would drop what was written.
    if mapped is not None and getattr(rows, "mode", "") != "c" and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)
