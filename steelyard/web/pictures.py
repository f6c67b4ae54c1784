"""Pixels for the browser: decoded safely, encoded anew, never a file as it lies on the disk.

Encoding anew drops whatever else a file carries (names in EXIF or DICOM headers, appended bytes). A picture that was
stored without loss stays without loss; a JPEG becomes a JPEG of high quality. Thumbnails are kept on disk.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from pathlib import Path, PurePath
from typing import Literal

from PIL import Image

from steelyard.files import write_atomically
from steelyard.study import Study

__all__ = ["Pictures", "Size"]

Size = Literal["thumb", "view", "full"]

THUMB = 192
VIEW = 1600
_LOSSY = {".jpg", ".jpeg", ".jpe", ".jfif"}
_MEMORY = 96 << 20


class Pictures:
    """Encoded pictures by row and size, in memory and – thumbnails – on disk.

    Args:
        study: whose images; others may join them.
        folder: where thumbnails are kept; made when the first one is.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self._study, self.folder = study, folder
        self._kept: OrderedDict[tuple[int, str], tuple[bytes, str]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, row: int, size: Size) -> tuple[bytes, str]:
        """The encoded picture and its media type.

        Raises:
            ImageError: the file cannot be read.
        """
        key = (row, size)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        self._study.follow()  # the files may lie elsewhere now
        made = self._thumbnail(row) if size == "thumb" else self._encode(row, size)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._bytes += len(made[0])
                while self._bytes > _MEMORY and len(self._kept) > 1:
                    self._bytes -= len(self._kept.popitem(last=False)[1][0])
        return made

    def _thumbnail(self, row: int) -> tuple[bytes, str]:
        id = self._study.catalog.ids[row]
        path = self.folder / id[:2] / f"{id}-{THUMB}.webp"
        try:
            if kept := path.read_bytes():  # after a power cut it may be empty
                return kept, "image/webp"
        except OSError:
            pass
        image = Image.fromarray(self._study.catalog.read_small(row, 2 * THUMB))
        image.thumbnail((THUMB, THUMB), Image.Resampling.BILINEAR, reducing_gap=2.0)
        out = io.BytesIO()
        image.save(out, "WEBP", quality=82, method=2)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                path, out.getvalue(), sync=False
            )  # a page shows hundreds, and they are made again
        except OSError:
            pass  # a full or read-only disk costs speed, not pictures
        return out.getvalue(), "image/webp"

    def _encode(self, row: int, size: Size) -> tuple[bytes, str]:
        image = Image.fromarray(self._study.catalog.read(row))
        if size == "view" and max(image.size) > VIEW:
            image.thumbnail((VIEW, VIEW), Image.Resampling.LANCZOS, reducing_gap=3.0)
        out = io.BytesIO()
        place = self._study.catalog.place(row)[0]
        if self._study.catalog.kind in ("files", "features") and PurePath(place).suffix.lower() in _LOSSY:
            image.save(out, "JPEG", quality=95, subsampling=0)
            return out.getvalue(), "image/jpeg"
        image.save(out, "PNG", compress_level=1)
        return out.getvalue(), "image/png"
