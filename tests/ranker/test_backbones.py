"""Backbones: shapes, safe loading, and errors that name the key."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from steelyard.errors import MissingExtraError, RankerError
from steelyard.ranker import backbones
from steelyard.ranker.backbones import build, find_weights, load_lite, read_weights
from steelyard.ranker.pixels import pixels_of


def torchvision_state(old: bool) -> dict[str, Tensor]:
    """A DenseNet-169 file as torchvision names it, new (`norm1`) or old (`norm.1`), with numbers that can be told apart.

    Written from the published architecture (growth 32, blocks 6-12-32-32, bottleneck 4), not from our own module.
    """
    generator = torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}

    def conv(name: str, out: int, into: int, kernel: int) -> None:
        state[f"{name}.weight"] = torch.randn(out, into, kernel, kernel, generator=generator) * 0.05

    def norm(name: str, width: int) -> None:
        for part in ("weight", "bias", "running_mean"):
            state[f"{name}.{part}"] = torch.randn(width, generator=generator)
        state[f"{name}.running_var"] = torch.rand(width, generator=generator) + 0.5
        if not old:
            state[f"{name}.num_batches_tracked"] = torch.tensor(7)

    dot = "." if old else ""
    conv("features.conv0", 64, 3, 7)
    norm("features.norm0", 64)
    width = 64
    for block, layers in enumerate((6, 12, 32, 32), start=1):
        for layer in range(1, layers + 1):
            stem = f"features.denseblock{block}.denselayer{layer}"
            norm(f"{stem}.norm{dot}1", width)
            conv(f"{stem}.conv{dot}1", 128, width, 1)
            norm(f"{stem}.norm{dot}2", 128)
            conv(f"{stem}.conv{dot}2", 32, 128, 3)
            width += 32
        if block < 4:
            norm(f"features.transition{block}.norm", width)
            conv(f"features.transition{block}.conv", width // 2, width, 1)
            width //= 2
    norm("features.norm5", width)
    state["classifier.weight"] = torch.randn(1000, width, generator=generator)
    state["classifier.bias"] = torch.randn(1000, generator=generator)
    return state


@pytest.mark.parametrize("name", ["small", "lite0"])
def test_features_have_the_promised_width(name: str) -> None:
    stages, width = build(name)
    images = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8)
    with torch.no_grad():
        features = stages.eval()(pixels_of(name).normalise(images))
    assert features.shape == (2, width)
    assert torch.isfinite(features).all()


def test_lite_stages_compute_what_the_package_computes() -> None:
    whole, (stages, _) = load_lite("lite0"), build("lite0")
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = whole._avg_pooling(whole.extract_features(x)).flatten(1)
        assert torch.equal(stages.eval()(x), features)
        assert (
            whole._fc(features).softmax(1).max() > 0.005
        )  # trained weights commit themselves; 1/1000 would not


def test_lite_padding_follows_the_image_size() -> None:
    assert load_lite("lite2", pretrained=False)._conv_stem.static_padding.padding == (0, 1, 0, 1)
    odd = load_lite("lite2", image_size=97, pretrained=False)
    assert odd._conv_stem.static_padding.padding == (1, 1, 1, 1)


def test_pixels_are_normalised_as_each_network_was_trained() -> None:
    image = torch.tensor([0, 127, 255], dtype=torch.uint8).expand(1, 2, 2, 3)
    assert pixels_of("lite0").normalise(image)[0, :, 0, 0].tolist() == pytest.approx([-127 / 128, 0, 1])
    assert pixels_of("densenet169").normalise(image)[0, :, 0, 0].tolist() == pytest.approx([0, 127 / 255, 1])
    assert pixels_of("small").normalise(image).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_densenet_takes_torchvision_files_new_and_old(tmp_path: Path, old: bool) -> None:
    state = torchvision_state(old)
    path = tmp_path / "densenet169-imagenet.pth"
    torch.save(state, path)
    stages, width = build("densenet169", weights=str(path))
    assert width == 1664
    own = stages.state_dict()
    assert torch.equal(own["conv0.weight"], state["features.conv0.weight"])
    dot = "." if old else ""
    for kind in (f"norm{dot}2.running_var", f"conv{dot}1.weight"):
        ours = own[f"denseblock3.denselayer17.layers.{kind.replace('.', '', 1) if old else kind}"]
        assert torch.equal(ours, state[f"features.denseblock3.denselayer17.{kind}"])
    assert torch.equal(own["transition2.conv.weight"], state["features.transition2.conv.weight"])

    named = f"features.denseblock4.denselayer2.conv{dot}2.weight"
    torch.save({**state, named: torch.zeros(32, 128, 1, 1)}, path)
    with pytest.raises(RankerError, match=rf"'{re.escape(named)}' has the shape"):
        build("densenet169", weights=str(path))
    torch.save({key: value for key, value in state.items() if key != named}, path)
    with pytest.raises(
        RankerError, match=r"lacks the weights 'features\.denseblock4\.denselayer2\.conv2\.weight'"
    ):
        build("densenet169", weights=str(path))
    assert "torchvision" not in sys.modules


@pytest.mark.slow
def test_densenet_is_monais() -> None:
    """The same weights from the same seed, under the same names, and the same maps: models of 0.1 mean the same."""
    from monai.networks.nets import DenseNet169

    torch.manual_seed(5)
    stages, width = build("densenet169", weights="none")
    torch.manual_seed(5)
    theirs = DenseNet169(spatial_dims=2, in_channels=3, out_channels=1)
    expected = theirs.features.state_dict()
    own = stages.state_dict()
    assert list(own) == list(expected)
    assert all(torch.equal(own[key], expected[key]) for key in expected)
    assert width == theirs.class_layers.out.in_features
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    for module in (stages.eval(), theirs.eval()):
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm2d):  # running statistics as new say nothing
                norm.running_mean.fill_(0.1)  # type: ignore[union-attr]
                norm.running_var.fill_(0.5)  # type: ignore[union-attr]
    with torch.no_grad():
        features = torch.relu(theirs.features(x)).mean((2, 3))
        torch.testing.assert_close(stages(x), features)
        untouched = stages[:2](x)
        kept = untouched.clone()
        stages[2](untouched)
        assert torch.equal(untouched, kept), "a stage may be where a cached prefix ends"


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    stages, _ = build("small")
    path = tmp_path / "small.pth"
    torch.save({**stages.state_dict(), "extra.weight": torch.zeros(1)}, path)
    with pytest.raises(RankerError, match=r"unknown weights 'extra\.weight'"):
        build("small", weights=str(path))


def test_safetensors_are_read_as_well(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    torch.manual_seed(3)
    stages, _ = build("small")
    save_file(stages.state_dict(), tmp_path / "small.safetensors")
    again, _ = build("small", weights=str(tmp_path / "small.safetensors"))
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in stages.state_dict().items())


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (os.environ["STEELYARD_TEST_BOMB"],)


def test_files_that_carry_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_TEST_BOMB", str(tmp_path / "exploded"))
    path = tmp_path / "densenet169.pth"
    with path.open("wb") as file:
        pickle.dump({"features.conv0.weight": Bomb()}, file)
    with pytest.raises(RankerError, match="could not be read as weights"):
        build("densenet169", weights=str(path))
    assert not (tmp_path / "exploded").exists()


def test_damaged_files_are_recognised_by_the_checksum_in_their_name(tmp_path: Path) -> None:
    path = tmp_path / "small-00000000.pth"
    torch.save(build("small")[0].state_dict(), path)
    with pytest.raises(RankerError, match=r"SHA-256 begins with [0-9a-f]{8}, its name promises 00000000"):
        read_weights(path)
    good = tmp_path / f"small-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.pth"
    path.rename(good)
    assert "conv0.weight" in read_weights(good)
    good.write_bytes(good.read_bytes()[:-100])
    with pytest.raises(RankerError, match="damaged"):
        read_weights(good)


def test_weights_are_looked_for_in_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("STEELYARD_WEIGHTS", str(tmp_path / "mine"))
    nowhere = (tmp_path / "no" / "net169-0.pth").as_uri()
    with pytest.raises(RankerError, match=re.escape(str(tmp_path / "mine"))):
        find_weights("net169", url=nowhere)
    with pytest.raises(RankerError, match="downloading failed"):
        find_weights("net169", "download", url=nowhere)
    for folder in (tmp_path / "hub" / "hub" / "checkpoints", tmp_path / "mine"):
        folder.mkdir(parents=True, exist_ok=True)
        torch.save({}, folder / "net169-imagenet.pth")
        assert find_weights("net169").parent == folder  # the folder named by the user comes first
    assert find_weights("net169", str(tmp_path / "mine")) == tmp_path / "mine" / "net169-imagenet.pth"
    with pytest.raises(RankerError, match="no such file"):
        find_weights("net169", str(tmp_path / "missing.pth"))


def test_downloads_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("STEELYARD_WEIGHTS", raising=False)
    served = tmp_path / "file.pth"
    torch.save({"a": torch.ones(1)}, served)
    digest = hashlib.sha256(served.read_bytes()).hexdigest()[:8]
    wrong, right = tmp_path / "net-00000000.pth", tmp_path / f"net-{digest}.pth"
    wrong.write_bytes(served.read_bytes())
    right.write_bytes(served.read_bytes())
    with pytest.raises(RankerError, match="damaged"):
        find_weights("net", "download", url=wrong.as_uri())
    folder = tmp_path / "hub" / "hub" / "checkpoints"
    assert list(folder.iterdir()) == []
    with pytest.raises(RankerError, match="nothing is fetched from the internet unless asked: --download"):
        find_weights("net", url=right.as_uri())
    assert list(folder.iterdir()) == []
    assert find_weights("net", "download", url=right.as_uri()) == folder / right.name
    assert find_weights("net") == folder / right.name, "once it is there it is found"


def test_timm_fetches_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Timm:
        @staticmethod
        def list_models() -> list[str]:
            return ["tiny"]

        @staticmethod
        def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
            made.append(pretrained)
            model = nn.Linear(1, 1)
            model.num_features = 1  # type: ignore[assignment]
            return model

    monkeypatch.setitem(sys.modules, "timm", Timm)  # type: ignore[arg-type]
    with pytest.raises(RankerError, match="nothing is fetched unless asked: --download"):
        build("timm:tiny")
    assert made == []
    build("timm:tiny", weights="none")
    build("timm:tiny", weights="download")
    assert made == [False, True]


def test_timm_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"steelyard\[zoo\]"):
        build("timm:resnet18")


@pytest.mark.parametrize("act", [lambda: build("vgg"), lambda: pixels_of("vgg"), lambda: load_lite("lite9")])
def test_unknown_names_list_the_known(act: object) -> None:
    with pytest.raises(RankerError, match="there are"):
        act()  # type: ignore[operator]


def test_random_weights_come_from_torchs_generator() -> None:
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(backbones.build("small", weights="none")[0].state_dict()["conv0.weight"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
