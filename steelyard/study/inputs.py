"""What the ranker sees of a study's images, without those that cannot be read, until they can."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.config import RankerConfig
from steelyard.errors import ImageError
from steelyard.images.cache import UnreadableImages
from steelyard.images.catalog import Catalog
from steelyard.images.presence import has_file
from steelyard.progress import Progress

__all__ = ["InputReader", "Inputs", "missing_files"]


LOOKED_UP = 20_000  # images
AGAIN_SECONDS = 120.0
SO_FAR = 50_000  # images whose rows are gathered in memory while more of them are computed


@dataclass(frozen=True)
class Inputs:
    """Rows for a ranker.

    Attributes:
        rows: features (N, D), activations (N, H, W, C) or pixels (N, H, W, 3); zeros where an image has none.
        absent: catalog rows of those, ascending. Whoever learns, chooses or ranks leaves them out.
        reasons: why an image could not be read, one for each of `unreadable`.
        complete: False while rows are being computed: absent are then all images that have none yet.
    """

    rows: NDArray[Any]
    absent: NDArray[np.int64]
    reasons: tuple[str, ...] = ()
    complete: bool = True

    @property
    def unreadable(self) -> NDArray[np.int64]:
        """Absent images that were tried."""
        return self.absent if self.complete else self.absent[:0]

    @property
    def waiting(self) -> NDArray[np.int64]:
        """Absent images whose turn has not come."""
        return self.absent[:0] if self.complete else self.absent


class InputReader:
    """Computes inputs once and looks again when a file that could not be read has changed."""

    def __init__(self, catalog: Catalog, cache: Path) -> None:
        self._catalog, self._cache = catalog, cache
        self._kept: Inputs | None = None
        self._config: RankerConfig | None = None
        self._looked: list[tuple[int, ...]] = []  # at the files of absent images, when they could not be read

    def read(self, config: RankerConfig, progress: Progress | None = None, *, patient: bool = True) -> Inputs:
        """The inputs as files are now.

        Args:
            config: of the ranker.
            progress: told how far it is.
            patient: compute what is missing; False takes the rows that are there, if there are any.

        Raises:
            ImageError: no image at all can be read.
            RankerError: features are needed and the catalog has none, or the other way round.
        """
        if not patient and not self.ready(config) and (part := self._so_far(config)) is not None:
            return part
        kept = self._kept if config == self._config else None
        if kept is None or self._looks(kept.absent) != self._looked:
            kept = _read(self._catalog, config, self._cache, progress)
            self._keep(config, kept)
        return kept

    def ready(self, config: RankerConfig) -> bool:
        """Whether `read` has nothing to compute: it did so before, or all rows are in the cache.

        Of very many images only the former is looked up; looking through the cache would take too long for whoever asks.
        """
        if config == self._config:
            return True
        if len(self._catalog) > LOOKED_UP:
            return False
        from steelyard.ranker.inputs import kept_inputs

        rows = kept_inputs(self._catalog, config, self._cache)
        if rows is not None:
            self._keep(config, Inputs(rows, np.empty(0, dtype=np.int64)))
        return rows is not None

    def _so_far(self, config: RankerConfig) -> Inputs | None:
        from steelyard.ranker.inputs import inputs_so_far

        found = inputs_so_far(self._catalog, config, self._cache, SO_FAR)
        if found is None:
            return None
        rows, there = found
        return Inputs(rows, np.setdiff1d(np.arange(len(rows)), there), complete=False)

    def _keep(self, config: RankerConfig, inputs: Inputs) -> None:
        self._config, self._kept, self._looked = config, inputs, self._looks(inputs.absent)

    def _looks(self, rows: NDArray[np.int64]) -> list[tuple[int, ...]]:
        return [_look(self._catalog.place(int(row))[0]) for row in rows]


def missing_files(catalog: Catalog, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the rows whose file is gone or empty; one look at each, nothing is read."""
    if catalog.kind != "files":
        return rows[:0]
    # Images elsewhere are not asked for one by one: there may be many, and whoever shows one looks again.
    return np.array([row for row in rows.tolist() if not has_file(catalog, row, ask=False)], dtype=np.int64)


def _read(catalog: Catalog, config: RankerConfig, cache: Path, progress: Progress | None) -> Inputs:
    from steelyard.ranker.inputs import read_inputs

    failures: dict[int, ImageError] = {}
    while True:
        present = np.setdiff1d(np.arange(len(catalog)), list(failures))
        part = catalog if not failures else catalog.subset(present)
        try:
            found = read_inputs(part, config, cache=cache, progress=progress)
            break
        except UnreadableImages as error:
            # All others are in the cache by now; only a file that vanishes meanwhile brings us here again.
            failures |= {int(present[position]): reason for position, reason in error.failures}
            if len(failures) == len(catalog):
                raise
    if not failures:
        return Inputs(found, np.empty(0, dtype=np.int64))
    rows = np.zeros((len(catalog), *found.shape[1:]), dtype=found.dtype)
    rows[present] = found
    absent = sorted(failures)
    reasons = tuple(f"{catalog.paths[row]} ({failures[row].reason})" for row in absent)
    return Inputs(rows, np.array(absent, dtype=np.int64), reasons)


def _look(place: Path | str) -> tuple[int, ...]:
    """Size and times of a file: they change when it is put back, mended, or allowed to be read."""
    if isinstance(place, str):  # elsewhere: worth another try every few minutes
        return (int(time.monotonic() // AGAIN_SECONDS),)
    try:
        seen = place.stat()
    except (OSError, ValueError):  # ValueError: a NUL byte in the path
        return ()
    return seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
