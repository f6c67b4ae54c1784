"""From ids to rows, many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import CatalogError
from steelyard.images.columns import Strings

__all__ = ["rows_by_id"]


def rows_by_id(
    keys: NDArray[np.bytes_], order: NDArray[np.int64], ids: ArrayLike | Strings
) -> NDArray[np.int64]:
    """The rows of some ids, shape (n,).

    Args:
        keys: the id of every row, as bytes.
        order: positions of the keys in ascending order, shape (N,).
        ids: the ids to look up.

    Raises:
        CatalogError: no image has one of the ids; names the first.
    """
    asked = np.asarray(ids)
    if asked.dtype.kind == "O":
        asked = asked.astype(np.str_)
    if asked.size == 0:
        return np.empty(0, dtype=np.int64)
    try:
        wanted = asked.reshape(-1).astype("S")
    except UnicodeEncodeError as error:
        raise CatalogError(f"no image has an id like {error.object!r}: ids are 32 hex digits") from None
    at = np.searchsorted(keys, wanted, sorter=order)
    rows = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(wanted), dtype=np.int64)
    known = keys[rows] == wanted if len(order) else np.zeros(len(wanted), dtype=bool)
    if not known.all():
        unknown = wanted[~known]
        raise CatalogError(
            f"{len(unknown)} of {len(wanted)} ids are not in this catalog of {len(keys):,} images, the first is "
            f"'{unknown[0].decode()}': was it made from other files?"
        )
    return np.asarray(rows, dtype=np.int64)
