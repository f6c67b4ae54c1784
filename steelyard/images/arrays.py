"""NumPy files as memory maps: `.npy`, and the members of an `.npz` that were stored without compression."""

from __future__ import annotations

import tokenize
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from steelyard.errors import CatalogError
from steelyard.files import replacing

__all__ = ["array_names", "main_array", "open_array", "save_array"]


def array_names(path: Path) -> list[str]:
    """Names of the arrays in an `.npz`; of a `.npy` one empty name.

    Raises:
        CatalogError: the file is missing, or no NumPy file.
    """
    with _errors(path):
        if _is_npy(path):
            return [""]
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def main_array(path: Path) -> str:
    """The name of the one array that is meant: `features` if there is one, else the only array.

    Raises:
        CatalogError: an `.npz` with several arrays, none of them `features`.
    """
    names = array_names(path)
    if "features" in names:
        return "features"
    if len(names) != 1:
        raise CatalogError(
            f"{path} has {len(names)} arrays ({', '.join(names)}); name the matrix 'features' or keep one"
        )
    return names[0]


def open_array(path: Path, name: str = "") -> NDArray[Any]:
    """An array of a NumPy file: mapped, not read – unless it is compressed, then it is read.

    Never unpickles anything.

    Raises:
        CatalogError: the file is missing, damaged or no NumPy file, or has no such array.
    """
    with _errors(path):
        if _is_npy(path):
            return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
        with zipfile.ZipFile(path) as archive:
            try:
                member = archive.getinfo(f"{name}.npy")
            except KeyError:
                raise CatalogError(
                    f"{path} has no array '{name}'; it has: {', '.join(array_names(path)) or 'none'}"
                ) from None
            with archive.open(member) as stream:
                if member.compress_type != zipfile.ZIP_STORED:
                    return npy.read_array(stream, allow_pickle=False)
                version = npy.read_magic(stream)
                header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, fortran, dtype = header(stream)
                inside = stream.tell()
            if dtype.hasobject:
                raise ValueError("it holds Python objects, not numbers")
            with path.open("rb") as file:
                # The local header may be longer than the central one, so its two lengths are read from the spot.
                file.seek(member.header_offset + 26)
                name_length = int.from_bytes(file.read(2), "little")
                extra_length = int.from_bytes(file.read(2), "little")
            offset = member.header_offset + 30 + name_length + extra_length + inside
            return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")


def save_array(values: NDArray[Any], path: Path) -> None:
    """Write a `.npy`, whole or not at all.

    Raises:
        CatalogError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.save(file, np.ascontiguousarray(values), allow_pickle=False)
    except OSError as error:
        raise CatalogError(f"cannot write {path}: {error.strerror or error}") from error


def _is_npy(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(6) == b"\x93NUMPY"


class _errors:
    """Whatever goes wrong with the file is a CatalogError that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise CatalogError(f"there is no file {self.path}") from error
        # NumPy reads a header as Python, and lets whatever that raises through.
        header = SyntaxError | tokenize.TokenError | TypeError | OverflowError | MemoryError
        if isinstance(error, OSError | ValueError | zipfile.BadZipFile | EOFError | header):
            raise CatalogError(
                f"{self.path} is not a NumPy file (.npy or .npz) that can be read: {error}"
            ) from error
