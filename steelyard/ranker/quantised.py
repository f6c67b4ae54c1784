"""EfficientNet-Lite for the second recipe of features: the picture is seen twice in floats, its mirrored maps in whole numbers.

The blocks up to a resolution of one eighth see the picture and its mirror image, left to right: few layers, but large maps.
Behind them the *maps* are mirrored upside down as well, and the later blocks, which are many but small, see all four views.
(With one look at the picture and all mirrors behind it, 0.3 points of accuracy were lost on colitis.)

Those compute in whole numbers: activations are bytes and weights small integers, each with a step (real value = step ·
(number − zero)), so that a convolution is a sum of integers, the same on every machine and several times as quick where the
processor adds bytes. Nothing is calibrated on images. Behind ReLU6 the range is 0 … 6; elsewhere it is what the batch norms
were trained to give, `_SPREAD` deviations around their means. So the function is fixed by the weights alone. The early blocks
stay in floats: rounded to bytes, they made three quarters of the error and saved a quarter of the time.

    plan              weights → a `Plan`, arrays only
    TorchEngine       a plan in torch, on any device: the reference, and what a GPU computes
    onnx_file.py      the same plan for onnxruntime, which is what a CPU computes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from steelyard.ranker.backbones import build_frozen

__all__ = ["Block", "ByteBlock", "ByteConv", "Conv", "Plan", "Scale", "TorchEngine", "plan"]

_SPREAD = 4.0  # deviations of a batch norm's output that a byte covers; 3 and 6 are no better
# Two products of a byte and a weight have to fit in 16 bits: processors without VNNI add them there, and cut off what does not.
_MOST = 63
_MOST_DEPTHWISE = 127  # one channel at a time, in 32 bits
_MOST_BIAS = 2**22  # so that floats hold every sum: a channel without weights may have any step
_EARLY = 8  # reduction of the picture behind which maps are mirrored


@dataclass(frozen=True)
class Scale:
    """What the bytes of a map mean: step · (byte − zero)."""

    step: np.float32
    zero: int

    @classmethod
    def over(cls, low: float, high: float) -> Scale:
        """Of a range, widened to hold 0, which is what convolutions pad with."""
        low, high = min(low, 0.0), max(high, 0.0)
        step = np.float32(max(high - low, 1e-6) / 255)
        return cls(step, round(-low / float(step)))


_RELU6 = Scale.over(0.0, 6.0)  # a byte cannot leave the range: this *is* the activation


@dataclass(frozen=True)
class Conv:
    """A convolution in floats, the batch norm behind it included.

    Attributes:
        weights: float32, shape (O, I / groups, height, width).
        bias: float32, shape (O,).
        stride: both ways.
        pads: top, left, bottom, right.
        groups: 1, or all channels (depthwise).
        relu: whether ReLU6 follows.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    stride: int
    pads: tuple[int, int, int, int]
    groups: int
    relu: bool


@dataclass(frozen=True)
class Block:
    """Convolutions in a row; with `adds`, the block's input is added at the end."""

    convs: tuple[Conv, ...]
    adds: bool


@dataclass(frozen=True)
class ByteConv:
    """A convolution from bytes to bytes.

    Attributes:
        weights: int8, shape (O, I / groups, height, width).
        steps: of the weights, float32, shape (O,).
        bias: in steps of the sum, int32, shape (O,).
        stride: both ways.
        pads: top, left, bottom, right.
        groups: 1, or all channels (depthwise).
        given: scale of its input.
        made: scale of its output.
    """

    weights: NDArray[np.int8]
    steps: NDArray[np.float32]
    bias: NDArray[np.int32]
    stride: int
    pads: tuple[int, int, int, int]
    groups: int
    given: Scale
    made: Scale

    @property
    def factors(self) -> NDArray[np.float32]:
        """From steps of the sum to steps of the output, shape (O,)."""
        return np.asarray(self.given.step * self.steps / self.made.step, dtype=np.float32)


