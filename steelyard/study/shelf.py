"""A folder that several machines reach by URL (fsspec: `s3://…`, `gs://…`, `file:///…`): files go up whole and come down checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from steelyard.errors import ConfigError, StudyError

__all__ = ["Kept", "Shelf", "ShelfError", "digest_of"]

_CHUNK = 1 << 20


class ShelfError(StudyError):
    """The shelf cannot be used now; it may be tomorrow."""


class Kept(NamedTuple):
    """What a file on the shelf must be: whoever fetches anything else has fetched nothing."""

    bytes: int
    digest: str


class Shelf:
    """The part of such a folder that belongs to one study.

    Args:
        url: as `models` of study.toml says.
        study: a name that no other study has; studies may share a URL.

    Raises:
        ConfigError: the URL cannot be used here, and why.
    """

    def __init__(self, url: str, study: str) -> None:
        import fsspec

        self.url, self.study = url, study
        try:
            self._fs, path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ConfigError(
                f"models = {url!r} cannot be used: {error}; it looks like s3://bucket/folder (pip install s3fs) or "
                "file:///folder"
            ) from None
        self._root = f"{path.rstrip('/')}/{study}"

    def put(self, name: str, file: Path) -> Kept:
        """Put a file up, replacing what was there; gives what it is.

        Raises:
            ShelfError: it could not be written.
        """
        target = f"{self._root}/{name}"
        with self._said(f"{file} could not be put to"), file.open("rb") as source:
            self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            with self._fs.open(target, "wb") as out:
                return _copy(source, out)

    def get(self, name: str, file: Path, kept: Kept) -> None:
        """Fetch a file; it is there when this returns, and is what was put up.

        Raises:
            ShelfError: it cannot be read, or is something else.
        """
        with self._said(f"{name} could not be fetched from"):
            file.touch(mode=0o600)
            with self._fs.open(f"{self._root}/{name}", "rb") as source, file.open("wb") as out:
                found = _copy(source, out)
            if found != kept:
                file.unlink()
                raise ShelfError(
                    f"{name} at {self.url} is not what was put there ({found.bytes:,} bytes instead of {kept.bytes:,}, or "
                    "others); train again, or put the file back"
                )

    def folders(self, name: str) -> list[str]:
        """Names of what lies in a folder; none where there is no such folder.

        Raises:
            ShelfError: it cannot be read.
        """
        with self._said(f"{name} could not be listed at"):
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(f"{self._root}/{name}", detail=False)
            except FileNotFoundError:
                return []
            return sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in found)

    def remove(self, name: str) -> None:
        """Remove a file or a folder with everything in it; one that is not there is no error.

        Raises:
            ShelfError: it could not be removed.
        """
        with self._said(f"{name} could not be removed from"):
            try:
                self._fs.rm(f"{self._root}/{name}", recursive=True)
            except FileNotFoundError:
                return

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except ShelfError:
            raise
        except Exception as error:  # every kind of storage has errors of its own
            said = f"{type(error).__name__}: {error}"
            raise ShelfError(
                f"{what} {self.url} ({said}); see that this machine can reach it and may"
            ) from error


def digest_of(file: Path) -> Kept:
    """What a file is."""
    with file.open("rb") as source:
        return _copy(source, None)


def _copy(source: Any, out: IO[bytes] | None) -> Kept:
    digest, count = hashlib.blake2b(digest_size=32), 0
    while part := source.read(_CHUNK):
        digest.update(part)
        count += len(part)
        if out is not None:
            out.write(part)
    return Kept(count, digest.hexdigest())
