"""Answers and tables out, as files that are there whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import StudyError, why_not
from steelyard.exchange.cells import harmless
from steelyard.exchange.other_tools import to_choix, to_label_studio
from steelyard.exchange.table import FORMATS, answers_table, lessons_table
from steelyard.files import write_atomically

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
    table = answers_table(study)
    if kind == "choix":  # which knows one question
        table = table[table["question"] == ""]
    if kind == "csv":
        content = csv_text(table).encode()
    elif kind == "parquet":
        content = _parquet(table)
    elif kind == "json":
        content = _json(_records(table), indent=1)
    elif kind == "labelstudio":
        content = _json(to_label_studio(_records(table)), indent=1)
    else:
        table = lessons_table(table)  # choix knows neither people nor roles
        content = _json(to_choix([str(id) for id in study.catalog.ids], table))
    write_file(path, content)
    return int(table["answer"].isin(["left", "right"]).sum()) if kind == "choix" else len(table)


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


def csv_text(table: pd.DataFrame) -> str:
    """A table as CSV whose text no spreadsheet takes for a formula; `cells.restored` gives it back."""
    safe, quoted = table.copy(), False
    for name in safe.columns:
        if safe[name].dtype.kind not in "biufM":  # numbers may well begin with a minus
            safe[name] = safe[name].map(lambda cell: harmless(cell) if isinstance(cell, str) else cell)
            if any("\r" in cell for cell in safe[name] if isinstance(cell, str)):
                quoted = True
    # Before Python 3.13 a lone carriage return is quoted only where all text is.
    text = safe.to_csv(
        index=False,
        quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    )
    return str(text)


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
    try:
        write_atomically(path, content, private=False)
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {why_not(error, path)}") from None
