"""Candidate and target pairs, sampled from all N² in a number of steps that does not grow faster than N.

A strategy first takes a *pool* of images (all of them, or a sample when there are many) and then pairs inside the
pool. Everything that follows costs a pass over the pool for each pick, not over the pairs' features: the projection
of a pair's difference on any direction is the difference of its images' projections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.acquire.heard import Heard
from steelyard.acquire.random_pairs import compared_images
from steelyard.arrays import Floats, Ints
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet, random_pairs

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["Candidates", "draw_candidates", "draw_pairs"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A pool of P images and m candidate pairs among them.

    Attributes:
        rows_P: catalog rows of the pool, ascending.
        features_P_D: what the posterior knows them by.
        mean_P: their scores.
        first_m: positions in the pool of the pairs' first images.
        second_m: and of their second ones.
        tells_m: what an answer about each tells beside the usual one, shape (m,); None is 1, as of all that are new.
    """

    rows_P: Ints
    features_P_D: Floats
    mean_P: Floats
    first_m: Ints
    second_m: Ints
    tells_m: Floats | None = None

    def __len__(self) -> int:
        return len(self.first_m)

    @property
    def pairs(self) -> Ints:
        """Catalog rows of the candidate pairs, shape (m, 2)."""
        return np.stack([self.rows_P[self.first_m], self.rows_P[self.second_m]], axis=1)

    def differences(self, values_P: Floats) -> Floats:
        """Of something every image of the pool has, the difference within each candidate pair, shape (m,)."""
        return np.asarray(values_P[self.first_m] - values_P[self.second_m])


def draw_candidates(
    posterior: Posterior,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    images: int,
    candidates: int,
    least: int = 1,
    near: float = 0.0,
    reselect: bool = True,
    heard: Heard | None = None,
) -> Candidates:
    """Sample a pool of images and free candidate pairs among them.

    Args:
        posterior: what the model believes.
        taken: pairs that may not be candidates; not changed.
        rng: source of randomness.
        images: size of the pool at most; a smaller catalog is taken whole.
        candidates: pairs at most; where the pool has no more, all of them.
        least: free pairs to find if there are that many, even where almost all pairs of the pool are taken.
        near: share of the candidates made of images that are close in score.
        reselect: whether images that were already compared may be in the pool.
        heard: what was said about asked pairs; those that somebody else may be asked about are candidates too.

    Returns:
        Different free pairs, and pairs for a second opinion; none when nothing is left.

    Raises:
        AcquireError: sizes below 2, a share outside 0 … 1, or features or scores that are not finite.
    """
    if images < 2 or candidates < 1:
        raise AcquireError(
            f"a pool has 2 images or more and 1 candidate or more, not {images} and {candidates}"
        )
    if not 0 <= near <= 1:
        raise AcquireError(f"'near' is a share between 0 and 1, not {near}")
    size = taken.size
    among = None if reselect else np.setdiff1d(np.arange(size), compared_images(taken))
    count = size if among is None else len(among)
    # Ascending, because the features may be on disk; of very many, not one is listed that is not drawn.
    rows = (
        np.sort(rng.choice(count, size=images, replace=False, shuffle=False)) if count > images else np.arange(count)
    ).astype(np.int64, copy=False)  # fmt: skip
    rows = rows if among is None else among[rows]
    features = np.asarray(posterior.features_N_D[rows], dtype=np.float64)
    mean = np.asarray(posterior.offset_N[rows], dtype=np.float64) + features @ posterior.weights_D
    if not (np.isfinite(features).all() and np.isfinite(mean).all()):
        raise AcquireError(
            "the posterior has features or scores that are not finite numbers; fit the model again"
        )
    first, second = draw_pairs(mean, candidates, rng=rng, near=near)
    pairs = np.stack([rows[first], rows[second]], axis=1)
    free = ~taken.contains(pairs)
    first, second = first[free], second[free]
    if len(first) < least and len(free) < len(rows) * (len(rows) - 1) // 2:
        last = np.searchsorted(rows, random_pairs(least, size, taken=taken, rng=rng, rows=rows))
        first, second = last.min(axis=1), last.max(axis=1)
    if heard is None:
        return Candidates(rows, features, mean, first, second)
    more = heard.again().among(rows)
    return Candidates(
        rows,
        features,
        mean,
        np.concatenate([first, more.pairs.min(axis=1)]),
        np.concatenate([second, more.pairs.max(axis=1)]),
        np.concatenate([np.ones(len(first)), more.tells]),
    )


def draw_pairs(
    mean_P: Floats, count: int, *, rng: np.random.Generator, near: float = 0.0
) -> tuple[Ints, Ints]:
    """Different unordered pairs of positions 0 … P−1: all of them if there are no more than `count`.

    Args:
        mean_P: the images' scores, shape (P,).
        count: pairs wanted.
        rng: source of randomness.
        near: share of pairs whose images are neighbours in score, at most 5% of the pool apart.

    Returns:
        First and second positions, shape (m,) each, m ≤ count.
    """
    size = len(mean_P)
    if size * (size - 1) // 2 <= count:
        return np.triu_indices(size, k=1)
    close = round(near * count)
    # A few more than wanted, because doubles are dropped.
    a = rng.integers(size, size=count - close + 16)
    b = (a + 1 + rng.integers(size - 1, size=len(a))) % size
    if close:
        order = np.argsort(mean_P, kind="stable")
        reach = max(size // 20, 1)
        place = rng.integers(size - 1, size=close)
        other = np.minimum(place + 1 + rng.integers(reach, size=close), size - 1)
        a, b = np.concatenate([order[place], a]), np.concatenate([order[other], b])
    keys = np.minimum(a, b) * np.int64(size) + np.maximum(a, b)
    keys = np.unique(keys)
    if len(keys) > count:
        keys = keys[np.sort(rng.choice(len(keys), size=count, replace=False, shuffle=False))]
    return keys // size, keys % size
