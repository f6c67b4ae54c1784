"""A table on disk: an Arrow IPC file, written whole or not at all, opened as a memory map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.errors import CatalogError
from steelyard.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["open_table", "recall_path", "remember_path", "save_table"]


def save_table(table: pa.Table, path: Path, meta: dict[str, str]) -> None:
    """Write a table and what it says about itself.

    Raises:
        CatalogError: the file cannot be written; what was there before is still there.
    """
    import pyarrow as pa

    table = table.replace_schema_metadata(meta)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file, pa.ipc.new_file(file, table.schema) as writer:
            # One block, so that every column is one piece of memory when it is mapped.
            writer.write_table(table, max_chunksize=max(1, len(table)))
    except OSError as error:
        raise CatalogError(f"cannot write the catalog {path}: {error.strerror or error}") from error


def open_table(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """Map a table, having looked that every value lies inside the file; nothing is copied.

    Raises:
        CatalogError: there is no such file, or it is no Arrow file or damaged.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        # Offsets that point outside the file would end the process, not the call. A million rows take some 20 ms.
        table.validate(full=True)
        return table, {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    except FileNotFoundError:
        raise CatalogError(f"there is no catalog {path}") from None
    except (OSError, ValueError, pa.ArrowException) as error:  # Arrow has errors of many families
        raise CatalogError(
            f"{path} is not a catalog or is damaged ({error}); restore a backup with: steelyard restore"
        ) from error


def remember_path(path: Path | None, folder: Path) -> str:
    """A path as it is kept in a file of this folder: relative if it lies below, so that both can move together."""
    if path is None:
        return ""
    full = path.absolute()
    return f"./{full.relative_to(folder).as_posix()}" if full.is_relative_to(folder) else str(full)


def recall_path(text: str, folder: Path) -> Path | None:
    """The inverse of `remember_path`, in the folder where the file is now."""
    if not text:
        return None
    return folder / text[2:] if text.startswith("./") else Path(text)
