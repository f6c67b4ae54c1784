"""The colon as a lens sees it: a folded tube, where each pixel lies on its wall, and how much light gets there.

Haustral folds are nested openings in the picture. Every pixel lies between two of them (or outside the first, or
inside the last, which is the dark lumen); how far between gives its angle off the tube's axis, and that its depth.
A fold's crest stands closer to the axis than the wall, so the wall behind it begins deeper: that is the dark edge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from steelyard.images.texture import TILE, Field

__all__ = ["Tube", "look"]


class Tube(NamedTuple):
    """What a view shows, each of shape (size, size).

    Attributes:
        u: texels around the wall.
        v: texels along the wall.
        light: light that arrives and comes back, any unit.
        facing: cosine between wall and line of sight.
        detail: 1 near, falling to 0 where a pixel covers many texels.
        open: 1 on the wall, 0 in the dark of the lumen.
    """

    u: Field
    v: Field
    light: Field
    facing: Field
    detail: Field
    open: Field


def look(
    size: int, *, field_of_view: float, folds: int, triangular: float, crest: float, rng: np.random.Generator
) -> Tube:
    """Point the endoscope somewhere.

    Args:
        size: side of the picture in pixels.
        field_of_view: angle across the picture, in radians.
        folds: how many folds are in sight when looking down the lumen.
        triangular: how far from round the folds are (the transverse colon's are triangles).
        crest: how far folds stand out, as a share of the tube's radius.
        rng: where it points and how the folds lie.
    """
    axis = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y = np.meshgrid(axis, axis)
    rays = _rays(x, y, field_of_view)
    # Down the lumen, or at the wall with the lumen near or beyond the edge of the picture.
    down = rng.random() < 0.6
    away = abs(rng.normal(0, 0.16)) if down else rng.uniform(0.75, 1.05) / field_of_view
    heading = rng.uniform(0, 2 * np.pi)
    centre = away * np.array([np.cos(heading), np.sin(heading)])
    radius = rng.uniform(0.24, 0.44) if down else rng.uniform(0.16, 0.40)
    bend, squeeze = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 0.78)
    corner, oval = rng.uniform(0, 2 * np.pi, 2)
    oblong = float(rng.uniform(0.0, 0.16))

    rho, theta, angle_at, ridge = [], [], [], []
    for _ in range(max(1, folds) + 1):
        off, turn = _about(rays, centre, field_of_view)
        twist = 0.3 * float(rng.normal())
        shape = 1 + triangular * np.cos(3 * (turn - np.float32(corner + twist)))
        shape += oblong * np.cos(2 * (turn - np.float32(oval + twist)))
        shape += 0.02 * np.cos(5 * turn + np.float32(rng.uniform(0, 6)))
        angle = float(field_of_view * radius)
        rho.append(off / (np.float32(angle) * shape))
        theta.append(turn)
        angle_at.append(angle)
        # A fold is a crescent between two bands of muscle: it stands out here and runs out there.
        arcs, start = rng.choice([1, 2, 3]), rng.uniform(0, 2 * np.pi)
        ridge.append(crest * np.clip(0.55 + 0.75 * np.cos(arcs * (turn - np.float32(start))), 0, 1))
        smaller = radius * squeeze * rng.uniform(0.85, 1.1)
        drift = rng.uniform(0.15, 0.75) * (radius - smaller)
        bend += 0.6 * rng.normal()
        centre = centre + drift * np.array([np.cos(bend), np.sin(bend)])
        radius = smaller
        if len(rho) == 1:
            off_axis, around = off, turn

    # Outside the first opening is the wall next to the lens; then inwards, fold by fold.
    beyond = np.maximum(rho[0] - 1, 0)
    wall = 1 - ridge[0] * np.exp(-beyond / 0.20)
    shade = 1 + 1.6 * ridge[0] * np.exp(-beyond / 0.12)
    within = rho[0] < 1
    for k in range(len(rho) - 1):
        here = within & (rho[k + 1] >= 1)
        t = np.clip((rho[k + 1] - 1) / np.maximum(rho[k + 1] - rho[k], 1e-3), 0, 1)
        off_axis = np.where(here, angle_at[k + 1] + (angle_at[k] - angle_at[k + 1]) * t, off_axis)
        # Blended around the circle, so that the seam at ±π stays closed.
        gap = (theta[k] - theta[k + 1] + np.float32(np.pi)) % np.float32(2 * np.pi) - np.float32(np.pi)
        around = np.where(here, theta[k + 1] + t * gap, around)
        wall = np.where(here, 1 - ridge[k + 1] * np.exp(-t / 0.30), wall)
        shadow = np.minimum(0.7, 2.6 * ridge[k]) * np.exp((t - 1) / 0.16)
        shade = np.where(here, 1 + 1.6 * ridge[k + 1] * np.exp(-t / 0.15) - shadow, shade)
        within &= rho[k + 1] < 1
    off_axis = np.where(within, angle_at[-1] * (0.35 + 0.65 * rho[-1]), off_axis)
    around = np.where(within, theta[-1], around)
    shade = np.where(within, 0.2 + 0.8 * np.clip(rho[-1], 0, 1) ** 2, shade)

    off_axis = np.clip(off_axis, 0.06, 2.75).astype(np.float32)
    far = (wall / np.sin(off_axis)).astype(np.float32)
    texel = np.float32(TILE / (2 * np.pi))
    v = np.asarray(far * np.cos(off_axis) * texel, np.float32)
    facing = _facing(rays, far)
    stride = _least(v, 0) ** 2 + _least(v, 1) ** 2
    lamp = rng.normal(0, 0.16, 2).astype(np.float32)
    return Tube(
        u=np.asarray(around * texel, np.float32),
        v=v,
        light=np.asarray(
            shade * (1 + lamp[0] * rays[0] + lamp[1] * rays[1]) * (0.4 + 0.6 * facing) / far**1.2, np.float32
        ),
        facing=facing,
        detail=np.asarray(1 / (1 + stride * np.float32((size / 128) ** 2 / 25)), np.float32),
        open=np.asarray(1 - 0.95 * within, np.float32),
    )


def _rays(x: NDArray[np.floating], y: NDArray[np.floating], field_of_view: float) -> Field:
    """Unit line of sight of points in the picture, shape (3, …): as wide-angle lenses do, angle grows with radius."""
    radius = np.hypot(x, y)
    tilt = radius * np.float32(field_of_view)
    side = np.sin(tilt) / np.maximum(radius, 1e-6)
    return np.asarray(np.stack([x * side, y * side, np.cos(tilt)]), np.float32)


def _about(rays: Field, centre: NDArray[np.float64], field_of_view: float) -> tuple[Field, Field]:
    """Angle of each ray off the direction of a point in the picture, and around it."""
    forward = _rays(centre[:1], centre[1:], field_of_view)[:, 0]
    across = np.array([forward[2], 0, -forward[0]], np.float32)
    across /= np.linalg.norm(across)
    frame = np.stack([forward, across, np.cross(forward, across)])
    ahead, a, b = np.tensordot(frame, rays, axes=1)
    return np.arctan2(np.hypot(a, b), ahead), np.arctan2(b, a)


def _least(field: Field, axis: int) -> Field:
    """The smaller of the two one-sided differences: across a fold's edge, the one that stays on its side."""
    step = np.diff(field, axis=axis)
    last = np.take(step, [-1], axis=axis)
    first = np.take(step, [0], axis=axis)
    after, before = np.concatenate([step, last], axis=axis), np.concatenate([first, step], axis=axis)
    return np.where(np.abs(after) < np.abs(before), after, before)


def _facing(rays: Field, far: Field) -> Field:
    """Cosine between the wall's normal and the line of sight."""
    across = np.gradient(rays, axis=2) * far + rays * _least(far, 1)
    down = np.gradient(rays, axis=1) * far + rays * _least(far, 0)
    normal = np.cross(across, down, axis=0)
    cosine = np.abs((normal * rays).sum(axis=0)) / (np.sqrt((normal**2).sum(axis=0)) + 1e-12)
    return np.asarray(ndimage.gaussian_filter(cosine, rays.shape[1] / 85), np.float32)