@dataclass(frozen=True)
class ByteBlock:
    """Convolutions in a row; where `sum` is a scale, the block's input is added and that is the scale of the sum."""

    convs: tuple[ByteConv, ...]
    sum: Scale | None

    @property
    def made(self) -> Scale:
        """Scale of its output."""
        return self.sum or self.convs[-1].made


@dataclass(frozen=True)
class Plan:
    """The network as far as features need it: the average of each block over the positions is a feature per channel.

    Attributes:
        stem: the first convolution, of pixels as (x − 127) / 128.
        early: blocks that see the picture, with `flips` also its mirror image.
        maps: scale of what they leave to the others.
        late: blocks that see their maps, with `flips` also upside down.
        flips: average over mirror images.
    """

    stem: Conv
    early: tuple[Block, ...]
    maps: Scale
    late: tuple[ByteBlock, ...]
    flips: bool

    @property
    def width(self) -> int:
        """How many features there are."""
        early = sum(len(block.convs[-1].bias) for block in self.early)
        return early + sum(len(block.convs[-1].bias) for block in self.late)


def plan(backbone: str, *, weights: str = "", side: int, flips: bool = True) -> Plan:
    """The network of a backbone.

    Args:
        backbone: `lite0` or `lite2`.
        weights: as for `backbones.build`.
        side: of the picture in pixels, which fixes the padding.
        flips: average over mirror images.
    """
    stages = dict(build_frozen(backbone, weights=weights, image_size=side).named_children())
    stem = _conv(stages["stem"], stages["norm0"], relu=True)
    reduction, given = stem.stride, _RELU6
    mean, variance = np.zeros(1), np.zeros(1)
    early: list[Block] = []
    late: list[ByteBlock] = []
    for name, stage in stages.items():
        if not name.startswith("block"):
            continue
        block: Any = stage
        convs = [_conv(block._expand_conv, block._bn0, relu=True)] if hasattr(block, "_expand_conv") else []
        convs.append(_conv(block._depthwise_conv, block._bn1, relu=True))
        convs.append(_conv(block._project_conv, block._bn2, relu=False))
        reduction *= convs[-2].stride
        args = block._block_args
        adds = bool(block.id_skip and convs[-2].stride == 1 and args.input_filters == args.output_filters)
        shift, spread = _float64(block._bn2.bias), _float64(block._bn2.weight)
        # Inputs and what is added to them are taken for independent.
        mean, variance = (mean + shift, variance + spread**2) if adds else (shift, spread**2)
        if reduction <= _EARLY:
            early.append(Block(tuple(convs), adds))
            given = maps = _around(mean, variance)
            continue
        made = [*[_RELU6] * (len(convs) - 1), _around(shift, spread**2)]
        whole = zip(convs, [given, *made], made, strict=False)
        late.append(
            ByteBlock(tuple(_whole(*one) for one in whole), _around(mean, variance) if adds else None)
        )
        given = late[-1].made
    return Plan(stem, tuple(early), maps, tuple(late), flips)


