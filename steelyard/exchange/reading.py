"""From the bytes of a file to raw rows, each with its place; what the cells mean is decided elsewhere."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from steelyard.errors import StudyError
from steelyard.exchange.cells import restored
from steelyard.exchange.other_tools import choix_rows, label_studio_rows
from steelyard.images.labels import without_comments

__all__ = ["Row", "csv_rows", "read_rows"]

Row = tuple[str, dict[str, Any]]
"""Where it stands ("answer 3 (line 4)") and its cells by column."""

_NEEDED = ("answer", "left", "right")
_DELIMITERS = ",;\t|"  # what spreadsheets of different languages write
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*')


def read_rows(content: bytes, ending: str) -> Iterator[Row]:
    """The answers of a file, one after the other: a large file is never in memory as rows.

    Args:
        content: of the file.
        ending: of its name: `.csv`, `.json` or `.parquet`.

    Raises:
        StudyError: no such format, or not what its ending says.
    """
    readers = {".csv": csv_rows, ".json": _json_rows, ".parquet": _parquet_rows}
    if ending.lower() not in readers:
        raise StudyError("import a file that ends in .csv, .json or .parquet")
    return readers[ending.lower()](content)


def csv_rows(content: bytes, needed: Sequence[str] = _NEEDED, what: str = "answer") -> Iterator[Row]:
    """The rows of a CSV, as spreadsheets save it; lines with # before the heading are comments.

    Args:
        content: of the file.
        needed: columns that it must have.
        what: a row is called.

    Raises:
        StudyError: it is no such table.
    """
    text, skipped = without_comments(_decoded(content))
    lines = io.StringIO(text, newline="")
    delimiter = _delimiter(lines, needed)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    skipped += 1 if lines.tell() else 0  # the line that says the separator
    try:
        columns = [_column(cell) for cell in next(reader, [])]
        _check_columns(columns, needed)
        number = 0
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue  # what spreadsheets leave below the last row
            number += 1
            where = f"{what} {number} (line {reader.line_num + skipped})"
            if any(cell.strip() for cell in cells[len(columns) :]):
                raise StudyError(f"{where} has {len(cells)} cells under {len(columns)} columns")
            row = dict.fromkeys(columns, "")
            row.update((name, restored(cell)) for name, cell in zip(columns, cells, strict=False) if name)
            yield where, row
    except csv.Error as error:
        raise StudyError(f"not a valid CSV file: line {reader.line_num + skipped}: {error}") from None


def _decoded(content: bytes) -> str:
    """Text of a file as spreadsheets save it: UTF-8 with or without a mark, or UTF-16 with one."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(
            f"not a valid CSV file: byte {error.start} is not UTF-8; save it as “CSV UTF-8”"
        ) from None


def _delimiter(lines: io.StringIO, needed: Sequence[str]) -> str:
    """What stands between cells; `lines` is left at the header."""
    first = lines.readline()
    said = _SEPARATOR_LINE.fullmatch(first)
    if said:
        return said[1]
    lines.seek(0)
    best = ","
    for delimiter in _DELIMITERS:
        try:
            found = [_column(cell) for cell in next(csv.reader([first], delimiter=delimiter), [])]
        except csv.Error:
            continue
        if set(needed) <= set(found):
            best = delimiter
            break
    return best


def _json_rows(content: bytes) -> Iterator[Row]:
    try:
        parsed = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise StudyError(f"not a valid JSON file: {reason}") from None
    rows: Any
    if isinstance(parsed, dict) and "comparisons" in parsed:  # choix, as exported here
        rows = choix_rows(parsed["comparisons"], parsed.get("items"))
    elif not isinstance(parsed, list):
        raise StudyError("holds no list of answers, no choix comparisons and no Label Studio tasks")
    elif parsed and isinstance(parsed[0], dict) and "annotations" in parsed[0]:
        rows = label_studio_rows(parsed)
    elif parsed and isinstance(parsed[0], list):  # plain choix: rows of the catalog
        rows = choix_rows(parsed, None)
    else:
        rows = _objects(parsed)
    for number, row in enumerate(rows, start=1):
        yield f"answer {number}", row


def _objects(parsed: list[Any]) -> Iterator[dict[str, Any]]:
    for row in parsed:
        if not isinstance(row, dict):
            raise StudyError(f"holds something that is not an answer: {str(row)[:80]}")
        yield {_column(key): value for key, value in row.items()}


def _parquet_rows(content: bytes) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        columns = [_column(name) for name in file.schema_arrow.names]
        _check_columns(columns, _NEEDED)
        number = 0
        for batch in file.iter_batches(5_000):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield f"answer {number}", dict(zip(columns, values, strict=True))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise StudyError(f"not a valid Parquet file: {str(error).splitlines()[0][:200]}") from None


def _column(name: str) -> str:
    """A column's name, whatever a spreadsheet did to its case and spaces."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _check_columns(columns: list[str], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in columns:
            wanted = (
                "answers need left, right and answer"
                if needed == _NEEDED
                else f"it needs {', '.join(needed)}"
            )
            raise StudyError(f"lacks the column {name!r}; {wanted}")
    twice = [name for name in columns if name and columns.count(name) > 1]
    if twice:
        raise StudyError(f"has the column {twice[0]!r} twice")
