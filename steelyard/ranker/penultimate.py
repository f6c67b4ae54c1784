"""Rows to measure distances in, for networks that learn their features: what the last linear layer is given.

Core-set and the map of a report take them. A network that starts from pretrained weights has them from the beginning, the
same in every round: the paper's choice (1,664 numbers of DenseNet-169 trained on ImageNet). One that starts from random weights
has seen nothing then; its rows are those of the newest model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config import NetworkConfig, RankerConfig
from steelyard.ranker.inputs import coarse_rows
from steelyard.ranker.network_ranker import NetworkRanker
from steelyard.ranker.pixels import DOWNLOAD
from steelyard.ranker.ranker import Ranker

__all__ = ["distance_rows", "learns_features", "own_rows", "starting_rows", "starts_pretrained"]


def learns_features(config: RankerConfig) -> bool:
    """Whether the ranker has features of its own; if not, what it sees are its features."""
    return config.inputs != "features"


def starts_pretrained(config: RankerConfig) -> bool:
    """Whether a network that learns its features begins with pretrained ones."""
    if not learns_features(config) or config.weights == "none":
        return False
    return config.backbone != "small" or config.weights not in ("", DOWNLOAD)


def starting_rows(config: NetworkConfig, inputs: NDArray[Any], rows: Rows | None = None) -> NDArray[Any]:
    """The last layer's inputs before anything is learnt, shape (n, D).

    Raises:
        RankerError: the pretrained weights are missing.
    """
    from steelyard.ranker.network import build_network

    # No weight that is drawn by chance is behind the rows: the seed does not matter.
    network = build_network(config, seed=0)
    return NetworkRanker(config, network, 0, {}).last_inputs(inputs, rows)


def own_rows(ranker: Ranker, inputs: NDArray[Any], rows: Rows | None = None) -> NDArray[Any]:
    """The last layer's inputs in a fitted network with mean weights, shape (n, D); of other rankers what they see."""
    if isinstance(ranker, NetworkRanker) and learns_features(ranker.config):
        return ranker.last_inputs(inputs, rows)
    return coarse_rows(inputs if rows is None else inputs[rows])


def distance_rows(
    config: RankerConfig,
    inputs: NDArray[Any],
    rows: Rows | None = None,
    *,
    newest: Callable[[], Ranker | None],
) -> NDArray[np.floating[Any]]:
    """Rows of images for a strategy that measures distances, shape (n, D).

    Args:
        config: of the ranker.
        inputs: of all images.
        rows: which of them; None is all.
        newest: gives the newest fitted ranker, None where there is none yet: then a network without pretrained weights
            has no features, and a coarse picture of what it sees stands for them.
    """
    if config.kind == "network" and starts_pretrained(config):
        return starting_rows(config, inputs, rows)
    ranker = newest() if learns_features(config) else None
    if ranker is None:
        return coarse_rows(inputs if rows is None else inputs[rows])
    return own_rows(ranker, inputs, rows)
