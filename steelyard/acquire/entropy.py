"""`entropy`: the pairs whose answer is hardest to predict."""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from steelyard.acquire.greedy import Outlook, Where
from steelyard.acquire.search import greedy_strategy
from steelyard.arrays import Floats
from steelyard.ranker.likelihood import outcomes

__all__ = ["entropy"]


def doubt(outlook: Outlook, where: Where) -> Floats:
    """Entropy of the predicted answer in nats, uncertainty of the scores included.

    It takes doubt that answers cannot remove (two images truly alike) for doubt that they can; `pair_bald` tells the
    two apart. It is here because it is what people try first.
    """
    found = entr(outcomes(outlook.mean_m[where], outlook.variance_m[where], outlook.tau)).sum(axis=1)
    return np.asarray(found * outlook.tells(where))


entropy = greedy_strategy("entropy", doubt, "so it cannot predict your answer")
