"""A column of strings that stays in Arrow's memory (or on disk) until somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Strings", "hex_view"]


class Strings:
    """Read-only; behaves like a numpy array of `str` but makes strings only of what is taken out.

    `column[3]` is a `str`; `column[rows]`, `column[2:5]` and `np.asarray(column)` are numpy arrays of `str`;
    `column == "x"` compares each. Iterating goes block by block.
    """

    ndim = 1

    def __init__(self, column: Any) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    @property
    def shape(self) -> tuple[int]:
        """As of a numpy array."""
        return (len(self),)

    @property
    def arrow(self) -> Any:
        """The Arrow column itself (`pyarrow.Array`)."""
        return self._column

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> str: ...
    @overload
    def __getitem__(self, key: slice | ArrayLike) -> NDArray[np.str_]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer):
            row = int(key)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} is outside the {len(self)} rows")
            return self._column[row % len(self)].as_py()
        if isinstance(key, slice):
            rows = np.arange(len(self))[key]
        else:
            rows = np.asarray(key)
            if rows.dtype == bool:
                if rows.shape != (len(self),):
                    raise IndexError(f"a mask of shape {rows.shape} for {len(self)} rows")
                rows = np.flatnonzero(rows)
            rows = np.where(rows < 0, rows + len(self), rows).astype(np.int64)
            if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
                raise IndexError(f"a row is outside the {len(self)} rows")
        return _to_numpy(self._column.take(rows.reshape(-1))).reshape(rows.shape)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 1 << 14):
            yield from self._column.slice(start, 1 << 14).to_pylist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        values = _to_numpy(self._column)
        return values if dtype is None else values.astype(dtype)

    def tolist(self) -> list[str]:
        """All of them as Python strings."""
        return list(self)

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == (np.asarray(other) if isinstance(other, Strings) else other)

    def __ne__(self, other: object) -> Any:
        return np.asarray(self) != (np.asarray(other) if isinstance(other, Strings) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(text) for text in self._column.slice(0, 3).to_pylist())
        return f"Strings([{shown}{', …' if len(self) > 3 else ''}], length {len(self)})"


def hex_view(column: Any, width: int = 32) -> NDArray[np.bytes_]:
    """A column of strings that are all `width` ASCII bytes long as a numpy array of bytes, without copying.

    Raises:
        ValueError: a string has another length or is null.
    """
    n = len(column)
    if n == 0:
        return np.empty(0, dtype=f"S{width}")
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64, count=n + 1, offset=8 * column.offset)
    if column.null_count or offsets[-1] - offsets[0] != n * width:
        raise ValueError(f"not all strings are {width} bytes long")
    return np.frombuffer(data, dtype=f"S{width}", count=n, offset=int(offsets[0]))


def _to_numpy(column: Any) -> NDArray[np.str_]:
    if hasattr(column, "dictionary"):  # a few names for many rows: make each string once
        names = np.array(column.dictionary.to_pylist(), dtype=np.str_)
        return names[column.indices.to_numpy()] if len(column) else names[:0]
    return np.array(column.to_pylist(), dtype=np.str_)
