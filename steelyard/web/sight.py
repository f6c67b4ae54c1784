"""Which pictures somebody may look at: an annotator sees what was handed to them, and nothing else of the study."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable

from steelyard.store.store import Store

__all__ = ["Sight"]


class Sight:
    """Remembers who was shown what; what it does not remember it looks up. Several threads may ask.

    What was shown once stays in sight, so only a yes is remembered: one bit an image and annotator, so that memory does
    not grow with the answers of a long day.

    Args:
        store: knows pairs and images that were handed out, answers, and neighbours that were shown.
        examples: catalog rows that everybody who grades sees.
    """

    def __init__(self, store: Store, examples: Callable[[], Iterable[int]]) -> None:
        self._store, self._examples = store, examples
        self._seen: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._lock = threading.Lock()

    def show(self, annotator: str, rows: Iterable[int]) -> None:
        """Rows were handed to somebody."""
        with self._lock:
            seen = self._seen[annotator]
            for row in rows:
                byte, bit = divmod(row, 8)
                if byte >= len(seen):
                    seen.extend(bytes(byte + 1 - len(seen)))
                seen[byte] |= 1 << bit

    def remembers(self, annotator: str, row: int) -> bool:
        """Whether a row is known to be in somebody's sight without asking the store."""
        seen = self._seen.get(annotator, b"")
        byte, bit = divmod(row, 8)
        return byte < len(seen) and bool(seen[byte] >> bit & 1)

    def holds(self, annotator: str, row: int) -> bool:
        """Whether a row was ever handed or shown to somebody."""
        if self.remembers(annotator, row):
            return True
        if row not in self._examples() and not self._store.people.has_seen(annotator, row):
            return False
        self.show(annotator, [row])
        return True
