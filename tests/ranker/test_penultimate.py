"""Distances between images are measured in the features that a network has, not in small pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steelyard.config import NetworkConfig, ranker_preset
from steelyard.ranker.inputs import coarse_rows
from steelyard.ranker.learner import Learner
from steelyard.ranker.network import build_network
from steelyard.ranker.penultimate import distance_rows, own_rows, starting_rows, starts_pretrained

PICTURES = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
PAIRS = np.array([[0, 1], [2, 3], [4, 5], [6, 7]])
ANSWERS = np.array([1.0, 0.0, 1.0, 0.5])


@pytest.fixture(scope="module")
def densenet(tmp_path_factory: pytest.TempPathFactory) -> NetworkConfig:
    """The paper's network with weights from a file, as if they were pretrained."""
    file = tmp_path_factory.mktemp("weights") / "densenet169.pth"
    made = build_network(ranker_preset("paper", image_size=32, weights="none"), seed=7)  # type: ignore[arg-type]
    torch.save({f"features.{name}": value for name, value in made.backbone.state_dict().items()}, file)
    config = ranker_preset("paper", image_size=32, weights=str(file), epochs=1, draws=2)
    assert isinstance(config, NetworkConfig)
    return config


def test_the_paper_s_features_are_1664_numbers_of_the_weights_it_starts_from(densenet: NetworkConfig) -> None:
    assert starts_pretrained(densenet)
    rows = distance_rows(densenet, PICTURES, newest=lambda: pytest.fail("no model is needed"))
    assert rows.shape == (10, 1664)
    network = build_network(densenet, seed=99).eval()  # the seed draws the last layer only
    with torch.no_grad():
        expected = network.last_features(network.prepare(PICTURES)).numpy()
    assert np.allclose(rows, expected, atol=1e-4)
    some = np.array([4, 2])
    assert np.allclose(starting_rows(densenet, PICTURES, some), rows[some], atol=1e-4)


def test_a_network_from_random_weights_has_the_features_of_the_newest_model() -> None:
    config = ranker_preset("small", image_size=32, epochs=2)
    assert not starts_pretrained(config)
    before = distance_rows(config, PICTURES, newest=lambda: None)
    assert np.array_equal(before, coarse_rows(PICTURES))
    ranker = Learner(config, PICTURES, seed=0).fit(PAIRS, ANSWERS)
    rows = distance_rows(config, PICTURES, newest=lambda: ranker)
    assert rows.shape == (10, 128)
    network = ranker.network.eval()  # type: ignore[attr-defined]
    with torch.no_grad():
        scores = network(network.prepare(PICTURES)).numpy()
        assert np.allclose(network.last(torch.from_numpy(rows)).squeeze(1).numpy(), scores, atol=1e-4)


def test_features_that_stay_as_they_are_stay_as_they_are() -> None:
    rows = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    for kind in ("convex", "network"):
        config = ranker_preset("features", kind=kind)
        ranker = Learner(config, rows, seed=0).fit(PAIRS, ANSWERS)
        found = distance_rows(config, rows, np.array([3, 1]), newest=lambda: pytest.fail("not asked for"))
        assert np.array_equal(found, rows[[3, 1]])
        assert np.array_equal(own_rows(ranker, rows), rows)
