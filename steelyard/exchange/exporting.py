"""Answers and tables out, as files that are there whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from steelyard.errors import StudyError, why_not
from steelyard.exchange.cells import harmless
from steelyard.exchange.other_tools import to_choix, to_label_studio
from steelyard.exchange.table import FORMATS, answers_in_blocks, answers_table, lessons_table
from steelyard.files import replacing, write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["csv_text", "export_file", "write_file", "write_new", "write_table"]


def export_file(study: Study, path: Path, *, form: str | None = None) -> int:
    """Write all answers that count, for choix those to the main question; the file's ending picks the format unless it is named.

    Returns:
        Number of answers written.

    Raises:
        StudyError: the format is not known.
    """
    kind = _format_of(path, form)
    if kind == "csv":
        return _in_blocks(path, _write_csv, answers_in_blocks(study))
    if kind == "parquet":
        return _in_blocks(path, _write_parquet, answers_in_blocks(study))
    table = answers_table(study)
    if kind == "choix":  # which knows one question, and neither people nor roles
        table = lessons_table(table[table["question"] == ""])
        write_file(path, _json(to_choix([str(id) for id in study.catalog.ids], table)))
        return int(table["answer"].isin(["left", "right"]).sum())
    records = _records(table)
    write_file(path, _json(records if kind == "json" else to_label_studio(records), indent=1))
    return len(table)


def _in_blocks(
    path: Path, write: Callable[[IO[bytes], Iterator[pd.DataFrame]], int], blocks: Iterator[pd.DataFrame]
) -> int:
    """Have a file written piece by piece, all of it or nothing; says how many rows it has."""
    with _writing(path), replacing(path, private=False) as file:
        return write(file, blocks)


def _write_csv(file: IO[bytes], blocks: Iterator[pd.DataFrame]) -> int:
    rows = 0
    for k, block in enumerate(blocks):
        file.write(csv_text(block, header=k == 0).encode())
        rows += len(block)
    return rows


def _write_parquet(file: IO[bytes], blocks: Iterator[pd.DataFrame]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, first = 0, next(blocks)
    kinds = {"f": pa.float64(), "i": pa.int64(), "b": pa.bool_(), "O": pa.string()}
    schema = pa.schema([(name, kinds[kind.kind]) for name, kind in first.dtypes.items()])
    with pq.ParquetWriter(file, schema) as writer:
        for block in chain([first], blocks):
            writer.write_table(pa.Table.from_pandas(block, schema=schema, preserve_index=False))
            rows += len(block)
    return rows


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write scores or grades as CSV or Parquet, by the file's ending.

    Raises:
        StudyError: another ending.
    """
    if path.suffix == ".csv":
        write_file(path, csv_text(table).encode())
    elif path.suffix == ".parquet":
        write_file(path, _parquet(table))
    else:
        raise StudyError(f"{path.name}: write to a file that ends in .csv or .parquet")


def csv_text(table: pd.DataFrame, *, header: bool = True) -> str:
    """A table as CSV whose text no spreadsheet takes for a formula; `cells.restored` gives it back."""
    columns = [_cells(table[name]) for name in table.columns]
    # Before Python 3.13 a lone carriage return is quoted only where all text is.
    quoted = any(returns for _, returns in columns)
    out = io.StringIO()
    writer = csv.writer(
        out, quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL, lineterminator="\n"
    )
    if header:
        writer.writerow(table.columns)
    writer.writerows(zip(*(cells for cells, _ in columns), strict=True))
    return out.getvalue()


def _cells(column: pd.Series) -> tuple[list[Any], bool]:
    """The cells of a column as they are written, and whether a carriage return is among them."""
    kind = column.dtype.kind
    if column.dtype == "float32":  # 0.1 of 32 bits is written 0.1
        column = column.astype(str).astype("float64")
    if kind == "M":
        column = column.astype(str).where(column.notna(), None)
    missing = column.isna()
    cells = column.astype(object).where(~missing, None).tolist() if missing.any() else column.tolist()
    if kind in "biufM":  # numbers may well begin with a minus
        return cells, False
    risky = [k for k, cell in enumerate(cells) if isinstance(cell, str) and cell[:1] not in _PLAIN]
    for k in risky:
        cells[k] = harmless(cells[k])
    return cells, any("\r" in cell for cell in cells if isinstance(cell, str))


_PLAIN = frozenset(string.ascii_letters + string.digits) | {""}
"""What nearly all cells begin with, and no formula."""


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Plain rows, None where a number is missing."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]


def _json(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, allow_nan=False).encode()


def _parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _format_of(path: Path, form: str | None) -> str:
    kind = form or path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise StudyError(
            f"{kind or path.name!r} is not a format; there are {', '.join(FORMATS)} (by the file's ending or --format), or .zip for a whole study"
        )
    return kind


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    Raises:
        StudyError: it is there, or cannot be written.
    """
    if path.exists():
        raise StudyError(f"{path} exists; name another file")
    write_file(path, text.encode())


def write_file(path: Path, content: bytes) -> None:
    """All of it or nothing: an export that stops half-way must not look like one."""
    with _writing(path):
        write_atomically(path, content, private=False)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {why_not(error, path)}") from None
