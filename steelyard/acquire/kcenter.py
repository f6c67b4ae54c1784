"""Exact k-center greedy: each pick is the row farthest from all rows picked so far.

The plain way measures all N rows against every new centre. Here distances are measured lazily: a row's distance to the
centres can only fall, so what was measured against some of them bounds it from above, and only rows whose bound reaches
the best distance need the rest. They get it in one matrix product for many rows and centres.

Picks are those of the plain way to the last bit: products only narrow the choice down to rows within rounding of the
best; those few are measured as `np.linalg.norm(rows - centre, axis=1)` in the features' own precision, first row first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Ints
from steelyard.errors import AcquireError

__all__ = ["k_center_greedy"]


_SMALL, _LARGE = 64, 4096
_BLOCK = 8192


def k_center_greedy(
    features_N_D: NDArray[np.floating], n: int, *, initial: ArrayLike = (), first: int = 0
) -> tuple[Ints, Floats]:
    """Pick n rows, each the farthest from the initial rows and all picks before it.

    Args:
        features_N_D: rows in float32 or float64, shape (N, D); may be a memory map.
        n: picks wanted.
        initial: rows that count as picked already, shape (k,).
        first: the first pick where there are no initial rows.

    Returns:
        Picks in order, shape (m,), different from each other and from the initial rows, m = min(n, rows left); and how far each
        was from the rows before it, shape (m,) – 0 for a first pick without initial rows.

    Raises:
        AcquireError: the features are no matrix of finite numbers, or a row is outside of it.
    """
    features = np.asarray(features_N_D)
    if features.ndim != 2 or features.dtype not in (np.float32, np.float64):
        raise AcquireError(
            f"features are a float32 or float64 matrix, not {features.dtype} of shape {features.shape}"
        )
    size = len(features)
    start = np.unique(np.asarray(initial, dtype=np.int64).reshape(-1))
    for row in (*start[[0, -1]].tolist(),) if len(start) else (first,) if size else ():
        if not 0 <= row < size:
            raise AcquireError(f"row {row} is outside the {size} rows of features")
    n = min(n, size - len(start))
    if n <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    picks: list[int] = []
    radii: list[float] = []
    if not len(start):
        start = np.array([first])
        picks, radii = [first], [0.0]
    cover = _Cover(features, start, len(start) + n)
    while len(picks) < n:
        row, radius = cover.farthest()
        cover.add(row)
        picks.append(row)
        radii.append(radius)
    return np.array(picks, dtype=np.int64), np.array(radii)


class _Cover:
    """Rows, centres, and how far each row is from the centres, as far as it had to be known.

    Attributes:
        bound_N: squared distance of each row to the first `seen_N` centres, up to `slack`; −inf for centres.
        seen_N: how many centres that is.
        centres: rows that are centres, with their features as float64 in `points`.
    """

    def __init__(self, features: NDArray[np.floating], start: Ints, room: int) -> None:
        self.features = features
        size, width = features.shape
        self.squares_N = np.empty(size)
        for block in range(0, size, _BLOCK):
            rows = np.asarray(features[block : block + _BLOCK], dtype=np.float64)
            self.squares_N[block : block + _BLOCK] = np.einsum("nd,nd->n", rows, rows)
        if not np.isfinite(self.squares_N).all():
            bad = int(np.flatnonzero(~np.isfinite(self.squares_N))[0])
            raise AcquireError(f"row {bad} of the features is not finite; extract the features again")
        # Rounding of the products in float64, and of the plain way in the features' own precision (pairwise sums).
        largest = float(self.squares_N.max())
        self.slack = 8.0 * width * np.finfo(np.float64).eps * largest
        self.relative = 64.0 * float(np.finfo(features.dtype).eps)
        self.centres: list[int] = []
        self.points = np.empty((room, width))
        self.bound_N = np.full(size, np.inf)
        self.seen_N = np.zeros(size, dtype=np.int64)
        for row in start.tolist():
            self.add(row)
        for block in range(0, size, _BLOCK):
            self._measure(np.arange(block, min(block + _BLOCK, size)))
        self.bound_N[start] = -np.inf

    def add(self, row: int) -> None:
        """Make a row a centre."""
        self.points[len(self.centres)] = self.features[row]
        self.centres.append(row)
        self.bound_N[row] = -np.inf

    def farthest(self) -> tuple[int, float]:
        """The row farthest from its nearest centre, and how far."""
        count = len(self.centres)
        width = _SMALL
        while True:
            fresh = self.seen_N == count
            best = float(self.bound_N.max(where=fresh, initial=-np.inf))
            floor = best - 2.0 * (self.slack + self.relative * max(best, 0.0))
            waiting = np.flatnonzero(~fresh & (self.bound_N >= floor) & (self.bound_N > -np.inf))
            if not len(waiting):
                break
            if len(waiting) > width:
                order = np.argpartition(-self.bound_N[waiting], width)
                waiting = waiting[order[:width]]
            self._measure(waiting)
            width = min(2 * width, _LARGE)
        contenders = np.flatnonzero((self.bound_N >= floor) & (self.bound_N > -np.inf))
        if len(contenders) == 1:
            return int(contenders[0]), float(np.sqrt(max(best, 0.0)))
        distances = self._plain(contenders)
        chosen = int(np.argmax(distances))  # the first of equals, as np.argmax over all rows
        return int(contenders[chosen]), float(distances[chosen])

    def _measure(self, rows: Ints) -> None:
        """Bring the bounds of some rows up to date: one product for those that lack about the same centres."""
        count = len(self.centres)
        octave = np.ceil(np.log2(count - self.seen_N[rows])).astype(np.int64)
        for lag in np.unique(octave).tolist():
            part = rows[octave == lag]
            since = max(count - 2**lag, 0)
            products = np.asarray(self.features[part], dtype=np.float64) @ self.points[since:count].T
            nearest = (self.squares_N[self.centres[since:count]] - 2.0 * products).min(axis=1)
            self.bound_N[part] = np.minimum(self.bound_N[part], nearest + self.squares_N[part])
        self.seen_N[rows] = count

    def _plain(self, rows: Ints) -> NDArray[np.floating]:
        """The distance of some rows to their nearest centre, by the plain formula in the features' own precision."""
        centres = np.asarray(self.points[: len(self.centres)], dtype=self.features.dtype)
        return np.array([np.linalg.norm(centres - self.features[row], axis=1).min() for row in rows.tolist()])
