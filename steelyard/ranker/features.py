"""Images → a feature matrix: the average of every block of a frozen backbone, computed once and cached.

A pooled last layer knows what things are; severity is as much in colour, texture and vessels, which live in the earlier
blocks. So every block contributes its average over the positions, for the image and its mirror images (severity has no left
and right). How this was chosen is told in docs/ranker.md.

There are two recipes. The first sends four mirrored pictures through the network, in floats; the second, several times as
quick, turns maps instead of pictures upside down, in a network that goes on in whole numbers (quantised.py), and lets a JPEG be unpacked smaller. Rows of the two
are never mixed: a study and a model say which they were made with, and the cache keeps them apart.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.config.ranker import Recipe
from steelyard.images.cache import kept_rows
from steelyard.ranker.extraction import Source, is_catalog, rows_of
from steelyard.ranker.pixels import DOWNLOAD, pixels_of

if TYPE_CHECKING:
    import torch
    from torch import nn

    from steelyard.progress import Progress

__all__ = ["extract", "feature_settings"]

_WHOLE_NUMBERS = ("lite0", "lite2")  # backbones that the second recipe is for


def extract(
    source: Source,
    *,
    backbone: str = "lite2",
    image_size: int = 0,
    flips: bool = True,
    recipe: Recipe = 2,
    cache: Path | None = None,
    batch: int = 16,
    weights: str = "",
    device: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Features of every image, shape (N, D).

    Args:
        source: a catalog, or pictures: uint8 of the shape (N, H, W, 3), or a sequence of (H, W, 3) of any sizes.
        backbone: `lite0`, `lite2`, `densenet169`, `small` or `timm:NAME`.
        image_size: side that images are resized to; 0 takes the backbone's own.
        flips: average over the four mirror images.
        recipe: 1 or 2, how they are computed; other backbones than `lite0` and `lite2` know only the first.
        cache: folder that keeps the rows, by content and settings; None computes them anew.
        batch: images per pass.
        weights: file of pretrained weights, as for `backbones.build`; `none` takes random ones, the same every time.
        device: where to compute, as `device.device_of` reads it.
        threads: CPU threads while extracting; 0 leaves the default.
        progress: told how many images are done.

    Raises:
        RankerError: pictures that are not uint8 RGB, or an unknown backbone.
        ImageError: a picture of the catalog that cannot be read.
    """
    settings = feature_settings(backbone, image_size, weights, flips, recipe)
    if cache is not None and is_catalog(source):
        kept = kept_rows(cache, source.ids, settings)  # type: ignore[union-attr]
        if kept is not None:
            return kept
    import torch  # not before it is needed: the page looks for kept rows, too

    side, own = int(settings["size"]), int(settings["recipe"])
    extractor = _extractor(backbone, weights, side, flips, device, own, threads or torch.get_num_threads())
    return rows_of(
        source, extractor.rows, side=side, row_shape=(extractor.width,), settings=settings, cache=cache, batch=batch,
        threads=threads, progress=progress, scaled=own > 1,
    )  # fmt: skip


def feature_settings(
    backbone: str, image_size: int = 0, weights: str = "", flips: bool = True, recipe: Recipe = 2
) -> dict[str, Any]:
    """What features depend on besides the image, as the cache knows them; arguments as for `extract`."""
    return {
        "what": "features", "recipe": recipe if backbone in _WHOLE_NUMBERS else 1, "backbone": backbone,
        "size": image_size or pixels_of(backbone).size, "flips": flips,
        "weights": "" if weights == DOWNLOAD else weights,  # the same file, whoever brought it
    }  # fmt: skip


class _Quick:
    """The second recipe: the network in whole numbers, on the CPU by onnxruntime and elsewhere by torch."""

    def __init__(
        self, backbone: str, weights: str, side: int, flips: bool, device: str, threads: int
    ) -> None:
        from steelyard.ranker.device import device_of
        from steelyard.ranker.onnx_file import OnnxEngine
        from steelyard.ranker.quantised import TorchEngine, plan

        network = plan(backbone, weights=weights, side=side, flips=flips)
        where = device_of(device)
        self.engine = OnnxEngine(network, threads) if where.type == "cpu" else TorchEngine(network, where)
        self.width = network.width

    def rows(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of pictures of one size, shape (B, D)."""
        return self.engine.averages(images)


class _Extractor:
    """The first recipe: a frozen backbone that hands out what its blocks saw."""

    def __init__(self, backbone: str, weights: str, side: int, flips: bool, device: str) -> None:
        import torch

        from steelyard.ranker.backbones import build_frozen
        from steelyard.ranker.device import device_of
        from steelyard.ranker.trunk import streamline

        self.device = device_of(device)
        stages = build_frozen(backbone, weights=weights, image_size=side)
        streamline(stages, backbone)
        self.stages = stages.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.telling = _blocks(stages)
        self.pixels, self.flips = pixels_of(backbone), flips
        self.width = self.rows(np.zeros((1, side, side, 3), dtype=np.uint8)).shape[1]

    def rows(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of pictures of one size, shape (B, D)."""
        import torch

        with torch.inference_mode():
            x = self.pixels.normalise(torch.from_numpy(np.ascontiguousarray(images)).to(self.device))
            # Height is dimension 2, width 3.
            views = [x, x.flip(3), x.flip(2), x.flip(2, 3)] if self.flips else [x]
            mean = sum(self._averages(view) for view in views) / len(views)
            return np.asarray(mean.cpu().numpy(), dtype=np.float32)  # type: ignore[union-attr]

    def _averages(self, x: torch.Tensor) -> torch.Tensor:
        """Averages over the positions behind every block, shape (B, D)."""
        import torch

        x = x.contiguous(memory_format=torch.channels_last)
        seen = []
        for k, stage in enumerate(self.stages):
            x = stage(x)
            if k in self.telling:
                seen.append(x.mean(dim=(2, 3)) if x.ndim == 4 else x)
                if k == max(self.telling):
                    break
        return torch.cat(seen, dim=1)


def _blocks(stages: nn.Sequential) -> set[int]:
    """Positions of the blocks – stages made of several layers –, else of the activations, else the end."""
    from torch import nn

    # A convolution that pads itself has a part too, but is no block.
    blocks = {k for k, stage in enumerate(stages) if [*stage.children()] and not isinstance(stage, nn.Conv2d)}
    activations = {k for k, stage in enumerate(stages) if isinstance(stage, nn.ReLU)}
    return blocks or activations or {len(stages) - 1}


@lru_cache(maxsize=2)
def _extractor(
    backbone: str, weights: str, side: int, flips: bool, device: str, recipe: int, threads: int
) -> _Extractor | _Quick:
    """Kept for the next picture: making the network takes longer than a few pictures do."""
    if recipe == 1:
        return _Extractor(backbone, weights, side, flips, device)
    return _Quick(backbone, weights, side, flips, device, threads)
