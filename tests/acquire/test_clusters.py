"""First pairs from clusters: one image of each."""

from __future__ import annotations

import numpy as np

from steelyard.acquire import choose
from steelyard.pairs import PairSet


def blobs(count: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(count), each)
    return 20.0 * rng.standard_normal((count, 6))[label] + rng.standard_normal((count * each, 6)), label


def test_every_cluster_is_asked_about_once() -> None:
    features, label = blobs(8, 25)
    options = {"features": features}
    choice = choose("clusters", None, 4, taken=PairSet(200), rng=np.random.default_rng(1), options=options)
    assert sorted(label[choice.pairs].reshape(-1).tolist()) == list(range(8))


def test_later_pairs_pass_over_clusters_that_were_asked_about() -> None:
    features, label = blobs(8, 25)
    asked = PairSet(200, [(0, 30), (60, 80)])  # clusters 0 … 3
    options = {"features": features, "components": 6}
    choice = choose("clusters", None, 2, taken=asked, rng=np.random.default_rng(1), options=options)
    assert set(label[choice.pairs].reshape(-1).tolist()) <= {4, 5, 6, 7}
