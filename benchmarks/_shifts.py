"""Images that no longer are what a study knows: damaged, recoloured, blurred, or taken with another camera."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from steelyard.images.mucosa import Traits, draw_traits, render
from steelyard.images.synthetic import severities

Picture = NDArray[np.uint8]


def blurred(sigma: float) -> Callable[[Picture], Picture]:
    """Out of focus by so many pixels."""

    def alter(rgb: Picture) -> Picture:
        soft = ndimage.gaussian_filter(rgb.astype(np.float32), (sigma, sigma, 0), mode="nearest")
        return _bytes(soft)

    return alter


def noisy(deviation: float) -> Callable[[Picture], Picture]:
    """Grain of a poor sensor, in grey levels; the same for the same picture."""

    def alter(rgb: Picture) -> Picture:
        rng = np.random.default_rng(int(rgb.astype(np.int64).sum()))
        return _bytes(rgb + deviation * rng.standard_normal(rgb.shape))

    return alter


def gained(red: float, green: float, blue: float) -> Callable[[Picture], Picture]:
    """Another white balance, or less light."""
    return lambda rgb: _bytes(rgb * np.array([red, green, blue]))


def turned(degrees: float) -> Callable[[Picture], Picture]:
    """Every hue turned around the colour circle, luminance kept (rotation about the grey axis)."""
    c, s, third = np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 1 / 3
    a, b, d = third + (1 - third) * c, third * (1 - c) - s / np.sqrt(3), third * (1 - c) + s / np.sqrt(3)
    turn = np.array([[a, b, d], [d, a, b], [b, d, a]])
    return lambda rgb: _bytes(rgb @ turn.T)


def grey(rgb: Picture) -> Picture:
    """Another modality: no colour at all."""
    return _bytes(np.repeat((rgb @ np.array([0.299, 0.587, 0.114]))[..., None], 3, axis=2))


def squeezed(quality: int) -> Callable[[Picture], Picture]:
    """Saved as JPEG of this quality."""

    def alter(rgb: Picture) -> Picture:
        kept = io.BytesIO()
        Image.fromarray(rgb).save(kept, "JPEG", quality=quality)
        return np.asarray(Image.open(kept).convert("RGB"))

    return alter


ALTERED: dict[str, Callable[[Picture], Picture]] = {
    "blur σ = 0.5 px": blurred(0.5),
    "blur σ = 1 px": blurred(1),
    "blur σ = 2 px": blurred(2),
    "blur σ = 4 px": blurred(4),
    "white balance 1.15 : 1 : 0.87": gained(1.15, 1, 0.87),
    "white balance 0.7 : 1 : 1.4": gained(0.7, 1, 1.4),
    "hue + 30°": turned(30),
    "hue + 90°": turned(90),
    "grey": grey,
    "two stops darker": gained(0.4, 0.4, 0.4),  # 2^(−2/1.5): files are not linear in light
    "noise 10": noisy(10),
    "noise 25": noisy(25),
    "noise 50": noisy(50),
    "JPEG quality 30": squeezed(30),
    "JPEG quality 10": squeezed(10),
}
"""What is done to images of the same domain, from hardly to heavily."""


def _cold(traits: Traits) -> Traits:
    return replace(traits, cast=np.array([0.75, 1.05, 1.45], np.float32))


def _harsh(traits: Traits) -> Traits:
    return replace(traits, sharpness=2.5, gamma=1.0)


def _grainy(traits: Traits) -> Traits:
    return replace(traits, noise=0.06)


def _wide(traits: Traits) -> Traits:
    return replace(traits, field_of_view=3.0, window="round", inset=0.0)


def _blue(traits: Traits) -> Traits:
    return replace(traits, cast=np.array([0.45, 1.0, 1.9], np.float32))


CAMERAS: dict[str, Callable[[Traits], Traits]] = {
    "the same cameras": lambda traits: traits,
    "wide angle": _wide,
    "cold light": _cold,
    "blue light": _blue,
    "hard tone and sharpening": _harsh,
    "old sensor": _grainy,
}
"""Cameras of drawn images; all but the first lie outside the range that `draw_traits` draws from."""


def drawn_with(
    camera: Callable[[Traits], Traits], n: int, *, size: int, seed: int
) -> tuple[Picture, NDArray[np.int64], NDArray[np.float64]]:
    """Drawn images of new patients, ten or so each, whose they are and how severe; the same scenes for every camera."""
    severity, _, patient = severities(n, seed=seed)
    pictures = [
        render(
            float(severity[i]),
            camera(draw_traits(np.random.default_rng([seed, 1, int(patient[i])]))),
            np.random.default_rng([seed, 2, i]),
            size,
        )
        for i in range(n)
    ]
    return np.stack(pictures), patient, severity


def _bytes(values: NDArray[np.floating]) -> Picture:
    return np.clip(np.round(values), 0, 255).astype(np.uint8)
