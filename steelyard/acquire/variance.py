"""`variance`: the paper's uncertainty-based sampling (UBS, step 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.acquire.choice import Choice, check_request
from steelyard.acquire.needs import needs
from steelyard.acquire.random_pairs import compared_images, pair_among
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["variance"]

REASON = "The model is unsure where each of these two belongs on the scale."


@needs("model")
def variance(
    posterior: Posterior | None, n: int, /, *, taken: PairSet, rng: np.random.Generator, reselect: bool = True
) -> Choice:
    """Take the n images whose score varies most (P5) and pair them among themselves as in step 1.

    Args:
        posterior: what the model believes.
        n: pairs wanted, and so images taken: s% of them.
        taken: pairs that may not be chosen; not changed.
        rng: decides who is paired with whom.
        reselect: whether images that were already compared may be taken (the paper: yes; its authors' code: no).

    Returns:
        Pairs scored by the sum of their images' variances, most uncertain first image first.

    Raises:
        AcquireError: there is no posterior, or a variance is not a finite number.
    """
    check_request(posterior, n, taken, strategy="variance")
    assert posterior is not None
    variances = np.asarray(posterior.variance, dtype=np.float64)
    if not np.isfinite(variances).all():
        bad = int(np.flatnonzero(~np.isfinite(variances))[0])
        raise AcquireError(f"the variance of image {bad} is {variances[bad]}; fit the model again")
    images = np.argsort(-variances, kind="stable")
    if not reselect:
        images = images[~np.isin(images, compared_images(taken))]
    pairs = pair_among(images, n, taken=taken, rng=rng)
    return Choice(pairs, variances[pairs].sum(axis=1), [REASON] * len(pairs))
