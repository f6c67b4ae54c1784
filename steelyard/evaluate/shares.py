"""How far a share is known."""

from __future__ import annotations

import math

__all__ = ["share_interval"]

_Z95 = 1.959963984540054


def share_interval(share: float, n: float) -> tuple[float, float]:
    """The 95% interval (Wilson) of a share of n."""
    z2 = _Z95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)
