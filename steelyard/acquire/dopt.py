"""`dopt`: the pairs that shrink the whole posterior most (greedy D-optimal design)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.choice import Choice
from steelyard.acquire.greedy import Outlook, Where
from steelyard.acquire.needs import needs
from steelyard.acquire.search import search_greedily
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["dopt"]

ENDING = "and the model has seen nothing like this comparison"


@needs("model")
def dopt(
    posterior: Posterior | None, n: int, /, *, taken: PairSet, rng: np.random.Generator, **options: Any
) -> Choice:
    """Pick by ½ log(1 + σ̇ zᵀΣz): the information one answer carries about all the weights.

    The sum over the picks is ½ log det of what the precision is multiplied by, a submodular function: greedy picks are within
    1 − 1/e of the best set of candidates.

    Args:
        posterior: what the model believes.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: where the chance comes from.
        options: see `Search`.

    Raises:
        AcquireError: there is no posterior, or an option is unknown or out of range.
    """
    return search_greedily(
        gain,
        posterior,
        n,
        taken=taken,
        rng=rng,
        strategy="dopt",
        ending=ENDING,
        options=options,
        outlook=Outlook,
    )


def gain(outlook: Outlook, where: Where) -> NDArray[np.float64]:
    """½ log(1 + σ̇v) of candidates."""
    return np.asarray(0.5 * np.log1p(outlook.information(where) * outlook.variance_m[where]))
