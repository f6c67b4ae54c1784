"""`entropy`: the pairs whose answer is hardest to foretell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from steelyard.acquire.choice import Choice
from steelyard.acquire.greedy import Outlook, Where
from steelyard.acquire.needs import needs
from steelyard.acquire.search import search_greedily
from steelyard.pairs import PairSet
from steelyard.ranker.likelihood import outcomes

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["entropy"]

ENDING = "so it cannot foretell your answer"


@needs("model")
def entropy(
    posterior: Posterior | None, n: int, /, *, taken: PairSet, rng: np.random.Generator, **options: Any
) -> Choice:
    """Pick by the entropy of the answer, uncertainty of the scores included.

    It takes doubt that answers cannot remove (two images truly alike) for doubt that they can; `pair_bald` tells the
    two apart. It is here because it is what people try first.

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
        doubt,
        posterior,
        n,
        taken=taken,
        rng=rng,
        strategy="entropy",
        ending=ENDING,
        options=options,
        outlook=Outlook,
    )


def doubt(outlook: Outlook, where: Where) -> NDArray[np.float64]:
    """Entropy of the predicted answers of candidates, in nats."""
    return np.asarray(
        entr(outcomes(outlook.mean_m[where], outlook.variance_m[where], outlook.tau)).sum(axis=1)
    )
