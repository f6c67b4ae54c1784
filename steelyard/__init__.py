"""Steelyard turns “which of these two images is worse?” into a severity scale."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.errors import SteelyardError as SteelyardError
    from steelyard.images.catalog import Catalog as Catalog
    from steelyard.pairs import Answer as Answer
    from steelyard.pairs import Pair as Pair
    from steelyard.ranker.estimator import PairwiseRanker as PairwiseRanker
    from steelyard.study import Study as Study

__version__ = "0.1.0"

# Loaded when first used: the command line has to answer --help before torch could even be found on disk.
_HOMES = {
    "Answer": "steelyard.pairs",
    "Catalog": "steelyard.images.catalog",
    "Pair": "steelyard.pairs",
    "PairwiseRanker": "steelyard.ranker.estimator",
    "SteelyardError": "steelyard.errors",
    "Study": "steelyard.study",
}

__all__ = ["Answer", "Catalog", "Pair", "PairwiseRanker", "SteelyardError", "Study", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'steelyard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
