"""A backbone cut in two: a trunk that stays as it is, and a tail whose stages are trained.

What comes out of the trunk – activations, not pixels – is computed once per image and kept in the cache, so that training the
last blocks of a pretrained network costs what those blocks cost. Trunk and tail in a row are the whole backbone.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.fusion import fuse_conv_bn_eval

from steelyard.errors import RankerError
from steelyard.ranker.backbones import build_frozen
from steelyard.ranker.device import device_of
from steelyard.ranker.extraction import Source, rows_of
from steelyard.ranker.pixels import DOWNLOAD, pixels_of

if TYPE_CHECKING:
    from steelyard.progress import Progress

__all__ = ["activations", "cut", "streamline"]

_RECIPE = 1  # goes into the cache's settings: another recipe is another cache


def activations(
    source: Source,
    *,
    backbone: str,
    trained_stages: int,
    image_size: int = 0,
    weights: str = "",
    cache: Path | None = None,
    batch: int = 16,
    device: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """What a trained tail sees of every image, shape (N, H, W, C): the output of the frozen stages.

    Args:
        source: a catalog, or pictures: uint8 of the shape (N, H, W, 3), or a sequence of (H, W, 3) of any sizes.
        backbone: as for `backbones.build`.
        trained_stages: stages that are left to the tail.
        image_size: side that images are resized to; 0 takes the backbone's own.
        weights: file of pretrained weights, as for `backbones.build`; `none` takes random ones, the same every time.
        cache: folder that keeps them, by content and settings; None computes them anew.
        batch: images per pass.
        device: where to compute, as `device.device_of` reads it.
        threads: CPU threads meanwhile; 0 leaves the default.
        progress: told how many images are done.

    Raises:
        RankerError: the backbone has too few stages, or pictures that are not uint8 RGB.
        ImageError: a picture of the catalog that cannot be read.
    """
    side = image_size or pixels_of(backbone).size
    trunk = _trunk(backbone, weights, side, trained_stages, device)
    settings = {
        "what": "activations", "recipe": _RECIPE, "backbone": backbone, "size": side, "frozen": trunk.length,
        "weights": "" if weights == DOWNLOAD else weights,  # the same file, whoever brought it
    }  # fmt: skip
    return rows_of(
        source, trunk.rows, side=side, row_shape=trunk.shape, settings=settings, cache=cache, batch=batch, threads=threads,
        progress=progress,
    )  # fmt: skip


def cut(stages: nn.Sequential, trained: int, name: str) -> tuple[nn.Sequential, nn.Sequential]:
    """Trunk and tail of a backbone.

    A stage with weights – a convolution or a block of them – counts together with the norms, activations and pools behind it.

    Args:
        stages: from `backbones.build`.
        trained: stages of the tail, 1 or more and fewer than there are.
        name: of the backbone, for the message.

    Raises:
        RankerError: the backbone has too few stages.
    """
    starts = [k for k, stage in enumerate(stages) if any(map(_has_weights, stage.modules()))]
    if not 0 < trained < len(starts):
        raise RankerError(
            f"trained_stages is 1 … {len(starts) - 1} for the backbone {name}, which has {len(starts)} stages; not {trained}"
            if len(starts) > 1
            else f"the backbone {name} is a single stage and cannot be cut; set trained_stages to 0"
        )
    at = starts[-trained]
    parts = list(stages.named_children())
    return nn.Sequential(OrderedDict(parts[:at])), nn.Sequential(OrderedDict(parts[at:]))


def streamline(stages: nn.Sequential, name: str) -> None:
    """The same function of pixels in fewer passes over memory, where the order of layers is known (EfficientNet-Lite).

    Batch norm with fixed statistics becomes part of the convolution before it (EfficientNet lists its layers in the order it
    runs them), even padding part of the convolution after it, and activations overwrite their input, which nobody else reads.
    About 1.4× the images/s of the network as its package defines it.
    """
    if name in ("lite0", "lite2"):
        _streamline(stages)


def _streamline(module: nn.Module) -> None:
    layers = dict(module.named_children())
    for (name, layer), (after, norm) in itertools.pairwise(layers.items()):
        if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            setattr(module, name, fuse_conv_bn_eval(layer, norm))
            setattr(module, after, nn.Identity())
    for child in module.children():
        pad = getattr(child, "static_padding", None)
        if isinstance(child, nn.Conv2d) and isinstance(pad, nn.ZeroPad2d):
            left, right, top, bottom = pad.padding
            if left == right and top == bottom:
                child.padding, child.static_padding = (top, left), nn.Identity()
        if isinstance(child, nn.ReLU6):
            child.inplace = True
        _streamline(child)


class _Trunk:
    """Frozen stages, in evaluation mode and without dropout."""

    def __init__(self, backbone: str, weights: str, side: int, trained: int, device: str) -> None:
        self.device = device_of(device)
        trunk = cut(build_frozen(backbone, weights=weights, image_size=side), trained, backbone)[0].eval()
        self.length = len(trunk)
        streamline(trunk, backbone)
        self.stages = trunk.eval().requires_grad_(False).to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.pixels = pixels_of(backbone)
        self.shape = self.rows(np.zeros((1, side, side, 3), dtype=np.uint8)).shape[1:]

    def rows(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Activations of pictures of one size, (B, H, W, C): channels last, as convolutions on CPU like them."""
        with torch.inference_mode():
            x = self.stages(
                self.pixels.normalise(torch.from_numpy(np.ascontiguousarray(images)).to(self.device))
            )
            return np.asarray(x.permute(0, 2, 3, 1).contiguous().cpu().numpy(), dtype=np.float32)


@lru_cache(maxsize=2)
def _trunk(backbone: str, weights: str, side: int, trained: int, device: str) -> _Trunk:
    """Kept for the next picture: making the network takes longer than a few pictures do."""
    return _Trunk(backbone, weights, side, trained, device)


def _has_weights(module: nn.Module) -> bool:
    return isinstance(module, (nn.Linear, _ConvNd))
