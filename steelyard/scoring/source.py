"""What is scored, cut into parts in a stable order: images by their names, or rows of a feature matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from steelyard.config import RankerConfig
from steelyard.errors import CatalogError, ConfigError
from steelyard.images.listing import list_images
from steelyard.images.remote import as_place, is_url
from steelyard.scoring.parquet import writing

__all__ = ["Source", "file_identity", "open_matrix", "paths_of_part", "write_source"]

_PART = {"features": 1_000, "pixels": 1_000, "activations": 200}
_PART_ROWS = 10_000


@dataclass(frozen=True)
class Source:
    """Images or rows in parts.

    Attributes:
        kind: images, or rows of a matrix.
        place: folder or address that the images' paths are relative to, or the file of the matrix.
        count: how many there are.
        part: how many go into a part.
        fingerprint: changes when other images, or the same in another order, would be scored.
    """

    kind: Literal["images", "rows"]
    place: str
    count: int
    part: int
    fingerprint: str

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return -(-self.count // self.part)

    def span(self, number: int) -> tuple[int, int]:
        """First of a part, and first of the next."""
        return number * self.part, min(self.count, (number + 1) * self.part)


def write_source(given: str, config: RankerConfig, file: Path, part: int = 0) -> Source:
    """List what is to be scored, and write the list where every worker finds the names of its part.

    Args:
        given: a folder, a list or an address, as `list_images` takes them; a `.npy` for a ranker of feature rows.
        config: of the ranker.
        file: Parquet file with a group of rows for each part; none is written of a matrix.
        part: how many go into a part; 0 takes as many as a worker has room for.

    Raises:
        CatalogError, ConfigError: there is nothing to be scored, or not by this ranker.
    """
    matrix = given.lower().endswith((".npy", ".npz"))
    if matrix != (config.backbone == "none"):
        raise ConfigError(
            f"{given} holds feature rows, and this study's model takes images; name a folder, a list or an address of images"
            if matrix
            else f"this study's model takes feature rows, and {given} is not a matrix of them; name a .npy file"
        )
    if matrix:
        if is_url(given):
            raise ConfigError(f"{given} is a URL; a matrix is mapped from a file: copy it here")
        return _matrix_source(Path(as_place(given)).absolute(), part or _PART_ROWS)  # file:// is a path
    import pyarrow as pa
    import pyarrow.parquet as pq

    listing, size = list_images(given), part or _PART[config.inputs]
    digest, count = hashlib.blake2b(listing.root.encode()), 0
    schema = pa.schema([("path", pa.string()), ("unusable", pa.string())])
    with writing(file.parent), pq.ParquetWriter(file, schema) as writer:
        for rows in _pieces(listing.rows(), size):
            columns = [list(column) for column in zip(*rows, strict=True)]
            writer.write_table(pa.table(columns, schema), row_group_size=size)
            digest.update(b"\0".join(f"{path}{unusable}".encode() for path, unusable in rows) + b"\0")
            count += len(rows)
    return Source("images", listing.root, count, size, digest.hexdigest()[:32])


def paths_of_part(file: Path, number: int) -> list[tuple[str, str]]:
    """Paths of the images of a part, each with the reason why it cannot even be tried, or "".

    Raises:
        CatalogError: the list cannot be read here.
    """
    import pyarrow as pa

    try:
        group = _list_file(file, file_identity(file)).read_row_group(number)
    except (OSError, pa.ArrowException) as error:
        raise CatalogError(
            f"the list {file} cannot be read ({error}); every machine has to see the folder of the scores under the same path, "
            "and the same command writes the list again"
        ) from error
    return list(zip(group.column("path").to_pylist(), group.column("unusable").to_pylist(), strict=True))


def file_identity(path: Path) -> tuple[int, int, int]:
    """Which file has this name now: a process that remembers files by name alone takes an older one for it."""
    seen = path.stat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def open_matrix(place: str) -> NDArray[Any]:
    """The matrix, mapped.

    Raises:
        CatalogError: it is none.
    """
    from steelyard.images.arrays import main_array, open_array

    path = Path(place)
    values = open_array(path, main_array(path))
    if values.ndim != 2 or not len(values) or values.dtype.kind not in "fiu":
        raise CatalogError(
            f"{place}: a feature matrix holds numbers of the shape (images, features), not {values.dtype} of {values.shape}"
        )
    return values


def _matrix_source(path: Path, part: int) -> Source:
    values, seen = open_matrix(str(path)), path.stat()
    about = (str(path), values.shape, str(values.dtype), seen.st_size, seen.st_mtime_ns)
    return Source(
        "rows", str(path), len(values), part, hashlib.blake2b(repr(about).encode()).hexdigest()[:32]
    )


def _pieces(rows: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    rest = iter(rows)
    while piece := list(islice(rest, size)):
        yield piece


@lru_cache(maxsize=1)  # a worker reads many parts of one list
def _list_file(file: Path, _identity: tuple[int, int, int]) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(file)
