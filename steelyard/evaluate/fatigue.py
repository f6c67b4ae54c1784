"""What a session does to somebody's answers: how long they take and how steady they are, at first and at the end.

A *session* is the last run of answers without a pause of half an hour. Its first and its last third are compared. Every
figure has a 95% interval: shares Wilson's, a difference of two shares Newcombe's (both from the score test), a median that
of order statistics, and how much longer or shorter answers became that of Hodges and Lehmann on the logarithm of the seconds.
Where there is too little for a figure, there are words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Fatigue",
    "Figure",
    "Over",
    "clearly_below",
    "fatigue",
    "last_session",
    "median_seconds",
    "repeats_alike",
    "share",
    "share_change",
    "time_change",
]

PAUSE_SECONDS = 1800.0
"""A longer time without an answer ends a session."""

LONGEST_SECONDS = 60.0
"""A longer look was a telephone call, not a judgement."""

LEAST_TIMES, LEAST_SHARES = 6, 10
"""Fewer say nothing: six are the least for which a median has a 95% interval."""

Z = 1.959963984540054


@dataclass(frozen=True)
class Figure:
    """A number with its 95% interval, and from how many answers."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Over:
    """One thing over a session; None where there is too little to say.

    Attributes:
        whole: over all of it.
        first: in its first third.
        last: in its last third.
        change: from the first to the last: a factor for seconds, a difference for shares.
        sentence: the same in words.
    """

    whole: Figure | None
    first: Figure | None
    last: Figure | None
    change: Figure | None
    sentence: str


@dataclass(frozen=True)
class Fatigue:
    """A session.

    Attributes:
        answers: how many.
        minutes: from the first to the last.
        seconds: how long an answer took.
        repeats: how often a pair that came again was answered as before.
        gold: how often the answer was the known one; None where that is not to be told.
    """

    answers: int
    minutes: float
    seconds: Over
    repeats: Over
    gold: Over | None


def last_session(answered_at: ArrayLike) -> int:
    """Where the last session begins, as a place in these times, which are in order, shape (n,)."""
    times = np.asarray(answered_at, dtype=np.float64)
    pauses = np.flatnonzero(np.diff(times) > PAUSE_SECONDS)
    return int(pauses[-1]) + 1 if len(pauses) else 0


def repeats_alike(pairs: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """For each answer of one person, in order: 1 where it is what they said about this pair before, 0 where it is not.

    Args:
        pairs: rows (first, second), shape (n, 2).
        labels: P1 for (first, second), NaN where they could not judge, shape (n,).

    Returns:
        Shape (n,); NaN for the first answer about a pair and for those that judge nothing.
    """
    rows, said = np.asarray(pairs).reshape(-1, 2), np.asarray(labels, dtype=np.float64)
    before: dict[tuple[int, int], float] = {}
    alike = np.full(len(said), np.nan)
    for k in np.flatnonzero(~np.isnan(said)).tolist():
        key = (int(rows[k, 0]), int(rows[k, 1]))
        if key in before:
            alike[k] = float(before[key] == said[k])
        before.setdefault(key, float(said[k]))
    return alike


def fatigue(
    answered_at: ArrayLike, seconds: ArrayLike, alike: ArrayLike, right: ArrayLike | None = None
) -> Fatigue:
    """Somebody's last session.

    Args:
        answered_at: times of all their answers, in order, shape (n,).
        seconds: how long each took, NaN where that is not known, shape (n,).
        alike: as `repeats_alike` gives it, shape (n,).
        right: 1 where the known answer was given, 0 where another one was, NaN elsewhere, shape (n,); None tells nothing.
    """
    begin = last_session(answered_at)
    times, took, same = (np.asarray(a, dtype=np.float64)[begin:] for a in (answered_at, seconds, alike))
    took = np.where((took >= 0) & (took <= LONGEST_SECONDS), took, np.nan)
    known = None if right is None else np.asarray(right, dtype=np.float64)[begin:]
    return Fatigue(
        answers=len(times),
        minutes=float(times[-1] - times[0]) / 60 if len(times) else 0.0,
        seconds=_over(took, median_seconds, time_change, _seconds_in_words),
        repeats=_over(same, share, share_change, _repeats_in_words),
        gold=None if known is None else _over(known, share, share_change, _gold_in_words),
    )


# ---------------------------------------------------------------------- figures


def share(values: ArrayLike) -> Figure | None:
    """The share of ones among zeros and ones, with Wilson's interval; None below `LEAST_SHARES`.

    >>> share([1] * 9 + [0]).low > 0.59
    True
    """
    given = _known(values)
    if len(given) < LEAST_SHARES:
        return None
    low, high = _wilson(float(given.sum()), len(given), Z)
    return Figure(float(given.mean()), low, high, len(given))


def share_change(first: ArrayLike, last: ArrayLike) -> Figure | None:
    """The last share less the first, with Newcombe's interval; None where either has too few."""
    a, b = share(first), share(last)
    if a is None or b is None:
        return None
    change = b.value - a.value
    low = change - math.hypot(b.value - b.low, a.high - a.value)
    high = change + math.hypot(b.high - b.value, a.value - a.low)
    return Figure(change, low, high, a.n + b.n)


def median_seconds(values: ArrayLike) -> Figure | None:
    """The median, with the interval of order statistics, which holds whatever the distribution; None below `LEAST_TIMES`."""
    given = np.sort(_known(values))
    n = len(given)
    if n < LEAST_TIMES:
        return None
    # The largest k with P(Binomial(n, 1/2) < k) ≤ 2.5%: the median lies between the k-th from below and from above.
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2) for k in range(n)
    ]
    k = max(1, int(np.searchsorted(np.cumsum(np.exp(logs)), 0.025, side="right")))
    return Figure(float(np.median(given)), float(given[k - 1]), float(given[n - k]), n)


