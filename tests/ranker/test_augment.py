"""Augmentation: seeded, close to the original, and exactly a flip where that is all."""

from __future__ import annotations

import pytest
import torch

from steelyard.errors import RankerError
from steelyard.ranker.augment import augment


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


IMAGES = torch.rand(16, 3, 20, 28, generator=generator(9)).contiguous(memory_format=torch.channels_last)


def test_same_generator_same_images() -> None:
    assert torch.equal(augment(IMAGES, generator()), augment(IMAGES, generator()))
    assert not torch.allclose(augment(IMAGES, generator()), augment(IMAGES, generator(1)))


def test_without_turn_and_jitter_every_image_is_one_of_its_flips() -> None:
    flips = [IMAGES, IMAGES.flip(3), IMAGES.flip(2), IMAGES.flip(2, 3)]
    changed = augment(IMAGES, generator(), turn=0.0, jitter=0.0)
    which = [
        next(k for k, flip in enumerate(flips) if torch.allclose(changed[i], flip[i], atol=1e-5))
        for i in range(16)
    ]
    assert set(which) == {0, 1, 2, 3}


def test_turning_keeps_shapes() -> None:
    """About the centre, also when the picture is no square: a disc stays a disc."""
    y, x = torch.meshgrid(torch.arange(40.0) - 19.5, torch.arange(60.0) - 29.5, indexing="ij")
    disc = ((x**2 + y**2) < 100).float().expand(8, 1, 40, 60)
    turned = augment(disc, generator(), turn=180.0, jitter=0.0)
    assert ((turned > 0.5) != (disc > 0.5)).float().mean() < 0.01


def test_jitter_is_light() -> None:
    changed = augment(IMAGES, generator(), turn=0.0)
    assert (changed.mean(dim=(1, 2, 3)) - IMAGES.mean(dim=(1, 2, 3))).abs().max() <= 0.1 * IMAGES.std() * 1.1
    ratio = changed.std(dim=(1, 2, 3)) / IMAGES.std(dim=(1, 2, 3))
    assert ratio.min() >= 0.89
    assert ratio.max() <= 1.11


def test_shape_layout_and_input_are_kept() -> None:
    before = IMAGES.clone()
    changed = augment(IMAGES, generator())
    assert changed.shape == IMAGES.shape
    assert changed.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(IMAGES, before)


def test_feature_rows_are_refused() -> None:
    with pytest.raises(RankerError, match=r"\(4, 5\)"):
        augment(torch.zeros(4, 5), generator())
