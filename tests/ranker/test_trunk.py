"""A backbone cut in two: trunk and tail in a row are the whole, and only the tail learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import steelyard as sy
from steelyard.config import NetworkConfig, StudyConfig, ranker_preset
from steelyard.errors import ConfigError, RankerError
from steelyard.ranker import trunk
from steelyard.ranker.backbones import build
from steelyard.ranker.dropout import masked_layers
from steelyard.ranker.inputs import coarse_rows, read_inputs
from steelyard.ranker.learner import Learner
from steelyard.ranker.network import build_network
from steelyard.ranker.pixels import pixels_of
from steelyard.ranker.ranker import load_ranker
from steelyard.ranker.scoring import batches_of, draw_scores, mean_scores
from steelyard.ranker.train import train
from steelyard.ranker.trunk import activations, cut

SIDE = 32


def tuned(**changes: Any) -> NetworkConfig:
    values = {"image_size": SIDE, "trained_stages": 2, "epochs": 2, "draws": 3, "device": "cpu", **changes}
    return ranker_preset("tuned", **values)


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, size=(12, SIDE, SIDE, 3), dtype=np.uint8)


PAIRS = np.array([[k, (k + 1) % 12] for k in range(12)])
ANSWERS = np.array([1.0, 0.0, 0.5] * 4)


def whole(config: NetworkConfig) -> nn.Sequential:
    torch.manual_seed(0)
    stages: nn.Sequential = build(config.backbone, weights=config.weights, image_size=SIDE)[0].eval()
    return stages


@pytest.mark.parametrize(
    ("backbone", "trained"),
    [("lite0", 1), ("lite0", 2), ("lite0", 7), ("lite2", 3), ("small", 1), ("small", 3)],
)
def test_trunk_and_tail_are_the_whole_network(pictures: np.ndarray, backbone: str, trained: int) -> None:
    config = tuned(backbone=backbone, trained_stages=trained, dropout=0.0, posterior="laplace", draws=30)
    network = build_network(config, seed=0)
    maps = read_inputs(pictures, config)
    assert maps.dtype == np.float32
    assert maps.shape[-1] == network.channels
    with torch.no_grad():
        features = whole(config)(pixels_of(backbone).normalise(torch.from_numpy(pictures)))
        expected = network.last(features).squeeze(-1).numpy()
    assert np.allclose(mean_scores(network, [maps]), expected, atol=1e-5)


def test_densenet_is_cut_between_its_blocks() -> None:
    stages = build("densenet169", weights="none")[0].eval()
    front, tail = cut(stages, 1, "densenet169")
    assert next(iter(dict(tail.named_children()))) == "denseblock4"
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(tail(front(x)), stages(x))
    network = build_network(tuned(backbone="densenet169", trained_stages=1, weights="none"), seed=0).train()
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert norms
    assert not any(m.training for m in norms)  # statistics stay as pretrained


def test_dropout_is_in_every_layer_of_the_tail_and_all_of_them_learn(pictures: np.ndarray) -> None:
    config = tuned(trained_stages=3, learning_rate=1e-3)
    network = build_network(config, seed=0)
    layers = [m for m in network.modules() if isinstance(m, (nn.Linear, nn.Conv2d))]
    # two blocks of three convolutions, the head, the last linear layer
    assert len(layers) == 8
    assert [layer for layer, _ in masked_layers(network)] == layers
    before = {name: value.clone() for name, value in network.state_dict().items()}
    train(network, read_inputs(pictures, config), PAIRS, ANSWERS, config=config, seed=0)
    assert {name for name, _ in network.named_parameters()} == set(before)
    still = [name for name, value in network.state_dict().items() if torch.equal(before[name], value)]
    # a shift of all scores changes no difference, so nothing pulls at the last bias
    assert still in ([], ["last.bias"])


def test_the_trunk_does_not_learn_and_is_in_evaluation_mode(pictures: np.ndarray) -> None:
    config = tuned()
    before = read_inputs(pictures, config)
    Learner(config, before, seed=0).fit(PAIRS, ANSWERS)
    assert np.array_equal(read_inputs(pictures, config), before)
    stages = trunk._trunk("lite0", "", SIDE, 2, "auto").stages
    assert not any(p.requires_grad for p in stages.parameters())
    assert not any(m.training for m in stages.modules())
    assert not masked_layers(stages)


def test_seeds_share_the_pretrained_tail_and_differ_in_the_last_layer() -> None:
    first, second = (build_network(tuned(), seed=seed).state_dict() for seed in (0, 1))
    different = {name for name in first if not torch.equal(first[name], second[name])}
    assert different == {"last.weight", "last.bias"}


def test_draws_depend_on_seed_and_number_alone(pictures: np.ndarray) -> None:
    config = tuned(dropout=0.3)
    network = build_network(config, seed=0)
    maps = read_inputs(pictures, config)
    whole_pool = draw_scores(network, batches_of(maps, 12), draws=4, seed=5)
    assert np.allclose(draw_scores(network, batches_of(maps, 5), draws=4, seed=5), whole_pool, atol=1e-5)
    assert np.allclose(
        draw_scores(network, batches_of(maps[3:], 9), draws=[2], seed=5)[0], whole_pool[2, 3:], atol=1e-5
    )
    assert not np.allclose(whole_pool[0], whole_pool[1])
    assert not np.allclose(draw_scores(network, batches_of(maps, 12), draws=4, seed=6), whole_pool)


def test_saved_and_loaded_it_scores_the_same_and_starts_another_fit(
    tmp_path: Path, pictures: np.ndarray
) -> None:
    config = tuned()
    maps = read_inputs(pictures, config)
    ranker = Learner(config, maps, seed=1).fit(PAIRS, ANSWERS)
    ranker.save(tmp_path)
    again = load_ranker(tmp_path)
    assert again.config == config
    assert np.array_equal(again.posterior(maps).mean, ranker.posterior(maps).mean)
    assert np.array_equal(again.posterior(maps).variance, ranker.posterior(maps).variance)
    warm = Learner(config, maps, seed=1).fit(PAIRS, ANSWERS, start=again)
    assert not np.array_equal(warm.posterior(maps).mean, ranker.posterior(maps).mean)
    for kind in ("closed_form", "laplace"):
        other = Learner(config.with_changes(posterior=kind, draws=30), maps, seed=1).fit(PAIRS, ANSWERS)
        assert np.isfinite(other.posterior(maps).variance).all()


def test_activations_are_computed_once_per_image(
    tmp_path: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tuned()
    catalog = sy.Catalog.from_arrays(pictures)
    first = read_inputs(catalog, config, cache=tmp_path)
    assert isinstance(first, np.memmap)

    def never(images: np.ndarray) -> np.ndarray:
        raise AssertionError("the trunk ran again")

    monkeypatch.setattr(trunk._trunk("lite0", "", SIDE, 2, "auto"), "rows", never)
    for seed in range(2):
        inputs = read_inputs(catalog, config, cache=tmp_path)
        Learner(config, inputs, seed=seed).fit(PAIRS, ANSWERS).posterior(inputs)
    assert np.array_equal(inputs, first)
    # other settings are other activations
    assert read_inputs(catalog, config.with_changes(trained_stages=3), cache=tmp_path).shape[0] == 12
    assert len(list(tmp_path.glob("*/rows.dat"))) == 2


def test_random_weights_of_a_trunk_are_the_same_every_time(pictures: np.ndarray) -> None:
    options: dict[str, Any] = {"backbone": "small", "trained_stages": 1, "image_size": SIDE}
    first = activations(pictures, **options)
    trunk._trunk.cache_clear()
    torch.manual_seed(7)
    assert np.array_equal(activations(pictures, **options), first)


def test_distances_are_measured_between_averages(pictures: np.ndarray) -> None:
    maps = read_inputs(pictures, tuned(trained_stages=7))
    assert np.allclose(coarse_rows(maps), maps.reshape(12, -1, maps.shape[-1]).mean(axis=1), atol=1e-5)


def test_a_study_is_fitted_scored_and_loaded(tmp_path: Path, pictures: np.ndarray) -> None:
    catalog = sy.Catalog.from_arrays(pictures)
    changes = {"image_size": SIDE, "epochs": 2, "draws": 3, "device": "cpu"}
    with sy.Study.create(tmp_path / "study", catalog, preset="tuned", ranker=changes) as study:
        for pair in study.ask(6):
            study.tell(pair, sy.Answer.LEFT, annotator="kt")
        study.fit()
        assert len(study.score()) == 12
        assert np.isfinite(study.place(pictures[0])["score"])
        assert len(study.ask(2)) == 2


def test_the_estimator_takes_pictures(tmp_path: Path, pictures: np.ndarray) -> None:
    options = {"image_size": SIDE, "epochs": 2, "draws": 3, "device": "cpu"}
    ranker = sy.PairwiseRanker(preset="tuned", options=options, cache=tmp_path)
    ranker.fit(pictures, PAIRS, ANSWERS)
    scores, std = ranker.predict(pictures, return_std=True)
    assert scores.shape == (12,)
    assert (std > 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trained_stages": -1}, "0 or more"),
        ({"backbone": "none"}, "backbone 'none' has none"),
        ({"kind": "convex", "head": "convex"}, "belongs to the network ranker"),
        ({"augment": True}, "learns from cached activations; set it to false"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tuned(**changes)
    values = {"backbone": "lite0", "kind": "network", "trained_stages": 2, **changes}
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_dict({"ranker": values})


def test_a_backbone_with_too_few_stages_says_how_many_it_has(pictures: np.ndarray) -> None:
    for make in (lambda c: build_network(c, seed=0), lambda c: read_inputs(pictures, c)):
        with pytest.raises(RankerError, match=r"1 … 3 for the backbone small, which has 4 stages; not 4"):
            make(tuned(backbone="small", trained_stages=4))
    with pytest.raises(RankerError, match="single stage"):
        cut(nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 1))), 1, "timm:one")


def test_pixels_and_other_activations_are_refused(pictures: np.ndarray) -> None:
    network = build_network(tuned(), seed=0)
    for wrong in (pictures, np.zeros((2, 3, 3, 8), dtype=np.float32), np.zeros((2, 192), dtype=np.float32)):
        with pytest.raises(RankerError, match=r"activations of shape \(B, H, W, 192\)"):
            network.prepare(wrong)
