"""Waiting for something to happen: the one place in the tests that sleeps until a condition holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str = "it", *, seconds: float = 60.0, every: float = 0.05) -> T:
    """Ask again and again until the answer is true, and return that answer.

    Raises:
        TimeoutError: it was not, in so many seconds. Generous on purpose: only a failing test waits that long.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(every)
    return found
