"""Periodic tiles that drawn tissue is made of: noise of several grains, branching vessels, scattered spots.

Tiles belong to the drawing, not to the draw: they are made once in a process from a fixed seed, and a picture reads
them at random places. A tile repeats without a seam, so it can be wrapped around a tube.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

__all__ = ["BANK", "TILE", "Bank", "Field", "bank", "read", "smoothstep"]

Field = NDArray[np.float32]

TILE = 512  # texels around the tube: about one a pixel at 128 pixels
BANK = 3  # tiles of each kind; random places, turns and flips make few enough
_SEED = 20240612
_BANDS = ((1.3, 4.0), (3.0, 12.0), (7.0, 40.0), (22.0, 150.0))  # texels: grain, ripple, wave, patch


class Bank(NamedTuple):
    """Tiles of each kind, shape (BANK, TILE, TILE), and four numbers a texel for noise.

    Attributes:
        vessels: branching lines, 0 … 1.
        spots: scattered bumps, 0 … 1, each of its own height.
        noise: mean 0 and deviation 1, from fine to coarse: grain, ripple, wave, patch. One array, because looking four
            up at one place costs little more than looking up one.
    """

    vessels: Field
    spots: Field
    noise: Field


@lru_cache(maxsize=1)
def bank() -> Bank:
    """The tiles, made at the first call."""
    rng = np.random.default_rng(_SEED)
    return Bank(
        vessels=np.stack([_vessels(rng) for _ in range(BANK)]),
        spots=np.stack([_spots(rng) for _ in range(BANK)]),
        noise=np.stack([np.stack([_noise(rng, *band) for band in _BANDS], axis=-1) for _ in range(BANK)]),
    )


def read(tile: Field, u: Field, v: Field, rng: np.random.Generator, zoom: int = 1) -> Field:
    """Look a tile up at wall coordinates, from a random place and possibly mirrored.

    Args:
        tile: (TILE, TILE) or (TILE, TILE, C).
        u: texels around the tube, any shape.
        v: texels along the tube, same shape.
        rng: decides the place.
        zoom: how often the tile goes around; a whole number keeps it closed.

    Returns:
        Bilinear values, shape (C, …) with the shape of `u`; C is 1 for a plain tile.
    """
    shift_u, shift_v = rng.uniform(0, TILE, 2).astype(np.float32)
    flip_u, flip_v = (np.float32(zoom * sign) for sign in rng.choice([-1, 1], 2))
    u, v = u * flip_u + shift_u, v * flip_v + shift_v
    whole_u, whole_v = np.floor(u), np.floor(v)
    part_u, part_v = u - whole_u, v - whole_v
    # TILE is a power of two, so that masking is the remainder, also of negative numbers.
    left, top = whole_u.astype(np.int32) & (TILE - 1), (whole_v.astype(np.int32) & (TILE - 1)) * TILE
    right, bottom = (left + 1) & (TILE - 1), (top + TILE) & (TILE * TILE - 1)
    values = tile.reshape(TILE * TILE, -1)
    part_u, part_v = part_u.reshape(-1, 1), part_v.reshape(-1, 1)
    upper, lower = (
        _between(values, (row + left).ravel(), (row + right).ravel(), part_u) for row in (top, bottom)
    )
    upper += (lower - upper) * part_v
    return np.ascontiguousarray(upper.T).reshape(-1, *u.shape)


def _between(values: Field, left: NDArray[np.int32], right: NDArray[np.int32], part: Field) -> Field:
    found = values.take(left, axis=0)
    found += (values.take(right, axis=0) - found) * part
    return found


def smoothstep(x: NDArray[np.floating] | float, low: float, high: float) -> Field:
    """0 up to `low`, 1 from `high`, smooth in between."""
    t = np.clip((np.asarray(x, np.float32) - np.float32(low)) * np.float32(1 / (high - low)), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)


def _noise(rng: np.random.Generator, fine: float, coarse: float) -> Field:
    """Periodic noise with features between two lengths in texels."""
    k = 2 * np.pi * np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.rfftfreq(TILE)[None, :])
    band = np.exp(-((k * fine) ** 2) / 2) * (1 - np.exp(-((k * coarse) ** 2) / 2))
    field = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(TILE, TILE))) * band, s=(TILE, TILE))
    return np.asarray((field - field.mean()) / field.std(), np.float32)


def _vessels(rng: np.random.Generator) -> Field:
    """Vascular trees: tips walk, wander and fork, each fork thinner and shorter; all tips step at once."""
    lives = np.array([330, 170, 90, 60])
    layers = np.zeros((len(lives), TILE, TILE), np.float32)
    roots = 22
    place = rng.uniform(0, TILE, (2, roots))
    heading, bend = rng.uniform(0, 2 * np.pi, roots), np.zeros(roots)
    order, left = np.zeros(roots, int), lives[0] * rng.uniform(0.6, 1.0, roots)
    while left.size:
        bend = 0.85 * bend + rng.normal(0, 0.024, left.size) * (1 + 0.4 * order)
        heading = heading + bend
        place = place + np.stack([np.sin(heading), np.cos(heading)])
        y, x = place.astype(int) % TILE
        layers[order, y, x] = 1
        fork = rng.random(left.size) < np.array([1 / 20, 1 / 22, 1 / 28, 0])[order]
        turn = rng.choice([-1, 1], left.size) * rng.uniform(0.4, 1.1, left.size)
        child = order[fork] + 1
        place = np.concatenate([place, place[:, fork]], axis=1)
        bend = np.append(bend, np.zeros(child.size))
        heading = np.append(heading, (heading + turn)[fork])
        left = np.append(left - 1, lives[child] * rng.uniform(0.4, 1.0, child.size))
        order = np.append(order, child)
        alive = left > 0
        place, heading, bend, left, order = (
            place[:, alive],
            heading[alive],
            bend[alive],
            left[alive],
            order[alive],
        )
    tile = np.zeros((TILE, TILE), np.float32)
    for layer, width, depth in zip(layers, (1.3, 1.0, 0.75, 0.6), (1.0, 0.72, 0.5, 0.38), strict=True):
        line = ndimage.gaussian_filter(layer, width, mode="wrap") * (width * 2.5)
        tile = np.maximum(tile, np.float32(depth) * np.minimum(line, 1))
    return tile


def _spots(rng: np.random.Generator) -> Field:
    """Spots of falling height: lowering a threshold adds spots and widens those already there."""
    tile = np.zeros((TILE, TILE), np.float32)
    grid = np.arange(TILE)
    for height in np.linspace(1.0, 0.2, 300):
        (y, x), radius, stretch = rng.uniform(0, TILE, 2), rng.uniform(3.0, 9.0), np.exp(rng.normal(0, 0.25))
        dy, dx = ((grid - c + TILE / 2) % TILE - TILE / 2 for c in (y, x))
        rows, columns = np.flatnonzero(np.abs(dy) < 30), np.flatnonzero(np.abs(dx) < 30)
        far = (dy[rows, None] / (radius * stretch)) ** 2 + (dx[None, columns] * stretch / radius) ** 2
        window = np.ix_(rows, columns)
        tile[window] = np.maximum(tile[window], height * np.exp(-far / 2))
    return tile
