"""How a backbone wants its pixels. Known without loading a network, or torch: what is cached is found by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.errors import RankerError

if TYPE_CHECKING:
    import torch

__all__ = ["DOWNLOAD", "Pixels", "pixels_of"]

DOWNLOAD = "download"
"""What `weights` has to say before anything is fetched from the internet."""

_IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
_IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)


@dataclass(frozen=True)
class Pixels:
    """Side in pixels, then `(x - mean) / std` on RGB values 0 … 255.

    Attributes:
        size: side of the square image.
        mean: subtracted, a number per colour.
        std: divided by, a number per colour.
    """

    size: int
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (255.0, 255.0, 255.0)

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        """uint8 (B, H, W, 3) → float32 (B, 3, H, W), in channels-last memory (which convolutions on CPU prefer)."""
        import torch

        mean = torch.tensor(self.mean, device=images.device)
        std = torch.tensor(self.std, device=images.device)
        return ((images.to(torch.float32) - mean) / std).permute(0, 3, 1, 2)


_PIXELS = {
    "small": Pixels(64),
    "densenet169": Pixels(224),  # PAPER.md: the authors divide by 255 and do no more
    "lite0": Pixels(224, (127.0,) * 3, (128.0,) * 3),
    "lite2": Pixels(260, (127.0,) * 3, (128.0,) * 3),
}


def pixels_of(name: str) -> Pixels:
    """The pixels a backbone wants.

    Raises:
        RankerError: no such backbone.
    """
    if name.startswith("timm:"):
        return Pixels(224, _IMAGENET_MEAN, _IMAGENET_STD)
    if name not in _PIXELS:
        raise RankerError(f"unknown backbone {name!r}; there are {', '.join(_PIXELS)} and timm:NAME")
    return _PIXELS[name]
