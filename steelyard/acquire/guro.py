"""`guro`: the pairs whose predicted probability is least certain (greedy uncertainty reduction for ordering)."""

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

__all__ = ["guro"]

ENDING = "and it could easily be wrong about them"


@needs("model")
def guro(
    posterior: Posterior | None, n: int, /, *, taken: PairSet, rng: np.random.Generator, **options: Any
) -> Choice:
    """Pick by σ̇ √(zᵀΣz): the deviation of P(i ≻ j) = σ(Δ) to first order (the delta method).

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
        deviation,
        posterior,
        n,
        taken=taken,
        rng=rng,
        strategy="guro",
        ending=ENDING,
        options=options,
        outlook=Outlook,
    )


def deviation(outlook: Outlook, where: Where) -> NDArray[np.float64]:
    """σ̇ √v of candidates."""
    return np.asarray(outlook.information(where) * np.sqrt(outlook.variance_m[where]))
