"""Unordered pairs: the words, forming them, never twice.

A pair is two different images in no order. How it is shown (`left`, `right`) is decided when it is handed to
somebody; what it is called in arrays is a row `(i, j)` of catalog rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Pairs
from steelyard.errors import PairError, SteelyardError

__all__ = [
    "SAMPLE",
    "Answer",
    "Pair",
    "PairSet",
    "UniquePairs",
    "check_pairs",
    "form_pairs",
    "random_pairs",
    "unique_pairs",
]

SAMPLE = 2048
"""Pairs that stand for a large set, see `PairSet.sample`."""


class Answer(str, Enum):
    """What somebody said about a pair as it was shown."""

    LEFT = "left"
    RIGHT = "right"
    EQUAL = "equal"
    CANNOT_JUDGE = "cannot judge"

    @property
    def label(self) -> float | None:
        """The relative label of P1 for (left, right): 1, 0.5, 0, or None where there is none.

        >>> Answer.LEFT.label, Answer.EQUAL.label, Answer.CANNOT_JUDGE.label
        (1.0, 0.5, None)
        """
        return {"left": 1.0, "equal": 0.5, "right": 0.0}.get(self.value)

    @classmethod
    def from_label(cls, label: float) -> Answer:
        """The answer that P1's label stands for.

        Raises:
            PairError: the label is none of 1, 0.5 and 0.
        """
        try:
            return {1.0: cls.LEFT, 0.5: cls.EQUAL, 0.0: cls.RIGHT}[float(label)]
        except KeyError:
            raise PairError(f"a relative label is 1, 0.5 or 0 (P1), not {label!r}") from None

    def mirrored(self) -> Answer:
        """The same judgement with the sides exchanged."""
        return {Answer.LEFT: Answer.RIGHT, Answer.RIGHT: Answer.LEFT}.get(self, self)


@dataclass(frozen=True)
class Pair:
    """Two images as they are shown, and why.

    Attributes:
        left: id of the image on the left.
        right: id of the image on the right.
        round: the turn of the loop that chose it.
        strategy: what chose it.
        reason: why, in one sentence.
        id: the store's number of the pair, None while it is in no store.
    """

    left: str
    right: str
    round: int = 0
    strategy: str = ""
    reason: str = ""
    id: int | None = None


def check_pairs(
    pairs: ArrayLike,
    size: int | None = None,
    *,
    error: type[SteelyardError] = PairError,
    same: bool = False,
) -> Pairs:
    """Pairs as an (n, 2) array of catalog rows; nothing at all is an empty one.

    Args:
        pairs: rows (i, j), shape (n, 2).
        size: how many images there are; None where they are counted elsewhere.
        error: what to raise.
        same: whether an image may stand beside itself.

    Raises:
        SteelyardError: of the class `error`: not whole numbers of this shape, a row outside the images, or an image
            paired with itself.
    """
    rows = np.asarray(pairs)
    if rows.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != 2 or not np.issubdtype(rows.dtype, np.integer):
        raise error(f"pairs are whole numbers of the shape (n, 2), not {rows.dtype} of {rows.shape}")
    if size is not None and (rows.min() < 0 or rows.max() >= size):
        outside = rows[((rows < 0) | (rows >= size)).any(axis=1)][0]
        raise error(f"pair {tuple(outside.tolist())} is outside the {size} images (rows 0 … {size - 1})")
    if not same and (rows[:, 0] == rows[:, 1]).any():
        twin = int(rows[rows[:, 0] == rows[:, 1]][0, 0])
        raise error(f"image {twin} cannot be paired with itself")
    return rows.astype(np.int64)


class UniquePairs(NamedTuple):
    """Different pairs among many.

    Attributes:
        pairs: in ascending order, shape (m, 2).
        first: where each comes first, shape (m,).
        place: which of them each given pair is, shape (n,).
        times: how often each was given, shape (m,).
    """

    pairs: Pairs
    first: NDArray[np.int64]
    place: NDArray[np.int64]
    times: NDArray[np.int64]


def unique_pairs(pairs: ArrayLike) -> UniquePairs:
    """The different pairs as they are written: (i, j) is not (j, i) here.

    One number a pair is sorted, which takes a tenth of the time that rows of two take.

    >>> unique_pairs([(3, 1), (0, 2), (3, 1)]).pairs.tolist()
    [[0, 2], [3, 1]]

    Raises:
        PairError: a number below 0, or too large to count the pairs of.
    """
    index = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    size = int(index.max(initial=0)) + 1
    if index.min(initial=0) < 0 or size > 2**31:
        raise PairError(f"pairs are of numbers from 0 to {2**31 - 1:,}, not {index.min()} to {index.max()}")
    keys, first, place, count = np.unique(
        index[:, 0] * size + index[:, 1], return_index=True, return_inverse=True, return_counts=True
    )
    return UniquePairs(np.stack([keys // size, keys % size], axis=1), first, place.reshape(-1), count)


class PairSet:
    """A set of unordered pairs of rows `0 … size-1`, kept as sorted integer keys.

    >>> taken = PairSet(10, [(1, 2)])
    >>> (2, 1) in taken, (2, 3) in taken, len(taken)
    (True, False, 1)
    """

    def __init__(self, size: int, pairs: ArrayLike | None = None) -> None:
        if size < 0:
            raise PairError(f"a set of pairs needs a number of images of 0 or more, not {size}")
        self.size = size
        self._keys: set[int] = set()
        self._uses = np.zeros(size, dtype=np.int32)
        self._sample = np.empty(0, dtype=np.int64)  # keys
        self._bound = np.uint64(2**64 - 1)  # only what scatters below it can still come into the sample
        if pairs is not None:
            self.add(pairs)

    def keys(self, pairs: ArrayLike) -> NDArray[np.int64]:
        """One integer per pair, the same for (i, j) and (j, i).

        Raises:
            PairError: a row is out of range or pairs an image with itself.
        """
        rows = check_pairs(pairs, self.size)
        low, high = rows.min(axis=1), rows.max(axis=1)
        return np.asarray(low * np.int64(self.size) + high, dtype=np.int64)

    def add(self, pairs: ArrayLike) -> None:
        """Put pairs in; those already there stay once."""
        new = set(self.keys(pairs).tolist()).difference(self._keys)
        self._keys |= new
        keys = np.fromiter(new, dtype=np.int64, count=len(new))
        for rows in (keys // max(self.size, 1), keys % max(self.size, 1)):
            np.add.at(self._uses, rows, 1)
        self._add_to_sample(keys)

    def contains(self, pairs: ArrayLike) -> NDArray[np.bool_]:
        """For each pair, whether it is in the set."""
        keys = self.keys(pairs)
        found = self._keys.intersection(keys.tolist())  # most candidates are free, so this is small
        return np.isin(keys, list(found)) if found else np.zeros(len(keys), dtype=bool)

    def copy(self) -> PairSet:
        """An independent copy."""
        other = PairSet(self.size)
        other._keys, other._uses = set(self._keys), self._uses.copy()
        other._sample, other._bound = self._sample, self._bound  # replaced, never changed
        return other

    @property
    def uses(self) -> NDArray[np.int32]:
        """In how many pairs of the set each row is, shape (size,); counted as pairs come, so that asking is free."""
        view = self._uses.view()
        view.flags.writeable = False
        return view

    @property
    def free(self) -> int:
        """How many pairs are not in the set."""
        return self.size * (self.size - 1) // 2 - len(self._keys)

    def to_array(self) -> Pairs:
        """The pairs, each with its smaller row first, in ascending order."""
        keys = np.array(sorted(self._keys), dtype=np.int64)
        return np.stack([keys // max(self.size, 1), keys % max(self.size, 1)], axis=1)

    def sample(self) -> Pairs:
        """At most `SAMPLE` pairs from everywhere in the set: those whose scattered keys are smallest.

        The set alone decides which, not the order in which they came. Kept up to date as pairs come, because reading a
        large set takes longer than choosing the next pair.
        """
        keys = np.sort(self._sample)
        return np.stack([keys // max(self.size, 1), keys % max(self.size, 1)], axis=1)

    def _add_to_sample(self, new: NDArray[np.int64]) -> None:
        new = new[_scattered(new) < self._bound]
        if not len(new):
            return
        keys = np.concatenate([self._sample, new])
        if len(keys) > SAMPLE:
            scattered = _scattered(keys)
            smallest = np.argpartition(scattered, SAMPLE)
            self._bound = scattered[smallest[SAMPLE]]
            keys = keys[smallest[:SAMPLE]]
        self._sample = keys

    def __contains__(self, pair: tuple[int, int]) -> bool:
        return bool(self.contains([pair])[0])

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter([(i, j) for i, j in self.to_array().tolist()])


def form_pairs(chosen: ArrayLike, *, taken: PairSet, rng: np.random.Generator) -> Pairs:
    """Pair the chosen images among themselves: n images make n new pairs, every image in at least one (step 1).

    Each image is given one partner drawn from the others, so that nobody has to judge O(n²) pairs. A pair that was
    asked before, or that two images drew of each other, is drawn anew.

    When an image has no free partner left among the chosen (it has met them all), another free pair of the chosen
    takes its place. When fewer than n free pairs exist, those come back, never a repeated one: two images make one
    pair, not two; fewer make none.

    Args:
        chosen: distinct catalog rows, shape (n,).
        taken: pairs that may not be formed again; not changed.
        rng: source of randomness.

    Returns:
        Pairs, shape (m, 2) with m ≤ n.

    Raises:
        PairError: an image was chosen twice or is outside the catalog.
    """
    images = np.asarray(chosen, dtype=np.int64).reshape(-1)
    n = len(images)
    if len(np.unique(images)) != n:
        values, counts = np.unique(images, return_counts=True)
        raise PairError(f"image {int(values[counts > 1][0])} was chosen twice; choose each image once")
    if n < 2:
        return np.empty((0, 2), dtype=np.int64)

    # First everybody draws at once; only the few whose pair is taken draw again, so the cost is linear in n.
    partner = _draw_partners(np.arange(n), n, rng)
    used = _Used(taken)
    formed: dict[int, int] = {}
    for k, key in enumerate(taken.keys(np.stack([images, images[partner]], axis=1)).tolist()):
        if used.take(key):
            formed[k] = int(partner[k])
    for k in sorted(set(range(n)) - formed.keys()):
        # A handful of draws nearly always finds a free partner; the full list is the proof that there is none.
        for other in chain(_draw_partners(np.full(8, k), n, rng).tolist(), _all_others(k, n, rng)):
            if used.take(int(taken.keys([(images[k], images[other])])[0])):
                formed[k] = other
                break
    firsts = np.array(sorted(formed), dtype=np.int64)
    seconds = np.array([formed[k] for k in firsts.tolist()], dtype=np.int64)
    pairs = np.stack([images[firsts], images[seconds]], axis=1)
    if len(pairs) == n:
        return pairs
    # Somebody has met everybody. The others may still have pairs to give: fill up from those.
    used_up = taken.copy()
    used_up.add(pairs)
    return np.concatenate(
        [pairs, random_pairs(n - len(pairs), taken.size, taken=used_up, rng=rng, rows=images)]
    )


def random_pairs(
    n: int, size: int, *, taken: PairSet, rng: np.random.Generator, rows: ArrayLike | None = None
) -> Pairs:
    """Draw n different pairs that were never asked, each equally likely.

    Args:
        n: how many.
        size: number of images in the catalog.
        taken: pairs that may not be drawn; not changed.
        rng: source of randomness.
        rows: draw among these rows only.

    Returns:
        Pairs, shape (m, 2); m < n only when fewer than n free pairs exist.
    """
    among = np.arange(size, dtype=np.int64) if rows is None else np.unique(np.asarray(rows, dtype=np.int64))
    count = len(among)
    everything = count * (count - 1) // 2
    if n <= 0 or everything == 0:
        return np.empty((0, 2), dtype=np.int64)
    if everything <= max(4 * (n + len(taken)), 1000):
        i, j = np.triu_indices(count, k=1)
        pairs = np.stack([among[i], among[j]], axis=1)
        free = pairs[~taken.contains(pairs)]
        return np.asarray(free[rng.permutation(len(free))[:n]], dtype=np.int64)
    found: list[tuple[int, int]] = []
    used = _Used(taken)
    while len(found) < n:  # most draws are free here, so this ends after about n of them
        want = n - len(found)
        first = rng.integers(count, size=want)
        second = (first + 1 + rng.integers(count - 1, size=want)) % count
        drawn = np.stack([among[first], among[second]], axis=1)
        for pair, key in zip(drawn.tolist(), taken.keys(drawn).tolist(), strict=True):
            if used.take(key):
                found.append((pair[0], pair[1]))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


class _Used:
    """The pairs of a set plus those formed just now, without copying the set."""

    def __init__(self, taken: PairSet) -> None:
        self._taken, self._new = taken._keys, set[int]()

    def take(self, key: int) -> bool:
        """True, once, for a pair that was free."""
        if key in self._taken or key in self._new:
            return False
        self._new.add(key)
        return True


def _draw_partners(positions: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each position another one of the n, never itself."""
    return np.asarray((positions + 1 + rng.integers(n - 1, size=len(positions))) % n, dtype=np.int64)


def _all_others(position: int, n: int, rng: np.random.Generator) -> Iterator[int]:
    """Every other position, shuffled – made only when it is asked for."""
    yield from (int(other) for other in rng.permutation(n) if other != position)


def _scattered(keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A different number for each key, without the keys' order (Fibonacci hashing; it wraps around)."""
    return keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
