"""Parquet files of a job: there whole or not at all, with a checksum on every page, so that damage is seen and not read as scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steelyard.errors import StudyError, why_not
from steelyard.files import replacing

__all__ = ["read_rows", "told_by", "write_rows", "writing"]

_TOLD = b"steelyard"  # key of what a file says about itself


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Inside, what the system refuses is told as such: of a file or a folder that cannot be written.

    Raises:
        StudyError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise StudyError(f"scores cannot be written: {why_not(error, place)}") from error


def write_rows(table: Any, file: Path, told: str) -> None:
    """Write a table to disk, in one step.

    Args:
        table: of pyarrow.
        file: where to.
        told: what the file says about itself (`told_by`).

    Raises:
        StudyError: it cannot be written.
    """
    import pyarrow.parquet as pq

    with writing(file.parent), replacing(file, private=False) as new:
        pq.write_table(table.replace_schema_metadata({_TOLD: told}), new, write_page_checksum=True)


def read_rows(file: Path, columns: Sequence[str] | None = None) -> Any:
    """A table that was written, or some of its columns.

    Raises:
        StudyError: it is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            return opened.read(columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise StudyError(
            f"{file} is missing or damaged ({_line(error)}); run the same again: it is computed anew"
        ) from error


def told_by(file: Path) -> str | None:
    """What a file says about itself: empty where it is of somebody else, None where it is missing or cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found: bytes = (pq.read_schema(file).metadata or {}).get(_TOLD, b"")
    except (OSError, pa.ArrowException):
        return None
    return found.decode("utf-8", "replace")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
