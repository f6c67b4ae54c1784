"""Images that belong to no study yet, however many: their names one by one, their bytes when somebody asks for them.

    listing = list_images("s3://bucket/colon")       a folder, a list (CSV, Parquet), here or behind any address of fsspec
    for path in listing.paths: read_bytes(listing.address(path))

Nothing is opened to list it, except files without a suffix (DICOM often has none).
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from steelyard.errors import CatalogError, ConfigError, ImageError
from steelyard.images.files import find_images
from steelyard.images.formats import HEAD_BYTES, is_image_name, sniff

__all__ = ["LIST_SUFFIXES", "Listing", "is_address", "list_images", "read_bytes"]

LIST_SUFFIXES = (".csv", ".parquet", ".pq")
_COLUMNS = ("image", "path")
_TRIES = 3  # a network may lose a request; a file that is not there is not asked for again
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Listing:
    """Images in a stable order.

    Attributes:
        root: what paths are relative to: a folder, or its address.
        paths: as the list has them, or relative to the folder, with forward slashes.
    """

    root: str
    paths: Iterable[str]

    def address(self, path: str) -> str:
        """Where the bytes of an image are."""
        return address(self.root, path)


def is_address(text: str) -> bool:
    """Whether it is an address (`s3://…`, `file://…`), not a path.

    >>> is_address("s3://bucket/a.png"), is_address("C:/a.png")
    (True, False)
    """
    protocol, found, _ = text.partition("://")
    return bool(found) and protocol.isalnum()


def address(root: str, path: str) -> str:
    """Where a path of a list leads to: it may be absolute or an address itself.

    >>> address("s3://bucket/colon", "a/1.png"), address("lists", "https://x.org/1.png")
    ('s3://bucket/colon/a/1.png', 'https://x.org/1.png')
    """
    if is_address(path) or not root or Path(path).is_absolute():
        return path
    return f"{root.rstrip('/')}/{path}"


def list_images(source: str) -> Listing:
    """What is to be scored.

    Args:
        source: a folder (searched as `Catalog.from_folder` does), or a CSV or Parquet list with a column `image` or `path`
            (relative to the list, absolute, or an address); each may be an address.

    Raises:
        CatalogError: no such folder or list, no image in it, or a list without such a column.
        ConfigError: an address that nothing installed here can read.
    """
    folder = source.rpartition("/")[0]
    if source.lower().endswith(LIST_SUFFIXES) and not Path(source).is_dir():
        root = folder if is_address(source) else str(Path(source).absolute().parent)
        return Listing(root, _from_list(source))
    if is_address(source):
        return Listing(source.rstrip("/"), _found(_search(source.rstrip("/")), source))
    return Listing(str(Path(source).absolute()), _found(find_images(Path(source)).paths, source))


def read_bytes(place: str) -> bytes:
    """The bytes of an image.

    Raises:
        ImageError: they cannot be had, and why.
        ConfigError: an address that nothing installed here can read.
    """
    if not is_address(place):
        try:
            return Path(place).read_bytes()
        except FileNotFoundError:
            raise ImageError(place, "is missing: there is no such file") from None
        except IsADirectoryError:
            raise ImageError(place, "is a folder, not an image") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
            raise _unreadable(place, error) from error
    files, path = _file_system(place)
    for left in reversed(range(_TRIES)):
        try:
            return bytes(files.cat_file(path))
        except FileNotFoundError:
            raise ImageError(place, "is missing: there is no such file") from None
        except IsADirectoryError:
            raise ImageError(place, "is a folder, not an image") from None
        except PermissionError as error:
            raise _unreadable(place, error) from error
        except Exception as error:  # every file system has errors of its own
            if not left:
                raise _unreadable(place, error) from error
            time.sleep(_PAUSE_SECONDS * (_TRIES - left))
    raise AssertionError("unreachable")


def _unreadable(place: str, error: Exception) -> ImageError:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ImageError(place, f"cannot be read: {' '.join(str(said).split())}")


def _found(paths: list[str], source: str) -> list[str]:
    if not paths:
        raise CatalogError(f"{source} has no images")
    return paths


def _search(source: str) -> list[str]:
    """All image files below an address, relative to it, sorted; hidden ones are left out, as in a folder."""
    files, root = _file_system(source)
    root = root.rstrip("/")
    try:
        found = files.find(root)
    except FileNotFoundError:
        found = []
    except Exception as error:  # every file system has errors of its own
        raise CatalogError(f"{source} cannot be listed: {error}") from error
    kept = []
    for full in found:
        path = str(full).removeprefix(root).lstrip("/")
        parts = PurePosixPath(path).parts
        if not path or any(part.startswith(".") or part == "__MACOSX" for part in parts):
            continue
        name = parts[-1]
        if is_image_name(name) or ("." not in name and name != "DICOMDIR" and _looks_right(files, full)):
            kept.append(path)
    return sorted(kept)


def _looks_right(files: Any, path: str) -> bool:
    try:
        return sniff(files.cat_file(path, start=0, end=HEAD_BYTES)) is not None
    except Exception:  # it cannot be told, so it is no image
        return False


def _from_list(source: str) -> Iterator[str]:
    """Paths of a list, row by row; nothing but a piece of it is in memory."""
    files, path = _file_system(source)
    number = 0
    try:
        with files.open(path, "rb") as file:
            rows = _csv_rows(file, source) if source.lower().endswith(".csv") else _parquet_rows(file, source)
            for number, cell in enumerate(rows, 1):
                text = str(cell).replace("\\", "/").strip() if cell is not None else ""
                if not text:
                    raise CatalogError(f"{source}, row {number}: the path of an image is empty")
                yield text
    except FileNotFoundError:
        raise CatalogError(f"there is no list {source}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CatalogError(f"{source} cannot be read: {error}") from error
    if not number:
        raise CatalogError(f"{source} has no images")


def _csv_rows(file: Any, source: str) -> Iterator[str | None]:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text)
        column = _column(reader.fieldnames or [], source)
        for row in reader:
            yield row[column]


def _parquet_rows(file: Any, source: str) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        column = _column(table.schema_arrow.names, source)
        for batch in table.iter_batches(columns=[column]):
            yield from batch.column(0).to_pylist()
    except pa.ArrowInvalid as error:
        raise CatalogError(f"{source} is not a Parquet file: {error}") from error


def _column(names: Iterable[str], source: str) -> str:
    known = list(names)
    for wanted in _COLUMNS:
        if wanted in known:
            return wanted
    raise CatalogError(
        f"{source} has no column image or path, only {', '.join(known) or 'nothing'}; call the column of the paths image"
    )


def _file_system(place: str) -> tuple[Any, str]:
    """What opens an address or a path, and the path there; fsspec keeps what it has opened."""
    from fsspec.core import url_to_fs

    try:
        files, path = url_to_fs(place)
    except ImportError as error:  # its message names the package
        raise ConfigError(f"{place} cannot be read here: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{place} is no address that can be read: {error}") from None
    return files, str(path)
