"""DenseNet weights from a file in anybody's naming: torchvision's (old and new), MONAI's, timm's or Keras'.

    ours, MONAI          (features.)denseblock1.denselayer2.layers.norm1.weight    class_layers.out.weight
    torchvision, timm    features.denseblock1.denselayer2.norm1.weight             classifier.weight
    torchvision's .pth   features.denseblock1.denselayer2.norm.1.weight            classifier.weight
    Keras                conv2_block2_0_bn/gamma:0                                  predictions/kernel:0

Keras keeps kernels as (height, width, in, out) and torch as (out, in, height, width). The classifier is left out. Every key of a
file is either known or an error, every weight of the network is filled, and shapes agree; messages speak in the file's own names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor, nn

from steelyard.errors import RankerError

__all__ = ["fill_densenet", "keras_key"]

_TORCH = re.compile(
    r"(?:module\.|model\.)?(?:features\.)?"
    r"(?:(?P<first>conv0|norm0|norm5)|(?P<layer>denseblock\d+\.denselayer\d+)\.(?:layers\.)?(?P<part>norm|conv)\.?(?P<number>[12])"
    r"|(?P<transition>transition\d+\.(?:norm|conv)))\.(?P<value>weight|bias|running_mean|running_var|num_batches_tracked)"
)
_TORCH_CLASSIFIER = re.compile(r"(?:module\.|model\.)?(?:classifier|class_layers)\.")
# Keras writes a layer's name once or twice before the name of the weight, and `model_weights/` before all in a saved model.
_KERAS = re.compile(
    r"(?:^|/)(?P<layer>conv1/conv|conv1/bn|conv\d+_block\d+_(?:0_bn|1_conv|1_bn|2_conv)|pool\d+_(?:bn|conv)|bn)"
    r"/(?P<value>kernel|gamma|beta|moving_mean|moving_variance)(?::0)?$"
)
_KERAS_CLASSIFIER = re.compile(r"(?:^|/)(?:predictions|fc1000)/(?:kernel|bias)(?::0)?$")
_KERAS_VALUES = {
    "kernel": "weight", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var",
}  # fmt: skip
_KERAS_PARTS = {"0_bn": "norm1", "1_conv": "conv1", "1_bn": "norm2", "2_conv": "conv2"}


def fill_densenet(module: nn.Module, state: Mapping[str, Tensor], *, source: str) -> None:
    """Fill a DenseNet of ours from named tensors.

    Raises:
        RankerError: names the first key that is unknown, missing, there twice or of another shape.
    """
    keras = any(_KERAS.search(key) for key in state)
    own = module.state_dict()
    found: dict[str, Tensor] = {}
    said: dict[str, str] = {}
    for key, value in state.items():
        if (_KERAS_CLASSIFIER.search(key) if keras else _TORCH_CLASSIFIER.match(key)) is not None:
            continue
        name = (_from_keras if keras else _from_torch)(key)
        if name is None or name not in own:
            raise RankerError(
                f"{source} holds '{key}' {tuple(value.shape)}, which this DenseNet has no place for; expected the names of "
                "torchvision, MONAI, timm or Keras – is it for another network?"
            )
        if name in found:
            raise RankerError(
                f"{source} holds '{said[name]}' and '{key}', which are the same weights; leave one out"
            )
        expected = tuple(own[name].shape)
        if keras and value.dim() == 4:
            value, expected = value.permute(3, 2, 0, 1), tuple(own[name].permute(2, 3, 1, 0).shape)
        if value.shape != own[name].shape:
            raise RankerError(
                f"{source}: '{key}' has the shape {tuple(state[key].shape)}, expected {expected}; is it for another network?"
            )
        found[name], said[name] = value.contiguous(), key
    for name, value in own.items():
        # Older files do not have it, nor has Keras, and nothing depends on it.
        if name not in found and not name.endswith("num_batches_tracked"):
            missing = keras_key(name) if keras else f"features.{name.replace('.layers.', '.')}"
            raise RankerError(
                f"{source} lacks the weights '{missing}' ({name} {tuple(value.shape)}); is it for another network?"
            )
    module.load_state_dict({**own, **{name: value.to(own[name].dtype) for name, value in found.items()}})


def keras_key(name: str) -> str:
    """What Keras calls a weight of ours.

    >>> keras_key("denseblock2.denselayer11.layers.norm2.running_var")
    'conv3_block11_1_bn/moving_variance'
    """
    layer, _, value = name.rpartition(".")
    is_norm = "norm" in layer.rpartition(".")[2]
    told = {
        "weight": "gamma" if is_norm else "kernel", "bias": "beta", "running_mean": "moving_mean",
        "running_var": "moving_variance",
    }[value]  # fmt: skip
    parts = {ours: theirs for theirs, ours in _KERAS_PARTS.items()}
    if found := re.fullmatch(r"denseblock(\d+)\.denselayer(\d+)\.layers\.(\w+)", layer):
        theirs = f"conv{int(found[1]) + 1}_block{found[2]}_{parts[found[3]]}"
    elif found := re.fullmatch(r"transition(\d+)\.(norm|conv)", layer):
        theirs = f"pool{int(found[1]) + 1}_{'bn' if found[2] == 'norm' else 'conv'}"
    else:
        theirs = {"conv0": "conv1/conv", "norm0": "conv1/bn", "norm5": "bn"}[layer]
    return f"{theirs}/{told}"


def _from_torch(key: str) -> str | None:
    found = _TORCH.fullmatch(key)
    if found is None:
        return None
    inside = f"{found['layer']}.layers.{found['part']}{found['number']}"
    return f"{found['first'] or found['transition'] or inside}.{found['value']}"


def _from_keras(key: str) -> str | None:
    found = _KERAS.search(key)
    if found is None:
        return None
    layer, value = found["layer"], _KERAS_VALUES[found["value"]]
    if inside := re.fullmatch(r"conv(\d+)_block(\d+)_(\w+)", layer):
        ours = f"denseblock{int(inside[1]) - 1}.denselayer{inside[2]}.layers.{_KERAS_PARTS[inside[3]]}"
    elif between := re.fullmatch(r"pool(\d+)_(bn|conv)", layer):
        ours = f"transition{int(between[1]) - 1}.{'norm' if between[2] == 'bn' else 'conv'}"
    else:
        ours = {"conv1/conv": "conv0", "conv1/bn": "norm0", "bn": "norm5"}[layer]
    return f"{ours}.{value}"
