"""A mapped copy of rows in the order that somebody wants, for rows that would take too much memory to gather."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.files import replacing

__all__ = ["GATHERED_BYTES", "gather"]

GATHERED_BYTES = 1 << 30
_BLOCK_BYTES = 64 << 20


def gather(mapped: NDArray[Any], places: NDArray[np.int64], folder: Path) -> NDArray[Any]:
    """Rows of a mapped array at these places: in memory, or of very many in a file beside it, which is mapped.

    Rows are appended as they are computed – by several workers, and first those that somebody waits for –, so a large study's
    are not in its order. The copy is made once and found again; one of another order takes its place.

    Args:
        mapped: rows as they lie on disk.
        places: which of them, in order.
        folder: where the copy is kept.
    """
    row_bytes = int(np.prod(mapped.shape[1:], dtype=np.int64)) * mapped.dtype.itemsize
    if row_bytes * len(places) <= GATHERED_BYTES:
        return np.asarray(mapped[places])
    path = folder / f"ordered-{hashlib.blake2b(places.tobytes()).hexdigest()[:16]}.dat"
    if not path.exists():
        for old in folder.glob("ordered-*.dat"):
            with suppress(OSError):  # Windows keeps what somebody has mapped
                old.unlink()
        step = max(1, _BLOCK_BYTES // row_bytes)
        with replacing(path, sync=False) as file:
            for start in range(0, len(places), step):
                file.write(np.ascontiguousarray(mapped[places[start : start + step]]).tobytes())
    return np.memmap(path, mapped.dtype, "r", shape=(len(places), *mapped.shape[1:]))
