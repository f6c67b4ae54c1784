"""The chain of stages: what is deterministic is computed once per distinct image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from steelyard.config import NetworkConfig, ranker_from_saved, ranker_preset
from steelyard.errors import RankerError
from steelyard.ranker.dropout import bayesian, draw, draw_for_pairs, masked_layers, plain
from steelyard.ranker.network import Network, build_network


def images(count: int = 6, size: int = 32) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


class Counting(nn.Module):
    """A stage that remembers how many rows it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        return x


def counted() -> tuple[Network, Counting, Counting]:
    early, late = Counting(), Counting()
    backbone = nn.Sequential(nn.Linear(4, 8), early, nn.ReLU(), nn.Linear(8, 8), late)
    network = Network(backbone, 8)
    bayesian(network.backbone[3], 0.5)
    bayesian(network.last, 0.5)
    return network, early, late


def test_small_preset_scores_images() -> None:
    config = ranker_preset("small", image_size=32)
    network = build_network(config, seed=0).eval()
    with torch.no_grad():
        x = network.prepare(images())
        scores, features = network(x), network.last_features(x)
    assert scores.shape == (6,)
    assert features.shape == (6, 128)
    assert torch.allclose(network.last(features).squeeze(-1), scores)
    # three of four convolutions, all but the one that reads the picture, and the last layer
    assert [layer for layer, _ in masked_layers(network)] == [
        *[layer for layer in network.backbone if isinstance(layer, nn.Conv2d)][1:],
        network.last,
    ]


def test_the_paper_s_masks_stand_where_the_authors_have_them() -> None:
    """Single elements, before every convolution, the picture's included, and before the last layer; one set a pair."""
    config = ranker_preset("paper", image_size=32, weights="none")
    network = build_network(config, seed=0).eval()
    weighted = [layer for layer in network.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    masked = masked_layers(network)
    assert [layer for layer, _ in masked] == weighted
    assert len(masked) == 169  # 168 convolutions, a last layer: what the network's name counts
    assert {(hook.units, hook.masks, hook.p) for _, hook in masked} == {("element", "shared", 0.2)}
    seen: list[Tensor] = []
    network.backbone[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    x = torch.ones(4, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    with torch.no_grad(), draw_for_pairs(network, (0, 0, 0)):
        scores = network(x)
    assert torch.equal(seen[0][:2], seen[0][2:])
    assert torch.allclose(scores[:2], scores[2:], atol=1e-5)
    assert (seen[0] == 0).float().mean(dim=(2, 3)).sub(0.2).abs().max() < 0.1  # no colour is lost
    with torch.no_grad(), draw(network, 0, 3):
        one, again = network(x)[0], network(x[:1])[0]
    assert torch.allclose(one, again, atol=1e-4)


def test_channel_masks_leave_the_picture_alone() -> None:
    for seed in range(3):
        network = build_network(ranker_preset("small", image_size=16), seed=seed).eval()
        seen: list[Tensor] = []
        network.backbone[0].register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0]))
        x = network.prepare(images(2, 16))
        with torch.no_grad(), draw(network, seed, 0):
            network(x)
        assert torch.equal(seen[0], x)
        assert (
            network.deterministic_stages() == 3
        )  # and so the first convolution is computed once for all draws
    rows = build_network(ranker_preset("features", kind="network", hidden=0), seed=0, width=6)
    assert [layer for layer, _ in masked_layers(rows)] == [rows.last]  # rows have no colours


def test_a_network_of_0_1_goes_on_switching_colours() -> None:
    """Its settings say nothing of it; its draws, and so its scores, are what they were."""
    config = ranker_preset("small", image_size=16)
    saved = {key: value for key, value in config.to_dict().items() if key != "mask_colours"}
    network = build_network(ranker_from_saved(saved, "network"), seed=0).eval()
    assert len(masked_layers(network)) == 5
    mask = torch.from_numpy(np.random.default_rng((7, 2, 0)).random(3, dtype=np.float32) >= 0.2) / 0.8
    with torch.no_grad(), draw(network, 7, 2):
        assert torch.equal(
            network.backbone[0].weight, network.backbone[0]._parameters["weight"] * mask.view(1, 3, 1, 1)
        )


