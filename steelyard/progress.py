"""How long-running work says how far it is. Library code never prints; it calls what it was given."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

__all__ = ["Pace", "Progress", "counted", "duration", "how_far"]

Progress = Callable[[int, int, str], None]
"""Called as `progress(done, total, text)`; what stands before a colon in the text names the stage."""

_WINDOW = 60.0  # seconds; a machine that was busy a while ago says little about the next minutes
_SHORTEST = 2.0  # seconds of work before anything is forecast


class Pace:
    """Forecasts when work will be done from how it went in the last minute.

    Args:
        clock: tells seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        self._total = 0

    def reached(self, done: int, total: int) -> None:
        """So many of so many are done now; what was there at the first call took no time."""
        now = self._clock()
        if total != self._total or (self._seen and done < self._seen[-1][1]):  # other work has begun
            self._seen.clear()
            self._total = total
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] > _WINDOW:
            self._seen.popleft()

    @property
    def left(self) -> float | None:
        """Seconds to go; None while nobody can tell."""
        if len(self._seen) < 2:
            return None
        (first, before), (_, done) = self._seen[0], self._seen[-1]
        # Up to now, not up to the last call: work that has come to a halt takes longer and longer.
        spent = self._clock() - first
        if done <= before or spent < _SHORTEST:
            return None
        return max(0.0, spent / (done - before) * (self._total - done))


def duration(seconds: float) -> str:
    """A time that people wait, in words.

    >>> duration(20), duration(65), duration(480), duration(9000)
    ('less than a minute', '1 minute', '8 minutes', '2.5 hours')
    """
    minutes = seconds / 60
    if minutes < 0.75:
        return "less than a minute"
    if minutes >= 100:
        return f"{minutes / 60:.1f}".removesuffix(".0") + " hours"
    whole = max(1, round(minutes))
    return f"{whole} minute{'s' if whole > 1 else ''}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "answer"), counted(1200, "answer"), counted(2, "person", "people")
    ('1 answer', '1,200 answers', '2 people')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def how_far(done: int, total: int, text: str, left: float | None = None) -> str:
    """Where work stands, as one phrase.

    >>> how_far(340, 2000, "features", 170)
    'features 340 of 2,000, about 3 minutes left'
    >>> how_far(3, 300, "training: loss 0.41")
    'training 3 of 300, loss 0.41'
    """
    stage, _, detail = text.partition(": ")
    parts = [f"{stage} {done:,} of {total:,}" if total > 0 else stage]
    if detail:
        parts.append(detail)
    if left is not None and done < total:
        words = duration(left)
        parts.append(f"{words} left" if words.startswith("less") else f"about {words} left")
    return ", ".join(parts)
