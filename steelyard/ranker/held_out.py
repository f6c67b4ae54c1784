"""Images held out to stop training by: pairs among them are watched, pairs among the others are taught.

An answer about an image that was taught says little about images that were not: so what is watched shares no image with what
is taught. Pairs that join the two are neither; the images are chosen so that those are few. From some image on, the one
with the most answers towards those already held out and the fewest towards others joins them, until as many pairs as wanted lie
among them. Sparse answers come apart nearly for nothing; where every image was compared many times the loss is bounded instead,
and fewer pairs are watched.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Pairs

__all__ = ["hold_out_images"]

_STARTS = 8  # begun at so many images; the best is kept
_MANY = 20_000  # pairs from which on one start has to do


def hold_out_images(
    pairs: Pairs, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pairs are watched and which are taught; some may be neither, none is both, and no image is in both.

    Args:
        pairs: rows of images, shape (n, 2); a pair may be there more than once.
        share: of the pairs that are to be watched. Pairs that are not taught, watched or not, are at most twice as many.
        rng: decides where it begins.

    Returns:
        Two masks of shape (n,). None is watched where even one image would take too many pairs with it.
    """
    count = len(pairs)
    nothing = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    wanted = round(share * count)
    if not 0 < wanted < count:
        return nothing
    images, places = np.unique(pairs, return_inverse=True)
    ends = places.reshape(-1, 2)
    neighbours: list[list[int]] = [[] for _ in range(len(images))]
    for one, other in ends.tolist():
        neighbours[one].append(other)
        neighbours[other].append(one)
    best: tuple[float, NDArray[np.bool_], NDArray[np.bool_]] = (0.0, *nothing)
    for start in rng.permutation(len(images))[: _STARTS if count < _MANY else 1].tolist():
        out = _grown(neighbours, start, wanted, 2 * wanted, rng)
        inside = out[ends].sum(axis=1)
        watched, taught = inside == 2, inside == 0
        # As many watched as wanted, and few lost; a pair lost weighs as much as a pair watched.
        worth = float(min(watched.sum(), wanted)) - float((inside == 1).sum()) + count
        if watched.any() and taught.any() and worth > best[0]:
            best = (worth, watched, taught)
    return best[1], best[2]


def _grown(
    neighbours: list[list[int]], start: int, wanted: int, at_most: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Images from `start` on, while fewer than `wanted` pairs lie among them and no more than `at_most` touch them."""
    size = len(neighbours)
    chance = rng.random(size).tolist()
    out = np.zeros(size, dtype=bool)
    towards = [0] * size  # pairs with those that are out
    refused = [False] * size
    inside, touched = 0, 0
    # Where nothing is left that hangs together with them, the next image in a random order begins anew.
    others = iter(rng.permutation(size).tolist())
    queue: list[tuple[int, float, int, int]] = [(0, 0.0, start, 0)]
    while inside < wanted:
        if not queue:
            fresh = next((one for one in others if not out[one] and not refused[one]), None)
            if fresh is None:
                break
            queue.append((0, 0.0, fresh, towards[fresh]))
        _, _, one, known = heapq.heappop(queue)
        if (
            out[one] or refused[one] or known != towards[one]
        ):  # has been seen to, or stands elsewhere in the queue by now
            continue
        new = len(neighbours[one]) - towards[one]
        if touched + new > at_most:
            refused[one] = True
            continue
        out[one] = True
        inside, touched = inside + towards[one], touched + new
        for other in neighbours[one]:
            if not out[other]:
                towards[other] += 1
                queue_up = (
                    len(neighbours[other]) - 2 * towards[other]
                )  # pairs it would cut, less those it would mend
                heapq.heappush(queue, (queue_up, chance[other], other, towards[other]))
    return out