def test_mlp_head_takes_feature_rows() -> None:
    config = ranker_preset("features", kind="network", hidden=16)
    network = build_network(config, seed=0, width=10)
    assert network(network.prepare(np.zeros((3, 10)))).shape == (3,)
    assert [type(layer) for layer, _ in masked_layers(network)] == [nn.Linear, nn.Linear]
    assert network.last.in_features == 16


def test_initial_weights_come_from_the_seed_and_leave_the_callers_stream_alone() -> None:
    config = ranker_preset("small", image_size=32)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (build_network(config, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(one.last.weight, same.last.weight)
    assert not torch.equal(one.last.weight, other.last.weight)


def test_deterministic_stages_see_each_distinct_image_once() -> None:
    network, early, late = counted()
    assert network.deterministic_stages() == 3
    rows = torch.tensor([0, 1, 2, 0, 0, 1])
    x = torch.randn(3, 4)
    with torch.no_grad():
        scores = network(x, rows)
        assert (early.rows, late.rows) == (3, 6)
        assert torch.allclose(scores, network(x)[rows])
        assert torch.allclose(scores, network(network.through(x, 3), rows, start=3))


def test_a_network_without_dropout_is_deterministic_to_the_end() -> None:
    network, early, late = counted()
    plain(network)
    with torch.no_grad():
        network(torch.randn(2, 4), torch.tensor([0, 1, 1, 0]))
    assert (early.rows, late.rows) == (2, 2)


def test_a_frozen_backbone_stays_as_it_is() -> None:
    network = build_network(ranker_preset("small", image_size=32, dropout=0.0, posterior="laplace"), seed=0)
    bayesian(network.last, 0.2)
    assert network.cacheable_stages() == 0
    network.freeze_backbone().train()
    assert network.cacheable_stages() == len(network.backbone)
    before = {key: value.clone() for key, value in network.backbone.state_dict().items()}
    network(network.prepare(images())).sum().backward()
    assert all(torch.equal(before[key], value) for key, value in network.backbone.state_dict().items())
    assert [name for name, p in network.named_parameters() if p.grad is not None] == [
        "last.weight",
        "last.bias",
    ]


def test_stages_do_not_write_into_what_they_are_given() -> None:
    """A cached prefix is used by many draws: no stage may change its input in place."""
    for backbone in ("small", "lite0"):
        network = build_network(NetworkConfig(backbone=backbone, image_size=64, dropout=0.2), seed=0).eval()
        x = network.prepare(images(2, 64))
        with torch.no_grad():
            for stage in network.chain():
                before = x.clone()
                after = stage(x)
                assert torch.equal(x, before), f"{backbone}: {stage}"
                x = after


def test_draws_and_mean_weights_leave_batch_norm_alone() -> None:
    network = build_network(ranker_preset("small", image_size=32), seed=0).train()
    before = network.backbone.norm0.running_mean.clone()
    with torch.no_grad(), draw(network, 0, 0):
        network(network.prepare(images()))
    assert torch.equal(network.backbone.norm0.running_mean, before)


def test_tau_is_never_negative() -> None:
    network = build_network(ranker_preset("small", image_size=32, ties="rao_kupper"), seed=0)
    assert network.raw_tau is not None
    with torch.no_grad():
        network.raw_tau.fill_(-50.0)
    tau = network.tau
    assert tau is not None
    assert tau.item() >= 0
    assert build_network(ranker_preset("small", image_size=32), seed=0).tau is None


def test_what_does_not_fit_is_named() -> None:
    network = build_network(ranker_preset("small", image_size=32), seed=0)
    with pytest.raises(RankerError, match=r"\(6, 32, 32, 3\) as torch.float64"):
        network.prepare(images().astype(float))
    rows = build_network(ranker_preset("features", kind="network"), seed=0, width=4)
    with pytest.raises(RankerError, match=r"feature rows of shape \(B, 4\)"):
        rows.prepare(images())
    with pytest.raises(RankerError, match="give their width"):
        build_network(ranker_preset("features", kind="network"), seed=0)


def test_only_what_torch_may_not_write_to_is_copied() -> None:
    rows = build_network(ranker_preset("features", kind="network"), seed=0, width=4)
    given = np.ones((3, 4), dtype=np.float32)
    assert rows.prepare(given).data_ptr() == given.ctypes.data
    given.flags.writeable = False  # as a memory map is; warnings are errors
    assert torch.equal(rows.prepare(given), torch.ones(3, 4))
    assert rows.prepare(given).data_ptr() != given.ctypes.data
