"""Arrow columns seen from numpy, without copying – and made from Python values.

Not through `pyarrow.array` and `to_numpy`: both import pandas, which takes longer than opening a million rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Strings",
    "category_column",
    "hex_view",
    "number_column",
    "one_piece",
    "read_numbers",
    "text_column",
]


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
        return _to_numpy(self._column.take(number_column(rows.reshape(-1)))).reshape(rows.shape)

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


def one_piece(column: Any) -> Any:
    """The one array that a chunked column consists of; a copy only where there are several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def read_numbers(column: Any) -> NDArray[Any]:
    """A column of whole numbers as a numpy array, without copying."""
    kind = np.dtype(f"i{column.type.bit_width // 8}")
    data = column.buffers()[1]
    if len(column) == 0 or data is None:
        return np.empty(0, dtype=kind)
    return np.frombuffer(data, dtype=kind, count=len(column), offset=column.offset * kind.itemsize)


def number_column(values: ArrayLike) -> pa.Array:
    """Whole numbers → an int64 column."""
    import pyarrow as pa

    numbers = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def text_column(values: Sequence[str]) -> pa.Array:
    """Strings → a column."""
    import pyarrow as pa

    encoded = [value.encode() for value in values]
    ends = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def category_column(values: Sequence[str]) -> pa.Array:
    """Strings of which many are alike → a column that keeps each once, in the order they appear."""
    return text_column(values).dictionary_encode()


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
        return names[read_numbers(column.indices)] if len(column) else names[:0]
    return np.array(column.to_pylist(), dtype=np.str_)
