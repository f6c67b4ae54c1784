"""What cells are doing while they are computed, so that whoever waits can see them move.

A cell may take hours, in another process. It notes where it is in a small file below `RUN/.now`; whoever runs the experiment reads
the files. On a cluster without a common folder there is nothing to read, and only finished cells are told.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["doing", "noting", "watching"]

_EVERY = 5.0  # seconds between two notes, and between two looks


@contextmanager
def noting(
    run: Path, name: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Inside, `note(text)` says what a cell is doing; afterwards it does nothing any more."""
    place = run / ".now" / f"{name}.txt"
    due = clock()

    def note(text: str) -> None:
        nonlocal due
        if clock() < due:
            return
        due = clock() + _EVERY
        with contextlib.suppress(OSError):  # nobody may see it; that is no reason to stop
            place.parent.mkdir(exist_ok=True)
            place.write_text(text, encoding="utf-8")

    try:
        yield note
    finally:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
            place.parent.rmdir()  # the last one


def doing(run: Path, names: Iterable[str], since: float) -> list[str]:
    """What some cells at work said last.

    Args:
        run: the folder of the run.
        names: of the cells.
        since: in seconds since 1970; what is older was said by a process that was killed.
    """
    found = []
    for name in names:
        path = run / ".now" / f"{name}.txt"
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= since - 1:
                found.append(f"{name} {path.read_text(encoding='utf-8')}")
    return found


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Inside, `look` is called every few seconds, by a thread of its own."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(_EVERY):
            look()

    thread = threading.Thread(target=run, name="running cells", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=_EVERY)
