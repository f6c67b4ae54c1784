"""DenseNet weights in anybody's naming make the same network."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d, pad, relu

from steelyard.errors import RankerError
from steelyard.ranker.backbones import build, read_weights
from steelyard.ranker.densenet import densenet_stages
from steelyard.ranker.densenet_weights import fill_densenet, keras_key

BLOCKS = (2, 1, 3, 1)


def network(seed: int) -> nn.Sequential:
    """A DenseNet with few layers, and batch norms that are not as new."""
    torch.manual_seed(seed)
    stages, _ = densenet_stages(BLOCKS)
    made = nn.Sequential()
    for name, stage in stages:
        made.add_module(name, stage)
    with torch.no_grad():
        for part in made.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_(0, 0.2)
                part.running_mean.normal_(0, 0.2)  # type: ignore[union-attr]
                part.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return made.eval()


def torchvision(state: dict[str, Tensor], dot: str = "") -> dict[str, Tensor]:
    named = {}
    for key, value in state.items():
        if not (dot and key.endswith("num_batches_tracked")):
            new = key.replace(".layers.norm", f".norm{dot}").replace(".layers.conv", f".conv{dot}")
            named[f"features.{new}"] = value
    return {**named, "classifier.weight": torch.zeros(1000, 7), "classifier.bias": torch.zeros(1000)}


def monai(state: dict[str, Tensor]) -> dict[str, Tensor]:
    out = {"class_layers.out.weight": torch.zeros(5, 7), "class_layers.out.bias": torch.zeros(5)}
    return {f"features.{key}": value for key, value in state.items()} | out


def keras(state: dict[str, Tensor], *, suffix: str = ":0", twice: bool = False) -> dict[str, Tensor]:
    """As keras.applications names and lays out its weights; written from its layers, not from our mapping."""
    found: dict[str, Tensor] = {}

    def put(layer: str, name: str, value: Tensor) -> None:
        found[f"{f'{layer}/' if twice else ''}{layer}/{name}{suffix}"] = value.clone()

    def conv(layer: str, ours: str) -> None:
        put(layer, "kernel", state[f"{ours}.weight"].permute(2, 3, 1, 0).contiguous())

    def bn(layer: str, ours: str) -> None:
        put(layer, "gamma", state[f"{ours}.weight"])
        put(layer, "beta", state[f"{ours}.bias"])
        put(layer, "moving_mean", state[f"{ours}.running_mean"])
        put(layer, "moving_variance", state[f"{ours}.running_var"])

    conv("conv1/conv", "conv0")
    bn("conv1/bn", "norm0")
    for block, layers in enumerate(BLOCKS, start=1):
        for layer in range(1, layers + 1):
            theirs, ours = f"conv{block + 1}_block{layer}", f"denseblock{block}.denselayer{layer}.layers"
            bn(f"{theirs}_0_bn", f"{ours}.norm1")
            conv(f"{theirs}_1_conv", f"{ours}.conv1")
            bn(f"{theirs}_1_bn", f"{ours}.norm2")
            conv(f"{theirs}_2_conv", f"{ours}.conv2")
        if block < 4:
            bn(f"pool{block + 1}_bn", f"transition{block}.norm")
            conv(f"pool{block + 1}_conv", f"transition{block}.conv")
    bn("bn", "norm5")
    put("predictions", "kernel", torch.zeros(7, 1000))
    put("predictions", "bias", torch.zeros(1000))
    return found


NAMINGS = {
    "ours": lambda state: dict(state),
    "torchvision": torchvision,
    "torchvision, old": lambda state: torchvision(state, "."),
    "timm": torchvision,  # the same names
    "MONAI": monai,
    "Keras": keras,
    "Keras 3": lambda state: keras(state, suffix=""),
    "Keras, .h5": lambda state: keras(state, twice=True),
    "in a saved model": lambda state: {f"model_weights/{k}": v for k, v in keras(state, twice=True).items()},
    "of several GPUs": lambda state: {f"module.{k}": v for k, v in torchvision(state).items()},
}


@pytest.mark.parametrize("naming", NAMINGS)
def test_every_naming_makes_the_same_network(naming: str) -> None:
    one, other = network(1), network(2)
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = one(x)
        assert not torch.allclose(other(x), expected, atol=1e-3)
        fill_densenet(other, NAMINGS[naming](one.state_dict()), source=naming)
        assert torch.equal(other(x), expected)


def test_keras_weights_compute_what_keras_computes() -> None:
    """Keras' layers, one by one, on its own layout of pictures and kernels."""
    one, other = network(3), network(4)
    named = keras(one.state_dict(), suffix="")
    x = torch.randn(2, 64, 64, 3, generator=torch.Generator().manual_seed(1))

    def conv(values: Tensor, layer: str, stride: int = 1, padding: int = 0) -> Tensor:
        kernel = named[f"{layer}/kernel"]  # (height, width, in, out)
        return conv2d(values, torch.einsum("hwio->oihw", kernel), stride=stride, padding=padding)

    def bn(values: Tensor, layer: str) -> Tensor:
        g, b, m, v = (
            named[f"{layer}/{k}"].view(1, -1, 1, 1)
            for k in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        return g * (values - m) / torch.sqrt(v + 1.001e-5) + b

    with torch.no_grad():
        y = relu(bn(conv(pad(x.permute(0, 3, 1, 2), (3, 3, 3, 3)), "conv1/conv", stride=2), "conv1/bn"))
        y = max_pool2d(pad(y, (1, 1, 1, 1)), 3, stride=2)
        for block, layers in enumerate(BLOCKS, start=2):
            for k in range(1, layers + 1):
                new = conv(relu(bn(y, f"conv{block}_block{k}_0_bn")), f"conv{block}_block{k}_1_conv")
                new = conv(
                    relu(bn(new, f"conv{block}_block{k}_1_bn")), f"conv{block}_block{k}_2_conv", padding=1
                )
                y = torch.cat([y, new], dim=1)
            if block < 5:
                y = avg_pool2d(conv(relu(bn(y, f"pool{block}_bn")), f"pool{block}_conv"), 2)
        expected = relu(bn(y, "bn"))
        fill_densenet(other, named, source="keras")
        assert torch.allclose(other(x.permute(0, 3, 1, 2)), expected, atol=1e-4)


def test_the_real_169_has_all_the_names_of_keras_and_no_others(tmp_path: Path) -> None:
    """168 kernels and 169 norms of four arrays each, every one with a place of its own."""
    torch.manual_seed(0)
    stages, width = build("densenet169", weights="none")
    own = {k: v for k, v in stages.state_dict().items() if not k.endswith("num_batches_tracked")}
    theirs = {keras_key(name) for name in own}
    expected = {"conv1/conv/kernel"} | {f"{n}/{v}" for n in ("conv1/bn", "bn") for v in BN}
    for block, layers in enumerate((6, 12, 32, 32), start=2):
        for k in range(1, layers + 1):
            expected |= {f"conv{block}_block{k}_{n}/{v}" for n in ("0_bn", "1_bn") for v in BN}
            expected |= {f"conv{block}_block{k}_{n}/kernel" for n in ("1_conv", "2_conv")}
        if block < 5:
            expected |= {f"pool{block}_conv/kernel"} | {f"pool{block}_bn/{v}" for v in BN}
    assert theirs == expected
    assert sum(name.endswith("/kernel") for name in theirs) == 168
    # A file in Keras' layout, from end to end.
    arrays = {
        f"{keras_key(n)}:0": (v.permute(2, 3, 1, 0) if v.dim() == 4 else v).numpy() for n, v in own.items()
    }
    file = tmp_path / "densenet169.npz"
    np.savez(file, **arrays)
    torch.manual_seed(9)
    again, same = build("densenet169", weights=str(file))
    assert same == width == 1664
    assert all(torch.equal(again.state_dict()[name], value) for name, value in own.items())


BN = ("gamma", "beta", "moving_mean", "moving_variance")


@pytest.mark.parametrize("naming", ["torchvision", "Keras"])
def test_mistakes_are_said_in_the_names_of_the_file(naming: str) -> None:
    one, other = network(1), network(2)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    named = NAMINGS[naming](one.state_dict())
    key = {
        "torchvision": "features.denseblock3.denselayer3.conv2.weight",
        "Keras": "conv4_block3_2_conv/kernel:0",
    }[naming]
    expected = {"torchvision": "(32, 128, 3, 3)", "Keras": "(3, 3, 128, 32)"}[naming]

    def said(state: dict[str, Tensor]) -> str:
        with pytest.raises(RankerError) as caught:
            fill_densenet(other, state, source="some.file")
        return str(caught.value)

    message = said({k: v for k, v in named.items() if k != key})
    assert f"some.file lacks the weights '{key.removesuffix(':0')}'" in message
    message = said({**named, key: named[key][..., :1]})
    assert f"'{key}' has the shape" in message
    assert f"expected {expected}" in message
    message = said(
        {
            **named,
            "conv7_block1_9_bn/gamma:0" if naming == "Keras" else "features.conv9.weight": torch.zeros(3),
        }
    )
    assert "which this DenseNet has no place for" in message
    # More layers than this network has: the file is another DenseNet's.
    more = {
        "Keras": "conv4_block4_0_bn/gamma:0",
        "torchvision": "features.denseblock3.denselayer4.norm1.weight",
    }[naming]
    assert f"holds '{more}'" in said({**named, more: torch.zeros(3)})
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in before.items()), (
        "nothing was filled"
    )


def test_weights_as_training_scripts_save_them_are_found(tmp_path: Path) -> None:
    one = network(1)
    torch.save({"epoch": 3, "state_dict": torchvision(one.state_dict())}, tmp_path / "densenet169.pth")
    assert "features.conv0.weight" in read_weights(tmp_path / "densenet169.pth")


def test_h5_without_h5py_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "densenet169_weights_tf_dim_ordering_tf_kernels.h5"
    file.write_bytes(b"\x89HDF")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(RankerError, match=r"pip install h5py.*savez"):
        build("densenet169", weights=str(file))


def test_h5_as_keras_writes_it(tmp_path: Path) -> None:
    import h5py

    one, other = network(1), network(2)
    file = tmp_path / "densenet169.h5"
    with h5py.File(file, "w") as made:
        for name, value in keras(one.state_dict(), twice=True).items():
            made[name] = value.numpy()
    fill_densenet(other, read_weights(file), source=str(file))
    assert all(
        torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items() if "tracked" not in k
    )


def test_an_npz_with_objects_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "densenet169.npz"
    np.savez(file, conv=np.array([{"a": 1}], dtype=object))
    with pytest.raises(RankerError, match="could not be read as weights"):
        read_weights(file)
