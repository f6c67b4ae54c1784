"""Are the files of the images still there? One look at each, as many as fit into a moment; nothing is read."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steelyard.errors import command
from steelyard.images.remote import is_there, is_url

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog

__all__ = ["Presence", "has_file", "look_for_files", "say_where"]

LOOK_SECONDS = 2.0
_STRIDE = 64  # files between two looks at the clock


@dataclass(frozen=True)
class Presence:
    """What a look at the files found.

    Attributes:
        images: how many there are to look for.
        looked: how many were looked for, drawn at random where the time did not suffice for all.
        missing: how many of those are gone or empty.
        example: the path of one of them.
    """

    images: int
    looked: int
    missing: int
    example: str

    @property
    def sentence(self) -> str:
        """How many are missing; empty where none is."""
        if not self.missing:
            return ""
        one = self.missing == 1
        sample = f" looked for (of {self.images:,})" if self.looked < self.images else ""
        which = f": {self.example}" if one else f", {self.example} among them"
        return f"{self.missing:,} of {self.looked:,} image files{sample} {'is' if one else 'are'} not where {'it was' if one else 'they were'}{which}"


def has_file(catalog: Catalog, row: int, *, ask: bool = True) -> bool:
    """Whether an image's file is there and not empty; True for images that are no files of their own.

    Args:
        catalog: whose.
        row: which.
        ask: of a file elsewhere that is not kept here, ask whoever has it; False goes by what was heard lately.
    """
    if isinstance(url := catalog.place(row)[0], str):
        kept = catalog.originals is not None and catalog.originals.has(url)
        return kept or is_there(url, ask=ask)
    path = catalog.raw_path(row)
    if path is None:
        return True
    try:
        return path.stat().st_size > 0
    except (OSError, ValueError):  # ValueError: a NUL byte in the path, of a catalog that was damaged
        return False


def look_for_files(
    catalog: Catalog, *, without: Collection[int] = (), seconds: float = LOOK_SECONDS
) -> Presence:
    """Look for the files of a catalog, for some seconds at most.

    Args:
        catalog: whose files.
        without: rows that nobody misses.
        seconds: after that, what was looked for stands for the rest; a slow network drive does not hold anybody up.
    """
    end, looked, gone = time.monotonic() + seconds, 0, []
    wanted = np.ones(len(catalog), dtype=bool)
    wanted[np.fromiter(without, dtype=np.int64)] = False
    rows = np.flatnonzero(wanted)
    nothing = catalog.kind != "files" and catalog.root is None
    if (
        not len(rows)
        or catalog.kind in ("npz", "pixels")
        or (nothing and not is_url(catalog.paths[int(rows[0])]))
    ):
        return Presence(len(rows), len(rows), 0, "")
    for row in np.random.default_rng(0).permutation(rows):
        if looked and (looked % _STRIDE == 0 or is_url(catalog.paths[int(row)])) and time.monotonic() > end:
            break
        looked += 1
        if not has_file(catalog, int(row)):
            gone.append(int(row))
    return Presence(len(rows), looked, len(gone), str(catalog.paths[min(gone)]) if gone else "")


def say_where(study: Path) -> str:
    """What to do about files that are not where they were."""
    return f"put them back, or say where their folder is now: {command('relocate', study, 'DIR')}"
