"""`clusters`: the first pairs from groups of images that look alike, one image of each (as TypiClust and its like begin)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.acquire.choice import Choice, check_request
from steelyard.acquire.needs import needs
from steelyard.acquire.random_pairs import compared_images, pair_among
from steelyard.acquire.spread import features_of, reduced_rows
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["clusters"]

REASON = "Each of these two stands for many images that look like it."


@needs("features")
def clusters(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    features: ArrayLike | None = None,
    components: int = 128,
    images: int = 20_000,
) -> Choice:
    """Cut the images into clusters by k-means, take the image closest to the centre of each, and pair those at random.

    There are twice as many clusters as pairs, so that every image is in one pair, and as many more as images were compared
    before; clusters that hold one of those are passed over, the largest of the others come first.

    Args:
        posterior: its rows are the features where none are given; None is fine otherwise.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        features: a row for each image, shape (N, F).
        components: principal components that distances are measured in.
        images: size of the pool at most; a smaller catalog is taken whole.

    Raises:
        AcquireError: there are no features, or not one row per image.
    """
    check_request(posterior, n, taken, strategy="clusters", model=False)
    if images < 2:
        raise AcquireError(f"a pool has 2 images or more, not {images}")
    everything = features_of(posterior, features, taken, strategy="clusters")
    size = taken.size
    if n == 0 or size < 2:
        return Choice.empty()
    pool = np.arange(size)
    if size > images:
        pool = np.sort(rng.choice(size, size=images, replace=False, shuffle=False))
    seen = np.isin(pool, compared_images(taken))
    rows = reduced_rows(np.asarray(everything[pool], dtype=np.float32), components)
    representatives = pool[_typical(rows, seen, 2 * n, rng)]
    matched = representatives[: len(representatives) // 2 * 2].reshape(-1, 2)[:n]
    pairs = np.sort(matched, axis=1)
    pairs = pairs[~taken.contains(pairs)]
    if len(pairs) < n:  # too few clusters, or free pairs: go on as step 1 does
        rest = taken.copy()
        rest.add(pairs)
        order = np.concatenate([representatives, rng.permutation(np.setdiff1d(pool, representatives))])
        pairs = np.concatenate([pairs, pair_among(order, n - len(pairs), taken=rest, rng=rng)])
    return Choice(pairs, np.zeros(len(pairs)), [REASON] * len(pairs))


def _typical(
    rows: NDArray[np.float64], seen: NDArray[np.bool_], wanted: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions of up to `wanted` images, each closest to the centre of a cluster without a seen one, in random order."""
    from sklearn.cluster import KMeans, MiniBatchKMeans

    many = min(wanted + int(seen.sum()), len(np.unique(rows, axis=0)))
    method = KMeans if len(rows) <= 5_000 else MiniBatchKMeans
    found = method(many, n_init=1, random_state=int(rng.integers(2**31))).fit(rows)
    label = found.labels_
    away = np.square(rows - found.cluster_centers_[label]).sum(axis=1)
    nearest: dict[int, int] = {}
    for position in np.lexsort((np.arange(len(rows)), away)).tolist():
        nearest.setdefault(int(label[position]), position)
    known = set(label[seen].tolist())
    counts = np.bincount(label, minlength=many)
    free = sorted((c for c in nearest if c not in known), key=lambda c: (-counts[c], c))
    return rng.permutation(np.array([nearest[c] for c in free[:wanted]], dtype=np.int64))
