"""What a virtual annotator is, and how its settings are checked."""

from __future__ import annotations

import math
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats
from steelyard.errors import PairError

__all__ = ["VirtualAnnotator", "check_above", "check_share"]


class VirtualAnnotator(Protocol):
    """Whatever answers pairs in a person's place."""

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Answer pairs in the order given.

        Args:
            pairs: catalog rows (i, j) as shown: i on the left. Shape (n, 2).
            rng: source of randomness.

        Returns:
            P1's labels for (i, j), shape (n,): 1, 0.5, 0, or NaN for "cannot judge".
        """
        ...  # pragma: no cover - a protocol has no body


def check_share(name: str, value: float) -> float:
    """The value, a share from 0 to 1."""
    if not (_is_number(value) and 0 <= value <= 1):
        raise PairError(f"'{name}' is a share between 0 and 1, not {value!r}")
    return value


def check_above(name: str, value: float, bound: float, *, equal: bool = False) -> float:
    """The value, a number above a bound or, with `equal`, not below it."""
    if not (_is_number(value) and (value > bound or (equal and value == bound))):
        raise PairError(f"'{name}' is {'at least' if equal else 'above'} {bound:g}, not {value!r}")
    return value


def _is_number(value: object) -> bool:
    """Whether an option is one; on the command line anything may stand behind its '='."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
