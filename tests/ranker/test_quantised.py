"""The network of the second recipe: two engines, one function; near the floats it stands for; symmetric where it ought to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from steelyard.ranker.backbones import build_frozen
from steelyard.ranker.onnx_file import OnnxEngine
from steelyard.ranker.quantised import Block, Conv, Plan, Scale, TorchEngine, plan

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, size=(6, 12, 12, 3), dtype=np.uint8)
    fine = np.kron(coarse, np.ones((1, 8, 8, 1), dtype=np.uint8))
    return np.clip(fine + rng.normal(0, 8, fine.shape), 0, 255).astype(np.uint8)  # 96 px


@pytest.mark.parametrize(("backbone", "flips"), [("lite0", True), ("lite0", False), ("lite2", True)])
def test_both_engines_compute_the_same_function(pictures: np.ndarray, backbone: str, flips: bool) -> None:
    network = plan(backbone, side=96, flips=flips)
    quick, reference = OnnxEngine(network, 1).averages(pictures), TorchEngine(network, CPU).averages(pictures)
    assert quick.shape == reference.shape == (6, network.width)
    once = sum(len(block.convs[-1].bias) for block in network.early)
    np.testing.assert_allclose(quick[:, :once], reference[:, :once], atol=1e-3)
    # Sums are exact; a product that lies between two bytes may be rounded either way, and what follows with it.
    apart = np.abs(quick - reference) / (reference.std(axis=0) + 0.01)
    assert np.median(apart) < 0.01
    assert np.quantile(apart, 0.999) < 0.2
    again = OnnxEngine(network, 2)
    np.testing.assert_allclose(again.averages(pictures[3:4]), quick[3:4], atol=1e-5)
    np.testing.assert_allclose(again.averages(pictures[::-1])[::-1], quick, atol=1e-5)


def test_it_is_near_the_network_in_floats(pictures: np.ndarray) -> None:
    network = plan("lite0", side=96)
    stages = build_frozen("lite0", image_size=96)
    x = ((torch.from_numpy(pictures).float() - 127) / 128).permute(0, 3, 1, 2)
    x = torch.cat([x, x.flip(3)])
    expected = []
    with torch.no_grad():
        for name, stage in stages.named_children():
            if name == "head":
                break
            x = stage(x)
            if name.startswith("block"):
                expected.append(x.mean(dim=(2, 3)).reshape(-1, len(pictures), x.shape[1]).mean(dim=0))
                if len(expected) == len(network.early):
                    x = torch.cat([x, x.flip(2)])
    floats = torch.cat(expected, 1).numpy()
    found = OnnxEngine(network, 1).averages(pictures)
    once = sum(len(block.convs[-1].bias) for block in network.early)
    np.testing.assert_allclose(found[:, :once], floats[:, :once], atol=1e-3)
    apart = (found - floats).std(axis=0) / floats.std(axis=0)
    assert np.median(apart) < 0.15
    assert np.mean(apart < 0.4) > 0.95


def test_mirrored_pictures_have_the_same_features_where_the_early_layers_are_symmetric(
    pictures: np.ndarray,
) -> None:
    """Behind the mirrors every view is seen, whatever the layers do; before them it takes symmetric ones."""
    whole = plan("lite0", side=32)
    early = tuple(Block(tuple(map(_symmetric, block.convs)), block.adds) for block in whole.early)
    network = replace(whole, stem=_symmetric(whole.stem), early=early)
    assert any(conv.pads[0] != conv.pads[2] for block in network.late for conv in block.convs)
    small = np.ascontiguousarray(pictures[:2, ::3, ::3])
    engine, plain = OnnxEngine(network, 1), OnnxEngine(replace(network, flips=False), 1)
    rows, one = engine.averages(small), plain.averages(small)
    spread = rows.std()
    for turned in (small[:, ::-1], small[:, :, ::-1], small[:, ::-1, ::-1]):
        # Floats are summed in another order; where that decides a byte, a little is left.
        assert np.abs(engine.averages(turned) - rows).mean() < 2e-3 * spread
        assert np.abs(plain.averages(turned) - one).mean() > 1e-2 * spread


def test_left_and_right_are_the_same_whatever_the_layers_do(pictures: np.ndarray) -> None:
    engine = OnnxEngine(plan("lite0", side=96), 1)
    rows, mirrored = engine.averages(pictures), engine.averages(pictures[:, :, ::-1])
    assert np.abs(mirrored - rows).max() < 1e-5


def _symmetric(conv: Conv) -> Conv:
    """The same layer with a kernel that is its own mirror image, centred, without a stride."""
    kernel = conv.weights
    kernel = (kernel + kernel[:, :, ::-1] + kernel[:, :, :, ::-1] + kernel[:, :, ::-1, ::-1]) / 4
    edge = kernel.shape[2] // 2
    return replace(conv, weights=kernel.astype(np.float32), stride=1, pads=(edge,) * 4)


def test_the_maps_are_mirrored_at_an_eighth_of_the_picture() -> None:
    for backbone, once in (("lite0", 5), ("lite2", 7)):
        network = plan(backbone, side=64)
        assert (len(network.early), network.flips) == (once, True)
        strides = [conv.stride for block in network.early for conv in block.convs]
        assert network.stem.stride * np.prod(strides) == 8
        assert max(conv.stride for conv in network.late[0].convs) == 2


@pytest.mark.parametrize("backbone", ["lite0", "lite2"])
def test_no_processor_has_to_cut_a_sum_off(backbone: str) -> None:
    network = plan(backbone, side=64)
    for conv in (conv for block in network.late for conv in block.convs):
        weights = np.abs(conv.weights.astype(np.int64))
        if conv.groups == 1:
            assert 2 * 255 * weights.max() < 2**15, "two products are added in 16 bits"
        most = weights.reshape(len(weights), -1).sum(axis=1) * 255 + np.abs(conv.bias.astype(np.int64))
        assert most.max() < 2**31
        assert np.abs(conv.bias.astype(np.int64)).max() <= 2**22
        assert np.isfinite(conv.factors).all()
        assert (conv.steps > 0).all()


def test_the_function_is_fixed_by_the_weights() -> None:
    """Nothing in a plan comes from images or from chance: a cache's key means one function."""
    assert _numbers(plan("lite0", side=64)) == _numbers(plan("lite0", side=64))
    random = _numbers(plan("lite0", side=64, weights="none"))
    assert random != _numbers(plan("lite0", side=64))
    assert random == _numbers(plan("lite0", side=64, weights="none")), (
        "random weights are the same every time"
    )


def _numbers(network: Plan) -> list[object]:
    early = (network.stem, *(conv for block in network.early for conv in block.convs))
    late = (conv for block in network.late for conv in block.convs)
    return [
        *((c.weights.tobytes(), c.bias.tobytes(), c.pads) for c in early),
        *((c.weights.tobytes(), c.bias.tobytes(), c.steps.tobytes(), c.given, c.made, c.pads) for c in late),
    ]


def test_a_scale_holds_zero_exactly() -> None:
    for low, high in ((-3.0, 5.0), (1.0, 2.0), (-2.0, -1.0), (0.0, 0.0)):
        scale = Scale.over(low, high)
        assert 0 <= scale.zero <= 255
        assert float(scale.step) * (255 - scale.zero) >= high - float(scale.step)
        assert -float(scale.step) * scale.zero <= low + float(scale.step)
