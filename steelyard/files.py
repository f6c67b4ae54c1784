"""Files that are there whole or not at all, also when the power goes in the middle."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from steelyard.privacy import read_umask

__all__ = ["UNFINISHED", "move_new", "replacing", "sync_file", "sync_folder", "sync_tree", "write_atomically"]

UNFINISHED = ".unfinished"
"""How names end that somebody was still writing; whatever is called so may be deleted when nobody is at work."""


@contextmanager
def replacing(path: Path, *, private: bool = True, sync: bool = True) -> Iterator[IO[bytes]]:
    """A file to write into, which takes the place of `path` in one step when the block ends well.

    On an error nothing has changed and nothing is left behind. What replaces a file keeps its permissions.

    Args:
        path: the file.
        private: a new file is part of a study (see `privacy`); otherwise the process decides who may read it.
        sync: wait until it is on disk under its name. Without, a power cut may leave an empty file: for caches only.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    rights = 0o666 & ~read_umask() if private else 0o666
    try:
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, rights)) as file:
            yield file
            file.flush()
            if path.exists():
                unfinished.chmod(stat.S_IMODE(path.stat().st_mode))
            if sync:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def write_atomically(path: Path, content: bytes | str, *, private: bool = True, sync: bool = True) -> None:
    """Replace a file in one step, as `replacing` does."""
    with replacing(path, private=private, sync=sync) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def move_new(source: Path, target: Path) -> None:
    """Give a finished file its name, unless there is something of that name.

    Raises:
        FileExistsError: there is, even if it came this moment.
    """
    try:
        os.link(source, target)  # unlike a rename, never replaces
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(f"{target} exists") from None
        source.rename(target)
    else:
        source.unlink()
    sync_folder(target.parent)


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    if os.name != "nt":  # Windows cannot open folders, and keeps names by itself
        sync_file(folder)


def sync_tree(folder: Path) -> None:
    """Wait until everything below a folder is on disk."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file():
            sync_file(path)
        elif path.is_dir():
            sync_folder(path)
    sync_folder(folder)
