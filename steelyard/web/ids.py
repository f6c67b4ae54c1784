"""Names of images outside the server: nobody who holds the source folder can tell which file is behind one.

In files, exports and the store an image is known by the hash of its bytes, which anybody can compute who has the file.
Over HTTP it is that hash, hashed again with a secret of the study.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import CatalogError
from steelyard.images.columns import hex_view
from steelyard.study import Study

__all__ = ["ImageIds"]

_BLOCK = 100_000


class ImageIds:
    """Translates between catalog rows, content ids and the ids that go over HTTP; several threads may ask.

    The way out is one hash. The way back needs all of them: a table made when it is first asked for. Content ids are
    copied at once: the catalog is mapped, and a file that is overwritten under a running server must not turn an answer
    about an image that was handed out into one about no image.

    Args:
        study: whose store keeps the secret, made with the first server that needs it.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        secret = study.store.settings.get("image key")
        if secret is None:  # of two servers that start at once, both take what one of them wrote
            secret = study.store.settings.keep("image key", secrets.token_hex(32))
        self._secret = bytes.fromhex(secret)
        self._until = float(study.store.settings.get("content ids until", 0.0))
        self._lock = threading.Lock()
        self._table: tuple[NDArray[np.uint64], NDArray[np.int64]] | None = None
        self._heads = np.empty(0, dtype=np.uint64)  # the first eight bytes of each public id, by row
        self._contents = hex_view(study.catalog.ids.arrow).copy()

    def public(self, content: str) -> str:
        """The public id of an image with this content id."""
        return self._digest(content.encode()).hex()

    def at(self, row: int) -> str:
        """The public id of a catalog row."""
        return self.public(self.content(row))

    def content(self, row: int) -> str:
        """The content id of a catalog row."""
        if row >= len(self._contents):
            self._grow()
        return str(self._contents[row], "ascii")

    def row(self, public: str) -> int | None:
        """The catalog row behind a public id, or None."""
        try:
            digest = bytes.fromhex(public)
        except ValueError:
            return None
        if len(digest) != 16:
            return None
        found = self._find(digest, public)
        return self._find(digest, public) if found is None and self._grow() else found

    def _find(self, digest: bytes, public: str) -> int | None:
        # Eight bytes find the place, the whole id decides.
        keys, rows = self._sorted()
        wanted = np.frombuffer(digest[:8], dtype=">u8").astype(np.uint64)[0]
        place = int(np.searchsorted(keys, wanted))
        while place < len(keys) and keys[place] == wanted:
            if self.at(int(rows[place])) == public:
                return int(rows[place])
            place += 1
        return None

    def earlier(self, content: str) -> int | None:
        """The catalog row behind a content id, while such names are still taken; or None.

        Version 0.1 gave content ids to browsers. Answers that wait there are taken for two weeks after the study's
        store was migrated; a study that is made now never takes them.
        """
        if time.time() >= self._until:
            return None
        try:
            return self._study.catalog.index_of(content)
        except CatalogError:
            return None

    @property
    def ready(self) -> bool:
        """Whether `row` answers at once."""
        return self._table is not None

    def _grow(self) -> bool:
        """Take in images that joined the study; whether there were any."""
        self._study.follow()
        with self._lock:
            if len(self._study.catalog) <= len(self._contents):
                return False
            self._contents = hex_view(self._study.catalog.ids.arrow).copy()
            self._table = None
            return True

    def _digest(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, key=self._secret, digest_size=16).digest()

    def _sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        table = self._table
        if table is not None:
            return table
        with self._lock:
            if self._table is None:
                blocks = [self._heads]
                for start in range(len(self._heads), len(self._contents), _BLOCK):
                    block = self._contents[start : start + _BLOCK].tolist()
                    heads = b"".join(self._digest(id)[:8] for id in block)
                    blocks.append(np.frombuffer(heads, dtype=">u8").astype(np.uint64))
                keys = self._heads = np.concatenate(blocks)
                order = np.argsort(keys, kind="stable")
                self._table = (keys[order], order)
            return self._table
