"""Files of images that lie elsewhere, kept here for a while: as many as fit, those used last.

A file is named by its URL and written whole or not at all. Whoever reads it compares its bytes with the image's id, so that a
torn, a foreign or an outdated one is never shown: it is fetched again. What is kept is counted before it is written, under
a lock that a killed process gives back; so however many processes share it, the folder never grows beyond its limit.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import ImageError
from steelyard.files import UNFINISHED, write_atomically
from steelyard.images.hashing import content_id, has_id
from steelyard.images.remote import read_url
from steelyard.privacy import read_umask

__all__ = ["Originals", "read_original"]

_ROOM = 0.8  # so much of the limit is left after some had to go
_TOTAL = "total"
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Originals:
    """A bounded folder of files by URL.

    Args:
        folder: made when the first file is kept.
        limit: bytes of all files together; 0 keeps none.
    """

    folder: Path
    limit: int

    def path(self, url: str) -> Path:
        """Where the file of a URL is, or would be."""
        name = content_id(url.encode())
        return self.folder / name[:2] / name

    def has(self, url: str) -> bool:
        """Whether a file is kept; it was not looked into."""
        return self.limit > 0 and self.path(url).is_file()

    def get(self, url: str) -> bytes | None:
        """The file as it is kept, None where it is not."""
        if self.limit <= 0:
            return None
        path = self.path(url)
        try:
            content = path.read_bytes()
            os.utime(path)  # used just now: others go first
        except OSError:
            return None
        return content

    def keep(self, url: str, content: bytes) -> None:
        """Keep a file; a disk that is full or cannot be written costs speed, not pictures."""
        if len(content) > self.limit * _ROOM or self.limit <= 0:
            return
        from filelock import FileLock

        path = self.path(url)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o777 & ~read_umask())
            path.parent.mkdir(exist_ok=True, mode=0o777 & ~read_umask())
            with FileLock(self.folder / "lock", poll_interval=0.01, mode=0o666 & ~read_umask()):
                total = self._counted() + len(content)
                if total > self.limit:
                    total = self._make_room(len(content)) + len(content)
                write_atomically(self.folder / _TOTAL, str(total), sync=False)
                write_atomically(path, content, sync=False)  # a power cut may tear it; its hash will tell

    def drop(self, url: str) -> None:
        """Forget a file that is not what it should be."""
        with suppress(OSError):
            self.path(url).unlink()

    def _counted(self) -> int:
        """How much there is, never less than is true; a count that cannot be read means that all files are counted."""
        try:
            return int((self.folder / _TOTAL).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return self.limit

    def _make_room(self, wanted: int) -> int:
        """Delete the files used longest ago; what is left, in bytes."""
        files, total = [], 0
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(OSError):
                seen = path.stat()
                if path.name.endswith(UNFINISHED):
                    # Of a killed process, unless somebody on another machine is just writing it.
                    if time.time() - seen.st_mtime > _ABANDONED_SECONDS:
                        path.unlink()
                    continue
                files.append((seen.st_mtime_ns, seen.st_size, path))
                total += seen.st_size
        if total + wanted <= self.limit:  # the count was too high
            return total
        for _, size, path in sorted(files, key=lambda file: file[0]):
            if total + wanted <= self.limit * _ROOM:
                break
            with suppress(OSError):
                path.unlink()
                total -= size
        return total


def read_original(url: str, originals: Originals | None, *, id: str = "", frame: int = 0) -> bytes:
    """The file of an image that lies elsewhere, from what is kept or from there.

    Args:
        url: where.
        originals: what is kept; None keeps nothing.
        id: of the image; empty where it is not a hash of bytes.
        frame: which frame of a DICOM file the id is of, 0 of the whole file.

    Raises:
        ImageError: it is not there, or is another file than the one that joined.
        UnreachableError: nobody answers now.
    """
    if originals is not None and id and (kept := originals.get(url)) is not None:
        if has_id(kept, id, frame):
            return kept
        originals.drop(url)
    content = read_url(url)
    if id and not has_id(content, id, frame):
        raise ImageError(url, "has other bytes than when it joined; give the new image a name of its own")
    if originals is not None and id:
        originals.keep(url, content)
    return content
