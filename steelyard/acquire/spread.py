"""`spread`: the first pairs, before there is a model.

Without an answer the model is its prior, and under the prior every question is as open as any other. What differs is
what a question has in common with all the others: as `epig` does later, each next pair is taken where an answer says
most about pairs of images that the pairs before it have left open. No answer is needed to choose. (The D-optimal design,
which covers all directions alike, goes for the outliers; it was 1.5 to 2 points worse after 5% of the answers.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.choice import Choice, check_request
from steelyard.acquire.epig import epig
from steelyard.acquire.needs import needs
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Reduction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["features_of", "reduced_rows", "spread"]

REASON = "These two help the model to get to know all kinds of images."

_ONCE = (
    1e6  # so much less wanted is an image that was used already: each image once, as long as there are others
)


@needs("features")
def spread(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    features: ArrayLike | None = None,
    components: int = 128,
    images: int = 0,
    balance: float = _ONCE,
    **options: Any,
) -> Choice:
    """Choose pairs that together say most about all others.

    Args:
        posterior: its rows are the features where none are given; None is fine otherwise.
        n: pairs wanted.
        taken: pairs that may not be chosen, and count as asked; not changed.
        rng: source of randomness.
        features: a row for each image, shape (N, F); may be a memory map.
        components: principal components that differences are measured in.
        images: size of the pool that pairs are sought in; 0 takes 4,000, or 8 a pair if more.
        balance: see `Search`; by default each image is used once as long as there are others.
        options: as for `epig`.

    Raises:
        AcquireError: there are no features, or not one row per image.
    """
    check_request(posterior, n, taken, strategy="spread", model=False)
    rows = features_of(posterior, features, taken, strategy="spread")
    size = taken.size
    if n == 0 or size < 2:
        return Choice.empty()
    asked = taken.to_array()
    pool = _pool(size, asked, images or max(4_000, 8 * n), rng)
    place = np.full(size, -1, dtype=np.int64)
    place[pool] = np.arange(len(pool))
    reduced = reduced_rows(np.asarray(rows[pool], dtype=np.float32), components)
    known = place[asked]
    known = known[(known >= 0).all(axis=1)]
    # Nothing is known, so every answer is open; what was asked before counts as asked (see `design`).
    prior = Posterior(0.0, reduced, np.zeros(reduced.shape[1]), np.eye(reduced.shape[1]), "laplace")
    choice = epig(
        prior,
        n,
        taken=PairSet(len(pool), known),
        rng=rng,
        images=len(pool),
        balance=balance,
        uncertainty="design",
        **options,
    )
    return Choice(pool[choice.pairs], choice.scores, [REASON] * len(choice))


def features_of(
    posterior: Posterior | None, features: ArrayLike | None, taken: PairSet, *, strategy: str
) -> NDArray[np.floating]:
    """The features a strategy was given, or else the posterior's, a row for each image.

    Raises:
        AcquireError: there are none, or not one row per image.
    """
    if features is None:
        if posterior is None:
            raise AcquireError(
                f"'{strategy}' needs features of the images; give features, or start with 'random'"
            )
        return posterior.features_N_D
    rows = features if isinstance(features, np.ndarray) else np.asarray(features)
    if rows.ndim != 2 or len(rows) != taken.size:
        raise AcquireError(
            f"'{strategy}' needs a row of features for each of the {taken.size} images, not {rows.shape}"
        )
    return rows


def _pool(size: int, asked: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows to choose among: all, or a sample that includes (up to half) images that were asked about."""
    if size <= most:
        return np.arange(size, dtype=np.int64)
    seen = np.unique(asked)
    seen = rng.permutation(seen)[: most // 2]
    others = np.setdiff1d(rng.choice(size, size=most, replace=False), seen)[: most - len(seen)]
    return np.union1d(seen, others).astype(np.int64)


def reduced_rows(rows: NDArray[np.float32], components: int) -> NDArray[np.float64]:
    """Principal components of the standardised features."""
    return np.asarray(Reduction.fit(rows, components=components).transform(rows), dtype=np.float64)
