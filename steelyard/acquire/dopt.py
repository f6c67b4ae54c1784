"""`dopt`: the pairs that shrink the whole posterior most (greedy D-optimal design)."""

from __future__ import annotations

import numpy as np

from steelyard.acquire.greedy import Outlook, Where
from steelyard.acquire.search import greedy_strategy
from steelyard.arrays import Floats

__all__ = ["dopt"]


def gain(outlook: Outlook, where: Where) -> Floats:
    """½ log(1 + σ̇ zᵀΣz): the information one answer carries about all the weights.

    The sum over the picks is ½ log det of what the precision is multiplied by, a submodular function: greedy picks are
    within 1 − 1/e of the best set of candidates.
    """
    return np.asarray(0.5 * np.log1p(outlook.information(where) * outlook.variance_m[where]))


dopt = greedy_strategy("dopt", gain, "and the model has seen nothing like this comparison")
