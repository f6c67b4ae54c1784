"""Posterior → next pairs: arrays in, indices out."""

from steelyard.acquire.choice import Choice, PairRole, Strategy
from steelyard.acquire.mixing import choose
from steelyard.acquire.needs import needs, needs_of
from steelyard.acquire.registry import get_strategy, strategies

__all__ = ["Choice", "PairRole", "Strategy", "choose", "get_strategy", "needs", "needs_of", "strategies"]
