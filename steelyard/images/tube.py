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
    flat = rays.reshape(3, -1)
    first, *deeper = _lay_folds(max(1, folds) + 1, field_of_view, triangular, crest, rng)

    # Outside the first opening is the wall next to the lens; then inwards, fold by fold, each for what is left.
    outer = first.seen(flat, field_of_view)
    off_axis, around = outer.off.copy(), outer.turn.copy()
    beyond = np.maximum(outer.rho - 1, 0)
    wall = 1 - outer.ridge * np.exp(-beyond / 0.20)
    shade = 1 + 1.6 * outer.ridge * np.exp(-beyond / 0.12)
    within = np.flatnonzero(outer.rho < 1)
    outer, angle = outer.at(within), first.angle
    for fold in deeper:
        inner = fold.seen(flat[:, within], field_of_view)
        here = inner.rho >= 1
        pixels, edge, crown = within[here], outer.at(here), inner.at(here)
        t = np.clip((crown.rho - 1) / np.maximum(crown.rho - edge.rho, 1e-3), 0, 1)
        off_axis[pixels] = fold.angle + (angle - fold.angle) * t
        # Blended around the circle, so that the seam at ±π stays closed.
        gap = (edge.turn - crown.turn + np.float32(np.pi)) % np.float32(2 * np.pi) - np.float32(np.pi)
        around[pixels] = crown.turn + t * gap
        wall[pixels] = 1 - crown.ridge * np.exp(-t / 0.30)
        shadow = np.minimum(0.7, 2.6 * edge.ridge) * np.exp((t - 1) / 0.16)
        shade[pixels] = 1 + 1.6 * crown.ridge * np.exp(-t / 0.15) - shadow
        within, outer, angle = within[~here], inner.at(~here), fold.angle
    off_axis[within] = angle * (0.35 + 0.65 * outer.rho)
    around[within] = outer.turn
    shade[within] = 0.2 + 0.8 * outer.rho**2
    lumen = np.zeros_like(shade)
    lumen[within] = 1

    off_axis, around, wall, shade, lumen = (
        f.reshape(size, size) for f in (off_axis, around, wall, shade, lumen)
    )
    off_axis = np.clip(off_axis, 0.06, 2.75)
    far = np.asarray(wall / np.sin(off_axis), np.float32)
    texel = np.float32(TILE / (2 * np.pi))
    v = np.asarray(far * np.cos(off_axis) * texel, np.float32)
    facing = _facing(rays, far)
    stride = np.hypot(_least(v, 0), _least(v, 1)) ** 2
    lamp = rng.normal(0, 0.16, 2).astype(np.float32)
    light = (
        shade * (1 + lamp[0] * rays[0] + lamp[1] * rays[1]) * (0.4 + 0.6 * facing) / far ** np.float32(1.2)
    )
    detail = np.asarray(1 / (1 + stride * np.float32((size / 128) ** 2 / 25)), np.float32)
    return Tube(around * texel, v, light, facing, detail, 1 - np.float32(0.95) * lumen)


class _Seen(NamedTuple):
    """A fold from given lines of sight, each of shape (n,).

    Attributes:
        rho: below 1 inside its opening, above 1 outside.
        turn: angle around its centre.
        off: angle off its centre.
        ridge: how far it stands out there.
    """

    rho: Field
    turn: Field
    off: Field
    ridge: Field

    def at(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> _Seen:
        return _Seen(*(field[rows] for field in self))


class _Fold(NamedTuple):
    """An opening in the picture: where, how wide (as an angle), of which shape, and where its crescents lie."""

    centre: NDArray[np.float64]
    angle: float
    triangular: float
    corner: float
    oblong: float
    oval: float
    dent: float
    crest: float
    arcs: int
    arc: float

    def seen(self, rays: Field, field_of_view: float) -> _Seen:
        off, turn = _about(rays, self.centre, field_of_view)
        shape = 1 + self.triangular * np.cos(3 * turn - np.float32(3 * self.corner))
        shape += self.oblong * np.cos(2 * turn - np.float32(2 * self.oval))
        shape += 0.02 * np.cos(5 * turn + np.float32(self.dent))
        # A fold is a crescent between two bands of muscle: it stands out here and runs out there.
        ridge = self.crest * np.clip(0.55 + 0.75 * np.cos(self.arcs * turn - np.float32(self.arc)), 0, 1)
        return _Seen(off / (np.float32(self.angle) * shape), turn, off, ridge)


def _lay_folds(
    count: int, field_of_view: float, triangular: float, crest: float, rng: np.random.Generator
) -> list[_Fold]:
    """Openings from the widest to the narrowest, each inside the one before, drifting towards a bend."""
    # Down the lumen, or at the wall with the lumen near or beyond the edge of the picture.
    down = rng.random() < 0.6
    away = abs(rng.normal(0, 0.16)) if down else rng.uniform(0.75, 1.05) / field_of_view
    heading, bend, corner, oval = rng.uniform(0, 2 * np.pi, 4)
    centre = away * np.array([np.cos(heading), np.sin(heading)])
    radius = rng.uniform(0.24, 0.44) if down else rng.uniform(0.16, 0.40)
    squeeze, oblong = rng.uniform(0.5, 0.78), float(rng.uniform(0.0, 0.16))
    folds = []
    for _ in range(count):
        twist = 0.3 * rng.normal()
        dent, arc = rng.uniform(0, 2 * np.pi, 2).tolist()
        arcs = int(rng.integers(1, 4))
        angle = float(field_of_view * radius)
        folds.append(
            _Fold(centre, angle, triangular, corner + twist, oblong, oval + twist, dent, crest, arcs, arc)
        )
        smaller = radius * squeeze * rng.uniform(0.85, 1.1)
        bend += 0.6 * rng.normal()
        drift = rng.uniform(0.15, 0.75) * (radius - smaller)
        centre = centre + drift * np.array([np.cos(bend), np.sin(bend)])
        radius = smaller
    return folds


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
    frame = np.stack([forward, across, _cross(forward, across)])
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
    normal = _cross(across, down)
    cosine = np.abs((normal * rays).sum(axis=0)) / (np.sqrt((normal**2).sum(axis=0)) + 1e-12)
    return np.asarray(ndimage.gaussian_filter(cosine, rays.shape[1] / 85), np.float32)


def _cross(a: Field, b: Field) -> Field:
    """Cross product along the first axis; numpy's spends most of its time on finding out which axis."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
