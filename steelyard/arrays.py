"""The array types that every room uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Pairs", "Rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int64]
"""Catalog rows, shape (n,)."""
Pairs = NDArray[np.int64]
"""Pairs of catalog rows (i, j), shape (n, 2)."""
