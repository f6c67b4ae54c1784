"""Images → a feature matrix: the average of every block of a frozen backbone, computed once and cached.

A pooled last layer knows what things are; severity is as much in colour, texture and vessels, which live in the earlier
blocks. So every block contributes its average over the positions, for the image and its mirror images (severity has no left
and right). How this was chosen is told in docs/ranker.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import RankerError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from steelyard.images.decode import Progress

__all__ = ["extract"]

_RECIPE = 1  # goes into the cache's settings: another recipe is another cache


class Readable(Protocol):
    """What is needed of a catalog."""

    @property
    def ids(self) -> Any:
        """An id for each image."""

    def __len__(self) -> int: ...

    def read(self, row: int, /) -> NDArray[np.uint8]:
        """RGB, shape (H, W, 3)."""


def extract(
    source: Readable | NDArray[np.uint8] | Sequence[NDArray[np.uint8]],
    *,
    backbone: str = "lite2",
    image_size: int = 0,
    flips: bool = True,
    cache: Path | None = None,
    batch: int = 16,
    weights: str = "",
    threads: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Features of every image, shape (N, D).

    Args:
        source: a catalog, or pictures: uint8 of the shape (N, H, W, 3), or a sequence of (H, W, 3) of any sizes.
        backbone: `lite0`, `lite2`, `densenet169`, `small` or `timm:NAME`.
        image_size: side that images are resized to; 0 takes the backbone's own.
        flips: average over the four mirror images; costs four passes instead of one.
        cache: folder that keeps the rows, by content and settings; None computes them anew.
        batch: images a pass.
        weights: file of pretrained weights, as for `backbones.build`.
        threads: CPU threads while extracting; 0 leaves the default.
        progress: told how many images are done.

    Raises:
        RankerError: pictures that are not uint8 RGB, or an unknown backbone.
        ImageError: a picture of the catalog that cannot be read.
    """
    from steelyard.images.decode import resize
    from steelyard.ranker.backbones import pixels_of

    side = image_size or pixels_of(backbone).size
    read = _reader(source)
    device = _extractor(backbone, weights, side, flips)

    def compute(rows: NDArray[np.int64]) -> NDArray[np.float32]:
        parts = [
            device.rows(np.stack([resize(read(int(row)), side) for row in rows[start : start + batch]]))
            for start in range(0, len(rows), batch)
        ]
        return np.concatenate(parts)

    with _threads(threads):
        if cache is not None:
            settings = {
                "what": "features", "recipe": _RECIPE, "backbone": backbone, "size": side, "flips": flips, "weights": weights,
            }  # fmt: skip
            return _cached(source, compute, cache, device.width, settings, batch, progress)
        features = np.empty((len(source), device.width), dtype=np.float32)
        for start in range(0, len(source), batch):
            rows = np.arange(start, min(start + batch, len(source)))
            features[rows] = compute(rows)
            if progress is not None:
                progress(int(rows[-1]) + 1, len(source), "images computed")
    return features


def _cached(
    source: Any,
    compute: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    folder: Path,
    width: int,
    settings: dict[str, Any],
    batch: int,
    progress: Progress | None,
) -> NDArray[np.float32]:
    from steelyard.images.cache import cached_rows
    from steelyard.images.files import content_id

    def ask(ids: Any, given: Callable[[NDArray[np.int64]], NDArray[np.float32]]) -> NDArray[np.float32]:
        return cached_rows(
            folder,
            ids,
            given,
            row_shape=(width,),
            dtype=np.float32,
            settings=settings,
            progress=progress,
            batch=batch,
        )

    if _is_catalog(source):
        return ask(source.ids, compute)
    ids = [
        content_id(repr(picture.shape).encode(), np.ascontiguousarray(picture).tobytes())
        for picture in source
    ]
    # A catalog has every picture once; an array may repeat one.
    once, first, back = np.unique(ids, return_index=True, return_inverse=True)
    return np.asarray(ask(once, lambda rows: compute(first[rows]))[back])


class _Extractor:
    """A frozen backbone that hands out what its blocks saw."""

    def __init__(self, backbone: str, weights: str, side: int, flips: bool) -> None:
        import torch

        from steelyard.ranker.backbones import build, pixels_of

        stages, _ = build(backbone, weights=weights, image_size=side)
        stages = stages.eval().requires_grad_(False)
        if backbone in ("lite0", "lite2"):
            _streamline(stages)
        self.stages = stages.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.telling = _blocks(stages)
        self.pixels, self.flips = pixels_of(backbone), flips
        self.width = self.rows(np.zeros((1, side, side, 3), dtype=np.uint8)).shape[1]

    def rows(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of pictures of one size, shape (B, D)."""
        import torch

        with torch.inference_mode():
            x = self.pixels.normalise(torch.from_numpy(np.ascontiguousarray(images)))
            # Height is dimension 2, width 3.
            views = [x, x.flip(3), x.flip(2), x.flip(2, 3)] if self.flips else [x]
            mean = sum(self._averages(view) for view in views) / len(views)
            return np.asarray(mean.numpy(), dtype=np.float32)  # type: ignore[union-attr]

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


def _streamline(module: nn.Module) -> None:
    """The same function in fewer passes over memory: about 1.4× the images/s of the network as its package defines it.

    Batch norm becomes part of the convolution before it (EfficientNet lists its layers in the order it runs them), even
    padding part of the convolution after it, and activations overwrite their input, which nobody else reads.
    """
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

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


def _is_catalog(source: Any) -> bool:
    return hasattr(source, "read") and hasattr(source, "ids")


def _reader(source: Any) -> Callable[[int], NDArray[np.uint8]]:
    """How to get picture i."""
    if _is_catalog(source):
        return source.read  # type: ignore[no-any-return]
    if isinstance(source, np.ndarray) and source.ndim != 4:
        raise RankerError(f"pictures have the shape (N, height, width, 3), not {source.shape}")
    for k, picture in enumerate(source[:1] if isinstance(source, np.ndarray) else source):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise RankerError(
                f"picture {k} is {picture.dtype} of {picture.shape}; expected uint8 RGB (height, width, 3)"
            )
    return lambda row: source[row]


@lru_cache(maxsize=2)
def _extractor(backbone: str, weights: str, side: int, flips: bool) -> _Extractor:
    """Kept for the next picture: making the network takes longer than a few pictures do."""
    return _Extractor(backbone, weights, side, flips)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