def time_change(first: ArrayLike, last: ArrayLike) -> Figure | None:
    """By which factor answers take longer at the end (below 1: shorter), after Hodges and Lehmann; None with too few."""
    a, b = (np.log(np.maximum(_known(part), 0.05)) for part in (first, last))
    m, n = len(a), len(b)
    if min(m, n) < LEAST_TIMES:
        return None
    shifts = np.sort((b[:, None] - a[None, :]).ravel())
    k = max(0, math.floor(m * n / 2 - Z * math.sqrt(m * n * (m + n + 1) / 12)))
    value, low, high = np.exp([np.median(shifts), shifts[k], shifts[m * n - 1 - k]]).tolist()
    return Figure(value, low, high, m + n)


def clearly_below(right: int, n: int, wanted: float) -> bool:
    """Whether somebody's share is surely below the wanted one: 99.5% sure in one look, because leads look often."""
    return n >= LEAST_SHARES and _wilson(right, n, 2.807033768343811)[1] < wanted


def _wilson(ones: float, n: int, z: float) -> tuple[float, float]:
    p, zz = ones / n, z * z
    middle = (p + zz / (2 * n)) / (1 + zz / n)
    half = z * math.sqrt(p * (1 - p) / n + zz / (4 * n * n)) / (1 + zz / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def _known(values: ArrayLike) -> NDArray[np.float64]:
    given = np.asarray(values, dtype=np.float64)
    return given[~np.isnan(given)]


def _over(
    values: NDArray[np.float64],
    of: Callable[[ArrayLike], Figure | None],
    between: Callable[[ArrayLike, ArrayLike], Figure | None],
    words: Callable[[Over], str],
) -> Over:
    third = len(values) // 3
    parts = values[:third], values[len(values) - third :]
    found = Over(of(values), of(parts[0]), of(parts[1]), between(*parts), "")
    return Over(found.whole, found.first, found.last, found.change, words(found))


# ---------------------------------------------------------------------- words


def _seconds_in_words(over: Over) -> str:
    if over.whole is None:
        return "There are too few answers yet to say how long they take you."
    text = f"An answer typically took {over.whole.value:.1f} s (95% interval {over.whole.low:.1f} to {over.whole.high:.1f} s)"
    if over.change is None or over.first is None or over.last is None:
        return f"{text}."
    if over.change.low <= 1 <= over.change.high:
        return f"{text}, at the end about as long as at the beginning."
    became = "longer" if over.change.value > 1 else "shorter"
    return f"{text}; it became {became}: {over.first.value:.1f} s in the first third, {over.last.value:.1f} s in the last."


def _repeats_in_words(over: Over) -> str:
    if over.whole is None:
        return "Too few pairs came a second time to say how steady your answers are."
    text = f"Of {over.whole.n} pairs that came again, {_percent(over.whole)} were answered as before"
    return f"{text}{_changed(over)}"


def _gold_in_words(over: Over) -> str:
    if over.whole is None:
        return "Too few pairs with a known answer were among them to say how often yours was the same."
    text = f"Of {over.whole.n} hidden pairs with a known answer, {_percent(over.whole)} were answered so"
    return f"{text}{_changed(over)}"


def _percent(figure: Figure) -> str:
    return f"{figure.value:.0%} (95% interval {figure.low:.0%} to {figure.high:.0%})"


def _changed(over: Over) -> str:
    if over.change is None or over.first is None or over.last is None:
        return "."
    if over.change.low <= 0 <= over.change.high:
        return ", at the end about as often as at the beginning."
    return f": {over.first.value:.0%} in the first third, {over.last.value:.0%} in the last."