class TorchEngine:
    """A plan computed by torch, whole numbers in floats that hold them: the reference, and the way on a GPU."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self._tensors: dict[int, tuple[torch.Tensor, ...]] = {}
        for conv in (plan.stem, *(conv for block in plan.early for conv in block.convs)):
            self._tensors[id(conv)] = self._put(conv.weights, conv.bias[:, None, None])
        for whole in (whole for block in plan.late for whole in block.convs):
            parts = (whole.weights, whole.bias[:, None, None], whole.factors[:, None, None])
            self._tensors[id(whole)] = self._put(*parts)

    def averages(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Of every block over positions and views, for pictures (B, side, side, 3); shape (B, D)."""
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(images)).to(self.device).permute(0, 3, 1, 2).float()
            if self.plan.flips:
                x = torch.cat([x, x.flip(3)])
            x = self._conv(self.plan.stem, (x - 127) / 128)
            seen = []
            for block in self.plan.early:
                y = x
                for conv in block.convs:
                    y = self._conv(conv, y)
                x = x + y if block.adds else y
                seen.append(_over_views(x, len(images)))
            x = _as_bytes(x / float(self.plan.maps.step), self.plan.maps)
            if self.plan.flips:
                x = torch.cat([x, x.flip(2)])
            for late in self.plan.late:
                x = self._late(late, x)
                seen.append(_over_views(x, len(images)) * float(late.made.step))
            return np.asarray(torch.cat(seen, dim=1).cpu().numpy(), dtype=np.float32)

    def _late(self, block: ByteBlock, x: torch.Tensor) -> torch.Tensor:
        """Numbers less their zero in, numbers less their zero out."""
        y = x
        for conv in block.convs:
            weights, bias, factors = self._tensors[id(conv)]
            y = _as_bytes((_convolved(conv, y, weights) + bias) * factors, conv.made)
        if block.sum is None:
            return y
        given, added, made = block.convs[0].given, block.convs[-1].made, block.sum
        return _as_bytes(y * float(added.step / made.step) + x * float(given.step / made.step), made)

    def _conv(self, conv: Conv, x: torch.Tensor) -> torch.Tensor:
        weights, bias = self._tensors[id(conv)]
        y = _convolved(conv, x, weights) + bias
        return y.clamp_(0, 6) if conv.relu else y

    def _put(self, *arrays: NDArray[Any]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(np.asarray(a, dtype=np.float32)).to(self.device) for a in arrays)


def _over_views(x: torch.Tensor, pictures: int) -> torch.Tensor:
    """Averages over positions and views, (views · B, C, height, width) → (B, C)."""
    return x.mean(dim=(2, 3)).reshape(-1, pictures, x.shape[1]).mean(dim=0)


def _convolved(conv: Conv | ByteConv, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    top, left, bottom, right = conv.pads
    return functional.conv2d(
        functional.pad(x, (left, right, top, bottom)), weights, stride=conv.stride, groups=conv.groups
    )


def _as_bytes(x: torch.Tensor, scale: Scale) -> torch.Tensor:
    return x.round().clamp(-scale.zero, 255 - scale.zero)


def _around(mean: NDArray[np.float64], variance: NDArray[np.float64]) -> Scale:
    reach = _SPREAD * np.sqrt(variance)
    return Scale.over(float((mean - reach).min()), float((mean + reach).max()))


def _conv(layer: Any, norm: Any, *, relu: bool) -> Conv:
    """A convolution with the batch norm behind it; in float64, so that every machine rounds alike."""
    gain = _float64(norm.weight) / np.sqrt(_float64(norm.running_var) + norm.eps)
    bias = _float64(norm.bias) - gain * _float64(norm.running_mean)
    weights = _float64(layer.weight) * gain[:, None, None, None]
    pad = layer.static_padding
    left, right, top, bottom = pad.padding if isinstance(pad, nn.ZeroPad2d) else (0, 0, 0, 0)
    return Conv(
        weights=weights.astype(np.float32),
        bias=bias.astype(np.float32),
        stride=int(layer.stride[0]),
        pads=(int(top), int(left), int(bottom), int(right)),
        groups=int(layer.groups),
        relu=relu,
    )


def _whole(conv: Conv, given: Scale, made: Scale) -> ByteConv:
    """The same convolution in whole numbers."""
    most = _MOST if conv.groups == 1 else _MOST_DEPTHWISE
    weights, bias = conv.weights.astype(np.float64), conv.bias.astype(np.float64)
    steps = np.abs(weights).reshape(len(weights), -1).max(axis=1) / most
    # Hundreds of channels have no weights to speak of, only a bias.
    steps = (
        np.maximum(steps, np.abs(bias) / (float(given.step) * _MOST_BIAS)).clip(min=1e-12).astype(np.float32)
    )
    exact = steps.astype(np.float64)
    return ByteConv(
        weights=np.rint(weights / exact[:, None, None, None]).clip(-most, most).astype(np.int8),
        steps=steps,
        bias=np.rint(bias / (float(given.step) * exact)).astype(np.int32),
        stride=conv.stride,
        pads=conv.pads,
        groups=conv.groups,
        given=given,
        made=made,
    )


def _float64(tensor: torch.Tensor) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)
