"""Why a pair is asked, in plain words.

The sentence never says which of the two the model takes for the higher one: that would sway the answer.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from steelyard.arrays import Floats

__all__ = ["explain"]


def explain(mean_n: Floats, variance_n: Floats, ending: str) -> list[str]:
    """One sentence a pair: how the two look to the model, and why that makes a good question.

    Args:
        mean_n: expected differences, shape (n,).
        variance_n: their variances, shape (n,).
        ending: what the strategy is after, as "and the model disagrees with itself".

    >>> explain(np.array([0.0]), np.array([1.0]), "and the model disagrees with itself")
    ['These two look equal to the model, and the model disagrees with itself.']
    """
    certainty = np.abs(expit(mean_n / np.sqrt(1.0 + np.pi / 8.0 * variance_n)) - 0.5)
    looks = np.array(["equal", "close", "different"])[np.digitize(certainty, (0.1, 0.25))]
    return [f"These two look {look} to the model, {ending}." for look in looks]
