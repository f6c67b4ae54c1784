"""`coreset`: the images that lie farthest from all that were compared (k-center greedy), paired as in step 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.acquire.choice import Choice, check_request
from steelyard.acquire.kcenter import k_center_greedy
from steelyard.acquire.needs import needs
from steelyard.acquire.random_pairs import compared_images, pair_among
from steelyard.acquire.spread import features_of
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from steelyard.ranker.posterior import Posterior

__all__ = ["coreset"]

REASON = "At least one of these two looks unlike everything compared so far."


@needs("features")
def coreset(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    features: ArrayLike | None = None,
    images: int = 50_000,
) -> Choice:
    """Take n images by k-center greedy, the compared ones being centres already, and pair them among themselves.

    Exact inside the pool. The cost grows with the pool times the number of centres. Once every image has been
    compared, images are drawn at random.

    Args:
        posterior: its features are used where none are given; None is fine otherwise.
        n: pairs wanted, and so images taken.
        taken: pairs that may not be chosen; not changed. Their images are the first centres.
        rng: decides the very first image, and who is paired with whom.
        features: one row per image, shape (N, D); the paper uses those of the pretrained backbone.
        images: size of the pool at most; a smaller catalog is taken whole.

    Returns:
        Pairs scored by how far their first image was from all centres before it.

    Raises:
        AcquireError: there are neither features nor a posterior, or they are not finite.
    """
    check_request(posterior, n, taken, strategy="coreset", model=False)
    everything = features_of(posterior, features, taken, strategy="coreset")
    if n == 0 or taken.size < 2:
        return Choice.empty()
    rows = np.arange(taken.size)
    if len(rows) > images:
        rows = np.sort(rng.choice(taken.size, size=images, replace=False, shuffle=False))
    pool = np.asarray(everything[rows])
    if pool.dtype not in (np.float32, np.float64):
        pool = pool.astype(np.float64)
    centres = np.flatnonzero(np.isin(rows, compared_images(taken)))
    picks, radii = k_center_greedy(pool, n, initial=centres, first=int(rng.integers(len(rows))))
    if len(centres) == 0:
        radii[0] = radii[1] if len(radii) > 1 else 0.0  # nothing came before the very first
    chosen = rows[picks]
    # Where too few are left, or have too few free pairs, the order goes on with the others at random.
    rest = rng.permutation(np.setdiff1d(rows, chosen))
    pairs = pair_among(np.concatenate([chosen, rest]), n, taken=taken, rng=rng)
    radius = dict(zip(chosen.tolist(), radii.tolist(), strict=True))
    scores = np.array([max(radius.get(i, 0.0), radius.get(j, 0.0)) for i, j in pairs.tolist()])
    return Choice(pairs, scores, [REASON] * len(pairs))
