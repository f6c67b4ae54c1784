"""Changes to a training image that keep its severity: flips, small turns, light jitter.

Off by default. The same changed image meets the draw of its pair; all chance comes from the generator.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from steelyard.errors import RankerError

__all__ = ["augment"]


def augment(
    images: Tensor,
    generator: torch.Generator,
    *,
    turn: float = 10.0,
    jitter: float = 0.1,
    among: tuple[Tensor, int] | None = None,
) -> Tensor:
    """Flip, turn and jitter each image on its own.

    Args:
        images: normalised pixels (B, C, H, W), on the CPU or where the generator is.
        generator: source of randomness; the same state gives the same result.
        turn: largest turn, in degrees either way; edges are mirrored into the corners.
        jitter: largest relative change of contrast, and of brightness in standard deviations of the image.
        among: places of the images among so many that the generator is meant for; None is all of them, in order.

    Returns:
        Images of the same shape, in the same memory layout.

    Raises:
        RankerError: not a batch of images.
    """
    if images.dim() != 4:
        raise RankerError(
            f"augmentation takes images (B, C, H, W), not {tuple(images.shape)}; feature rows have none"
        )
    places, count = (slice(None), len(images)) if among is None else among
    chance = torch.rand(5, count, generator=generator, device=generator.device)[:, places].to(images.device)
    angle = (2 * chance[0] - 1) * math.radians(turn)
    sideways = torch.where(chance[1] < 0.5, -1.0, 1.0)
    upside = torch.where(chance[2] < 0.5, -1.0, 1.0)
    contrast = 1 + (2 * chance[3] - 1) * jitter
    brightness = (2 * chance[4] - 1) * jitter

    height, width = images.shape[-2:]
    cos, sin = torch.cos(angle), torch.sin(angle)
    zero = torch.zeros_like(cos)
    # affine_grid measures in half widths and half heights, hence the ratios
    matrix = torch.stack(
        [
            torch.stack([cos * sideways, -sin * (height / width) * upside, zero], dim=1),
            torch.stack([sin * (width / height) * sideways, cos * upside, zero], dim=1),
        ],
        dim=1,
    )
    grid = affine_grid(matrix, list(images.shape), align_corners=False)
    turned = grid_sample(
        images, grid.to(images.dtype), mode="bilinear", padding_mode="reflection", align_corners=False
    )
    mean = turned.mean(dim=(1, 2, 3), keepdim=True)
    deviation = turned.std(dim=(1, 2, 3), keepdim=True)
    column = (-1, 1, 1, 1)
    changed = (turned - mean) * contrast.view(column) + mean + brightness.view(column) * deviation
    layout = (
        torch.channels_last
        if images.is_contiguous(memory_format=torch.channels_last)
        else torch.contiguous_format
    )
    return changed.to(images.dtype).contiguous(memory_format=layout)
