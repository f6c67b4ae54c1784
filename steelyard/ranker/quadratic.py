"""Variances xᵀΣx of many rows, and the promise that what was computed is finite. numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats
from steelyard.errors import RankerError

__all__ = ["finite", "quadratic"]


def quadratic(rows: NDArray[np.floating], covariance_D_D: Floats) -> Floats:
    """xᵀΣx for each row, shape (n,)."""
    x = np.asarray(rows, dtype=np.float64)
    diagonal = np.diagonal(covariance_D_D)
    if np.count_nonzero(covariance_D_D) == np.count_nonzero(diagonal):  # closed_form, draws
        return np.asarray(np.square(x) @ diagonal, dtype=np.float64)
    return np.asarray(np.maximum(np.einsum("nd,nd->n", x @ covariance_D_D, x), 0.0), dtype=np.float64)


def finite(values: Floats, what: str) -> Floats:
    """The same values.

    Raises:
        RankerError: one is not finite.
    """
    bad = ~np.isfinite(values)
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        raise RankerError(
            f"{what} {where} is {values[where]}; its row of features or the weights are not finite"
        )
    return values
