"""Images that belong to no study yet, however many: their names one by one, their bytes when somebody asks for them.

    listing = list_images("s3://bucket/colon")       a folder, a list (CSV, Parquet), here or at a URL (`remote`)
    for path in listing.paths: read_bytes(listing.address(path))

Nothing is opened to list it, except files without a suffix (DICOM often has none).
"""

from __future__ import annotations

import csv
import heapq
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.errors import CatalogError, ImageError
from steelyard.images.files import check_regular, find_images
from steelyard.images.remote import as_place, check_url, is_url, join, list_urls, read_url
from steelyard.images.report import Noticed
from steelyard.images.search import Search

__all__ = ["LIST_SUFFIXES", "Listing", "address", "list_images", "read_bytes"]

LIST_SUFFIXES = (".csv", ".parquet", ".pq")
_COLUMNS = ("image", "path")


@dataclass(frozen=True)
class Listing:
    """Images in a stable order.

    Attributes:
        root: what paths are relative to: a folder, or its address.
        paths: as the list has them, or relative to the folder, with forward slashes.
        bad: files of a folder whose names cannot be used.
    """

    root: str
    paths: Iterable[str]
    bad: Sequence[Noticed] = ()

    def rows(self) -> Iterator[tuple[str, str]]:
        """Every file: its path, and the reason why it cannot be used, or ""; a folder's in the order of their names."""
        usable = ((path, "") for path in self.paths)
        return heapq.merge(usable, sorted((_printable(one.path), one.reason) for one in self.bad))

    def address(self, path: str) -> str:
        """Where the bytes of an image are."""
        return address(self.root, path)


def address(root: str, path: str) -> str:
    """Where a path of a list leads to: it may be absolute or a URL itself.

    >>> address("s3://bucket/colon", "a/1.png"), address("lists", "https://x.org/1.png")
    ('s3://bucket/colon/a/1.png', 'https://x.org/1.png')
    """
    if _has_scheme(path) or not root or Path(path).is_absolute():
        return path
    return join(root, path)


def list_images(source: str) -> Listing:
    """What is to be scored.

    Args:
        source: a folder (searched as `Catalog.from_folder` does), or a CSV or Parquet list with a column `image` or `path`
            (relative to the list, absolute, or a URL); each may be at a URL.

    Raises:
        CatalogError: no such folder or list, no image in it, a list without such a column, or a URL that cannot be used
            (of the images in a list: one that carries a secret).
        UnreachableError: nobody answers at a URL.
        MissingExtraError: the package for this kind of URL is not installed.
    """
    place = as_place(source)
    if str(place).lower().endswith(LIST_SUFFIXES) and not Path(str(place)).is_dir():
        root = str(place).rpartition("/")[0] if isinstance(place, str) else str(place.absolute().parent)
        return Listing(root, _from_list(place))
    if isinstance(place, str):
        return _found(place, list_urls(place), source)
    return _found(str(place.absolute()), find_images(place), source)


def read_bytes(place: str) -> bytes:
    """The bytes of an image.

    Raises:
        ImageError: they cannot be had, and why.
        UnreachableError: nobody answers at its URL now.
    """
    if is_url(place):
        try:
            return read_url(check_url(place))
        except (CatalogError, OSError, TypeError, ValueError) as error:
            # A list has addresses that are none, and of kinds that nobody reads or that need more than an address.
            raise ImageError(place, f"cannot be read: {str(error).removeprefix(f'{place}: ')}") from error
    try:
        path = as_place(place)
        assert isinstance(path, Path)
        check_regular(path, place)
        return path.read_bytes()
    except FileNotFoundError:
        raise ImageError(place, "is missing: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        said = getattr(error, "strerror", None) or str(error)
        raise ImageError(place, f"cannot be read: {said}") from error


def _has_scheme(path: str) -> bool:
    return is_url(path) or path.lower().startswith("file://")


def _found(root: str, search: Search, source: str) -> Listing:
    if not search.paths and not search.bad:
        raise CatalogError(f"{source} has no images")
    return Listing(root, search.paths, search.bad)


def _printable(name: str) -> str:
    """A name whose bytes are no UTF-8 stands in tables with the numbers of those bytes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _from_list(place: Path | str) -> Iterator[str]:
    """Paths of a list, row by row; of a file nothing but a piece is in memory, of a URL all of it."""
    source, number = str(place), 0
    try:
        with place.open("rb") if isinstance(place, Path) else io.BytesIO(read_url(place)) as file:
            rows = _csv_rows(file, source) if source.lower().endswith(".csv") else _parquet_rows(file, source)
            for number, cell in enumerate(rows, 1):
                text = cell.decode() if isinstance(cell, bytes) else "" if cell is None else str(cell)
                text = text.replace("\\", "/").strip()
                if not text:
                    raise CatalogError(f"{source}, row {number}: the path of an image is empty")
                _refuse_secrets(text, f"{source}, row {number}")
                yield text
    except (FileNotFoundError, ImageError) as error:
        why = f": {error}" if isinstance(error, ImageError) else ""
        raise CatalogError(f"there is no list {source}{why}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CatalogError(f"{source} cannot be read: {error}") from error
    if not number:
        raise CatalogError(f"{source} has no images")


def _refuse_secrets(path: str, where: str) -> None:
    """A table of scores would carry them on; an address that merely cannot be used is an error of its own row.

    Raises:
        CatalogError: an address that may have a name, a password or a signature in it, and is refused for whatever reason.
    """
    if not is_url(path) or not ("@" in path.split("/")[2] or "?" in path or ("::" in path and "@" in path)):
        return
    try:
        check_url(path)
    except (CatalogError, ValueError):
        # What was wrong with it is not said in its own words: they may have the secret in them.
        raise CatalogError(
            f"{where}: an address with a name, password, signature or token in it, which a table of scores would carry on; give the "
            "address alone, and put credentials where the tools of that service look for them (environment, ~/.aws, gcloud …)"
        ) from None


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
