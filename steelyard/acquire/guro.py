"""`guro`: the pairs whose predicted probability is least certain (greedy uncertainty reduction for ordering)."""

from __future__ import annotations

import numpy as np

from steelyard.acquire.greedy import Outlook, Where
from steelyard.acquire.search import greedy_strategy
from steelyard.arrays import Floats

__all__ = ["guro"]


def deviation(outlook: Outlook, where: Where) -> Floats:
    """σ̇ √(zᵀΣz): the deviation of P(i ≻ j) = σ(Δ) to first order (the delta method)."""
    return np.asarray(outlook.information(where) * np.sqrt(outlook.variance_m[where]))


guro = greedy_strategy("guro", deviation, "and it could easily be wrong about them")
