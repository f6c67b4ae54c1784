"""What people hold in their browsers and is asked no more, because an image of it was taken out of the study."""

from __future__ import annotations

import time

from steelyard.store.store import Store

__all__ = ["Gone"]

LOOK_SECONDS = 1.0


class Gone:
    """Told with every acknowledgement, so that a pair that waits in a browser is dropped before it is shown.

    Most studies exclude nothing: whether any image is out is asked once a second, and only then who holds what.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._any, self._looked = False, -LOOK_SECONDS

    def changed(self) -> None:
        """An image was taken out or put back here."""
        self._looked = -LOOK_SECONDS

    def pairs(self, annotator: str) -> list[int]:
        """Numbers of pairs that somebody holds and is not asked about any more."""
        return self._store.pairs.gone(annotator) if self._excluded() else []

    def images(self, annotator: str) -> list[int]:
        """Rows of images that somebody was handed for grading and is not asked about any more."""
        return self._store.grades.gone(annotator) if self._excluded() else []

    def _excluded(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now  # first: what changes while we look is looked at again
            self._any = bool(len(self._store.images.excluded_rows()))
        return self._any
