"""`random`: images drawn at random and paired among themselves (step 1; the paper's "proposed w/o UBS")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.choice import Choice, check_request
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet, form_pairs, random_pairs

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["compared_images", "pair_among", "random"]

REASON = "These two were drawn by chance, so that nothing is overlooked."


def random(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    reselect: bool = True,
    fresh: bool = False,
) -> Choice:
    """Draw n images and pair them among themselves.

    Args:
        posterior: not looked at; None is fine.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        reselect: whether images that were already compared may be drawn.
        fresh: draw 2n images instead, the least used first, and match them two by two: every image once before any
            twice. The simplest thing that can be done without a model, and hard to beat with many answers.

    Returns:
        min(n, free pairs) pairs, all with score 0.

    Raises:
        AcquireError: n is negative, the posterior is of another catalog, or `fresh` is neither true nor false.
    """
    if not isinstance(fresh, bool):
        raise AcquireError(f"'fresh' is true or false, not {fresh!r}")
    size = check_request(posterior, n, taken, strategy="random", model=False)
    images = np.arange(size) if reselect else np.setdiff1d(np.arange(size), compared_images(taken))
    order = rng.permutation(images)
    if fresh:
        order = order[np.argsort(taken.uses[order], kind="stable")]
        pairs = _match(order, n, taken=taken)
        rest = taken.copy()
        rest.add(pairs)
        pairs = np.concatenate([pairs, pair_among(order, n - len(pairs), taken=rest, rng=rng)])
    else:
        pairs = pair_among(order, n, taken=taken, rng=rng)
    return Choice(pairs, np.zeros(len(pairs)), [REASON] * len(pairs))


def _match(ordered: NDArray[np.int64], n: int, *, taken: PairSet) -> NDArray[np.int64]:
    """Neighbours in the order, two by two, without taken pairs: at most n."""
    two_by_two = np.sort(ordered[: 2 * min(n, len(ordered) // 2)].reshape(-1, 2), axis=1)
    return np.asarray(two_by_two[~taken.contains(two_by_two)])


def compared_images(taken: PairSet) -> NDArray[np.int64]:
    """The images that are in some taken pair, ascending."""
    return np.flatnonzero(taken.uses)


def pair_among(
    ordered: NDArray[np.int64], n: int, *, taken: PairSet, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Pair the first n images among themselves as in step 1; reach further down the order where that is too few.

    The first n images make n pairs, except where free pairs run out, n is 1 (an image needs a partner) or n
    exceeds the number of images. Then the reach doubles until there are n pairs or no image is left.

    Args:
        ordered: images, most wanted first, each once.
        n: pairs wanted.
        taken: pairs that may not be formed; not changed.
        rng: source of randomness.

    Returns:
        Pairs, shape (m, 2); m < n only when the images have fewer than n free pairs among them.
    """
    if n <= 0 or len(ordered) < 2:
        return np.empty((0, 2), dtype=np.int64)
    reach = max(n, 2)
    pairs = form_pairs(ordered[:reach], taken=taken, rng=rng)[:n]
    if len(pairs) == n:
        return pairs
    used = taken.copy()
    used.add(pairs)
    while len(pairs) < n:
        more = random_pairs(n - len(pairs), taken.size, taken=used, rng=rng, rows=ordered[:reach])
        pairs = np.concatenate([pairs, more])
        used.add(more)
        if reach >= len(ordered):
            break
        reach *= 2
    return pairs
