"""How far long work is, on standard error: a bar for whoever watches, a line a minute where nobody does.

A log file or a service has no terminal; whoever reads it later wants to know that the work went on, how far it was and how long
it would still take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from steelyard.progress import Pace, Progress, how_far

__all__ = ["Lines", "err", "progress_bar"]

FIRST_SECONDS = 10.0  # what is over sooner is not worth a line
EVERY_SECONDS = 60.0

err = Console(stderr=True, highlight=False)


@contextmanager
def progress_bar(write: Callable[[str], None] | None = None) -> Iterator[Progress]:
    """Show on standard error how far something is.

    Args:
        write: takes the lines where there is no terminal, or where a log wants lines in its own form; None prints them.
    """
    if write is not None or not err.is_terminal:
        with Lines(write or _print) as lines:
            yield lines.report
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=err, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def report(done: int, total: int, text: str) -> None:
            stage = _stage(text)  # "training: loss 0.41" stays one bar
            if stage not in tasks:
                tasks[stage] = bars.add_task(text, total=total, completed=done)
            bars.update(tasks[stage], completed=done, total=total, description=text)

        yield report


class Lines:
    """A line after ten seconds, then one a minute, and a last one for every stage that had any.

    Args:
        write: takes a line.
        clock: tells seconds.
    """

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress lines", daemon=True)
        self._now: tuple[int, int, str] | None = None
        self._pace, self._due, self._told = Pace(clock), 0.0, False

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=5)
        with self._lock:
            self._end_stage()

    def report(self, done: int, total: int, text: str) -> None:
        """As `Progress`."""
        with self._lock:
            if self._now is None or _stage(self._now[2]) != _stage(text):
                self._end_stage()
                self._pace, self._due, self._told = Pace(self._clock), self._clock() + FIRST_SECONDS, False
            self._now = (done, total, text)
            self._pace.reached(done, total)

    def look(self) -> None:
        """Write a line if one is due."""
        with self._lock:
            if self._now is None or self._clock() < self._due:
                return
            self._write(how_far(*self._now, self._pace.left))
            self._told = True
            self._due = self._clock() + EVERY_SECONDS

    def _end_stage(self) -> None:
        if self._now is not None and self._told:
            self._write(how_far(*self._now))
        self._now, self._told = None, False

    def _run(self) -> None:
        # By the clock, not by calls of `report`: a step of ten minutes is when a sign of life is wanted most.
        while not self._over.wait(1.0):
            self.look()


def _stage(text: str) -> str:
    return text.split(":")[0]


def _print(line: str) -> None:
    err.print(f"{time.strftime('%H:%M:%S')}  {line}", markup=False, soft_wrap=True)
