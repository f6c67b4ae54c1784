"""Handing out pairs that can be shown: nobody is asked about a picture whose file is gone."""

from __future__ import annotations

import time

import numpy as np

from steelyard.images.presence import has_file
from steelyard.store.records import Leased
from steelyard.study import Study

__all__ = ["Handing"]

MOST = 100
REST_SECONDS = 2.0


class Handing:
    """Hands out pairs of images whose files are there; several threads may ask.

    Args:
        study: whose pairs.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._nothing_until = 0.0

    def there(self, row: int) -> bool:
        """Whether a picture can be shown, as far as a look at its file tells."""
        return has_file(self._study.catalog, row)

    def pairs(self, annotator: str, count: int) -> tuple[list[Leased], bool]:
        """Up to so many pairs, those that are held already first; and whether files are missing, so that others were held back.

        What is held back is given up again: it is asked as soon as the files are back, by whoever comes first.
        """
        study, store = self._study, self._study.store
        if not study.follow() and time.monotonic() < self._nothing_until:
            return (
                [],
                True,
            )  # a crowd whose pictures have gone comes every second; one look for all of them is enough
        n = count
        while True:
            leased = store.pairs.lease(
                annotator, n, seconds=study.config.ask.lease_seconds, rng=np.random.default_rng()
            )
            lacking = {p.pair for p in leased if not (self.there(p.left_row) and self.there(p.right_row))}
            shown = [pair for pair in leased if pair.pair not in lacking]
            if len(shown) >= count or len(leased) < n or n >= MOST:
                break
            n = min(MOST, n + 2 * len(lacking))
        store.pairs.give_up(annotator, sorted(lacking))
        missing = bool(lacking) or (not leased and self._all_missing())
        if missing and not shown:
            self._nothing_until = time.monotonic() + REST_SECONDS
        return shown[:count], missing

    def _all_missing(self) -> bool:
        """Whether it looks as if the folder were gone: then no pair can be chosen, and nothing is up to tell by."""
        rows = np.unique(np.linspace(0, len(self._study.catalog) - 1, 8).astype(int))
        return not any(self.there(int(row)) for row in rows)
