"""The conflicts of a study as the server keeps them: looked for again when somebody has answered, but not all the time."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from steelyard.study import Study
from steelyard.study.conflicts import Conflict, find_conflicts

__all__ = ["Disputes"]

REST = 20.0  # times as long as the last look took: finding conflicts reads every answer, and never takes a twentieth of a core


class Disputes:
    """Conflicts, the worst first; several threads may ask.

    Args:
        study: whose conflicts.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._lock = threading.Lock()
        self._found: list[Conflict] = []
        self._known: tuple[int, int, int] | None = None
        self._again = 0.0

    def all(self) -> list[Conflict]:
        """Every conflict, with the decision that stands now."""
        found = self._looked()
        standing = {one.pair: one for one in self._study.store.decisions.all()}
        ids = {one.id for one in standing.values()}
        return [
            replace(one, decision=standing.get(one.pair) or (one.decision if _id(one) in ids else None))
            for one in found
        ]

    def _looked(self) -> list[Conflict]:
        store = self._study.store
        with self._lock:
            newest = store.models.newest()
            now = (store.answers.last_seq(), newest.id if newest else 0, len(store.images.excluded_rows()))
            if now != self._known and time.monotonic() >= self._again:
                begun = time.monotonic()
                self._found, self._known = find_conflicts(self._study), now
                self._again = time.monotonic() + REST * (time.monotonic() - begun)
            return self._found


def _id(conflict: Conflict) -> str | None:
    return None if conflict.decision is None else conflict.decision.id
