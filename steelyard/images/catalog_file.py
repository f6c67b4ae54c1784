"""A catalog on disk: an Arrow IPC file, written whole or not at all, opened as a memory map."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import CatalogError
from steelyard.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["open_table", "save_table"]

_FORMAT = "1"


def save_table(
    table: pa.Table,
    path: Path,
    *,
    kind: str,
    root: Path | None,
    source: Path | None,
    grade_names: Sequence[str],
    max_megapixels: float,
    report: str,
) -> None:
    """Write the columns of a catalog, and beside them what else it knows.

    Raises:
        CatalogError: the file cannot be written; what was there before is still there.
    """
    import pyarrow as pa

    meta = {
        "steelyard.format": _FORMAT,
        "steelyard.kind": kind,
        "steelyard.root": _remember(root, path.parent),
        "steelyard.source": _remember(source, path.parent),
        "steelyard.grade_names": json.dumps(grade_names, ensure_ascii=False),
        "steelyard.max_megapixels": repr(float(max_megapixels)),
        "steelyard.report": report,
    }
    table = table.replace_schema_metadata(meta)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file, pa.ipc.new_file(file, table.schema) as writer:
            # One block, so that every column is one piece of memory when it is mapped.
            writer.write_table(table, max_chunksize=max(1, len(table)))
    except OSError as error:
        raise CatalogError(f"cannot write the catalog {path}: {error.strerror or error}") from error


def open_table(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Map the columns, having looked that every value lies inside the file; nothing is copied.

    Returns:
        The columns, and the rest by the names of `Catalog`'s arguments.

    Raises:
        CatalogError: there is no such file, or it is no catalog or damaged.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        # Offsets that point outside the file would end the process, not the call. A million rows take some 20 ms.
        table.validate(full=True)
        meta = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    except FileNotFoundError:
        raise CatalogError(f"there is no catalog {path}") from None
    except (OSError, ValueError, pa.ArrowException) as error:  # Arrow has errors of many families
        raise CatalogError(
            f"{path} is not a catalog or is damaged ({error}); restore a backup with: steelyard restore"
        ) from error
    if meta.get("steelyard.format") != _FORMAT:
        raise CatalogError(
            f"{path} is an Arrow file but not a catalog of format {_FORMAT} (it says "
            f"{meta.get('steelyard.format', 'nothing')}); make it again or update Steelyard"
        )
    try:
        return table, {
            "kind": meta["steelyard.kind"],
            "root": _recall(meta["steelyard.root"], path.parent),
            "source": _recall(meta["steelyard.source"], path.parent),
            "grade_names": json.loads(meta["steelyard.grade_names"]),
            "report": meta["steelyard.report"],
            "max_megapixels": float(meta["steelyard.max_megapixels"]),
        }
    except (LookupError, TypeError, ValueError) as error:
        raise CatalogError(
            f"{path} is damaged ({error}); restore a backup with: steelyard restore"
        ) from error


def _remember(path: Path | None, folder: Path) -> str:
    """A path as it is kept in a file of this folder: relative if it lies below, so that both can move together."""
    if path is None:
        return ""
    full = path.absolute()
    return f"./{full.relative_to(folder).as_posix()}" if full.is_relative_to(folder) else str(full)


def _recall(text: str, folder: Path) -> Path | None:
    """The inverse of `_remember`, in the folder where the file is now."""
    if not text:
        return None
    return folder / text[2:] if text.startswith("./") else Path(text)
