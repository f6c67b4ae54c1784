"""Feature rows brought to mean 0 and deviation 1, column by column, for networks. numpy only.

A network learns poorly from features of very different scales. (The convex ranker has its `Reduction`, which does the same first.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Rows
from steelyard.errors import RankerError
from steelyard.ranker.blocks import blocks, check_finite, gather

__all__ = ["Scaling"]

_BLOCK = 1 << 22  # numbers a block


@dataclass(frozen=True, eq=False)
class Scaling:
    """(x − center) / scale.

    Attributes:
        center_D: mean of each column of the pool.
        scale_D: its standard deviation, 1 where a column is constant.
    """

    center_D: Floats
    scale_D: Floats

    @classmethod
    def fit(cls, rows_N_D: NDArray[Any], pool: Rows | None = None) -> Scaling:
        """From the rows that may be learnt from.

        Args:
            rows_N_D: feature rows, shape (N, D); may be a memory map.
            pool: which of them to look at; None is all.

        Raises:
            RankerError: no rows, or a feature that is not finite.
        """
        count = len(rows_N_D) if pool is None else len(pool)
        if count == 0:
            raise RankerError("features cannot be standardised without a single row")
        total = np.zeros(rows_N_D.shape[1])
        for block in _blocks(rows_N_D, pool):
            total += block.sum(axis=0)
        center = total / count
        squares = np.zeros_like(center)
        for block in _blocks(rows_N_D, pool):
            squares += np.square(block - center).sum(axis=0)
        deviation = np.sqrt(squares / count)
        # What a constant column has is rounding noise; dividing by it would blow the noise up.
        return cls(center, np.where(deviation > 1e-12 * np.abs(center), deviation, 1.0))

    def apply(self, rows_N_D: NDArray[Any]) -> NDArray[np.float32]:
        """Scaled rows, shape (N, D).

        Raises:
            RankerError: the number of features differs from the pool's.
        """
        if rows_N_D.ndim != 2 or rows_N_D.shape[1] != len(self.center_D):
            raise RankerError(
                f"the ranker was fitted on {len(self.center_D)} features an image, not on {rows_N_D.shape[1:]}"
            )
        return np.asarray((rows_N_D - self.center_D) / self.scale_D, dtype=np.float32)

    def same_as(self, other: Scaling | None) -> bool:
        """Do both do exactly the same?"""
        return other is not None and bool(
            np.array_equal(self.center_D, other.center_D) and np.array_equal(self.scale_D, other.scale_D)
        )

    def to_arrays(self) -> dict[str, Floats]:
        """Everything, as named arrays."""
        return {"center": self.center_D, "scale": self.scale_D}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Scaling:
        """What `to_arrays` gave."""
        return cls(*(np.asarray(arrays[name], dtype=np.float64) for name in ("center", "scale")))


def _blocks(rows: NDArray[Any], pool: Rows | None) -> Iterator[Floats]:
    if pool is None:
        for part in blocks(rows, _BLOCK):
            yield check_finite(np.asarray(rows[part], dtype=np.float64), range(len(rows))[part])
        return
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    for at in range(0, len(pool), step):
        some = pool[at : at + step]
        yield check_finite(np.asarray(gather(rows, some), dtype=np.float64), some)
