"""`coreset`: images that cover the features, paired among themselves (the paper's compared method, k-center greedy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.acquire.choice import Choice, check_request
from steelyard.acquire.kcenter import k_center_greedy
from steelyard.acquire.random_pairs import compared_images, pair_among
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from steelyard.ranker.posterior import Posterior

__all__ = ["coreset"]

REASON = "These two look unlike the images that have been compared so far."


def coreset(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    features: ArrayLike | None = None,
) -> Choice:
    """Take the n images that are farthest from all images compared so far, and pair them as in step 1.

    Args:
        posterior: its rows are the features where none are given; its scores are not looked at.
        n: pairs wanted, and so images taken.
        taken: pairs that may not be chosen; their images are the first centres. Not changed.
        rng: the first image of all, and who is paired with whom.
        features: a row for each image, shape (N, F).

    Returns:
        Pairs scored by the sum of their images' distances to what was compared before.

    Raises:
        AcquireError: there are no features, or not one row an image.
    """
    size = check_request(posterior, n, taken, strategy="coreset", model=False)
    if features is None and posterior is None:
        raise AcquireError("'coreset' needs features of the images; give features, or fit a model first")
    rows = np.asarray(posterior.features_N_D if features is None else features)  # type: ignore[union-attr]
    if rows.ndim != 2 or len(rows) != size:
        raise AcquireError(
            f"'coreset' needs a row of features for each of the {size} images, not {rows.shape}"
        )
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    seen = compared_images(taken)
    picks, radii = k_center_greedy(rows, n, initial=seen, first=int(rng.integers(size)) if size else 0)
    reach = np.zeros(size)
    reach[picks] = radii
    # Where fewer images are new than wanted, those compared before fill up.
    pairs = pair_among(np.concatenate([picks, rng.permutation(seen)]), n, taken=taken, rng=rng)
    return Choice(pairs, reach[pairs].sum(axis=1), [REASON] * len(pairs))
