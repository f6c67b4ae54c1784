"""One picture of the colon's lining, drawn from a severity: tissue and camera.

Tissue is a scattering layer under which blood absorbs green and blue, so that redness, vessels and bleeding are one
quantity; fibrin, mucus and stool lie on top. All texture is read in wall coordinates, hence the same seed shows the
same scene at every size.

What severity does (the Mayo endoscopic subscore, made continuous): the vascular pattern fades (0.2 → 1.7), erythema
spreads, the surface turns granular, erosions with fibrin and red haloes appear (from about 1.4), pinpoint and later
spontaneous bleeding (from about 1.6), ulcers (from about 2.3), and folds flatten. What it does *not* decide: the
patient's hue, blood and folds, the camera's cast, exposure and window, highlights, mucus, stool and blur.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from steelyard.images.texture import BANK, Field, bank, read, smoothstep
from steelyard.images.tube import Tube, look

__all__ = ["Traits", "draw_traits", "render"]

SCATTER = np.array([1.00, 0.86, 0.66], np.float32)  # what comes back from tissue without blood
BLOOD = np.array([0.20, 1.00, 1.08], np.float32)  # absorption of haemoglobin in red, green, blue
BILE = np.array([0.02, 0.20, 1.10], np.float32)
FIBRIN = np.array([0.98, 0.88, 0.60], np.float32)
MUCUS = np.array([0.95, 0.88, 0.72], np.float32)
STOOL = np.array([0.66, 0.46, 0.10], np.float32)


@dataclass(frozen=True)
class Traits:
    """What a patient's pictures have in common, whatever their severity.

    Attributes:
        blood: haemoglobin of the healthy lining – how red this patient is when well.
        bile: yellow stain of the fluid film.
        vessels: contrast of the vascular pattern when healthy.
        texture: strength of the normal fine relief.
        lean: how far each sign runs ahead of the severity: vessels, redness, grain, erosion, bleeding.
        cast: gain of the camera in red, green, blue.
        gamma: of the processor.
        exposure: light in general, in stops.
        sharpness: unsharp mask of the processor.
        noise: of the sensor.
        window: `octagon`, `round` or `square`.
        inset: how far the window is cut, 0 … 1.
        field_of_view: across the picture, in radians.
        folds: folds in a view down the lumen.
        triangular: how far from round the folds are.
        crest: how far the folds stand out.
    """

    blood: float
    bile: float
    vessels: float
    texture: float
    lean: NDArray[np.float64]
    cast: Field
    gamma: float
    exposure: float
    sharpness: float
    noise: float
    window: str
    inset: float
    field_of_view: float
    folds: int
    triangular: float
    crest: float


def draw_traits(rng: np.random.Generator) -> Traits:
    """A patient, and the endoscope used on the day."""
    warmth = rng.normal()
    cast = np.exp([0.04 * warmth, 0.03 * rng.normal(), -0.15 * warmth + 0.06 * rng.normal()])
    return Traits(
        blood=float(np.clip(np.exp(rng.normal(-0.06, 0.20)), 0.55, 1.6)),
        bile=float(rng.gamma(1.2, 0.12)),
        vessels=float(rng.uniform(0.55, 1.35)),
        texture=float(rng.uniform(0.3, 2.0)),
        lean=rng.normal(0, 0.25, 5),
        cast=cast.astype(np.float32),
        gamma=float(rng.uniform(1.3, 1.65)),
        exposure=float(rng.normal(0, 0.25)),
        sharpness=float(rng.uniform(0.0, 0.9)),
        noise=float(rng.uniform(0.003, 0.012)),
        window=str(rng.choice(["octagon", "octagon", "round", "square"])),
        inset=float(rng.uniform()),
        field_of_view=float(rng.uniform(1.9, 2.45)),
        folds=int(rng.integers(2, 5)),
        triangular=float(rng.uniform(0.02, 0.14)),
        crest=float(rng.uniform(0.12, 0.28)),
    )


def render(severity: float, traits: Traits, rng: np.random.Generator, size: int = 128) -> NDArray[np.uint8]:
    """Draw one picture.

    Args:
        severity: latent severity, from 0 (healthy) to about 3.6 (worst).
        traits: the patient and the camera.
        rng: everything else about this picture.
        size: side in pixels.

    Returns:
        RGB, shape (size, size, 3).
    """
    swollen = float(smoothstep(severity, 0.8, 3.0))
    tube = look(
        size,
        field_of_view=traits.field_of_view,
        folds=traits.folds + int(rng.integers(0, 2)),
        triangular=traits.triangular,
        crest=traits.crest * (1 - 0.5 * swollen),
        rng=rng,
    )
    albedo, relief, wet = _tissue(severity, traits, tube, rng)

    slope_x, slope_y = (np.gradient(relief, axis=a) * np.float32(size / 128) for a in (1, 0))
    lamp = rng.uniform(0, 2 * np.pi)
    shading = np.clip(1 + slope_x * np.float32(np.cos(lamp)) + slope_y * np.float32(np.sin(lamp)), 0.4, 1.7)
    window = _window(size, traits)
    # Exposure is automatic, so that brightness says nothing about the tissue.
    bright = float(np.quantile((tube.light * albedo.mean(axis=2))[window > 0.5], 0.70))
    stops = traits.exposure + 0.2 * rng.normal()
    light = tube.light * np.float32(0.50 * 2**stops / bright)
    picture = albedo * (light * shading)[..., None] + (wet * np.minimum(2.5 * light, 1.5))[..., None]
    return _photograph(picture, window, traits, rng)


def _tissue(
    severity: float, traits: Traits, tube: Tube, rng: np.random.Generator
) -> tuple[Field, Field, Field]:
    """Colour (size, size, 3), relief and highlights (size, size) of the wall in sight."""
    tiles = bank()

    def some(kind: Field, zoom: int = 1) -> Field:
        return read(kind[int(rng.integers(BANK))], tube.u, tube.v, rng, zoom)

    (vessels,), (spots,), (flecks,) = some(tiles.vessels), some(tiles.spots), some(tiles.spots)
    (points,) = some(tiles.spots, zoom=2)
    grain, ripple, wave, patch = some(tiles.noise)
    grain_2, ripple_2, wave_2, patch_2 = some(tiles.noise)
    lean = traits.lean + rng.normal(0, 0.22, 5)
    vessel_s, red_s, grain_s, erosion_s, bleed_s = (severity + float(ahead) for ahead in lean)
    # Signs without disease: marks of suction and biopsy, single aphthae.
    bleed_s += float(rng.uniform(0.4, 1.2)) if rng.random() < 0.12 else 0.0
    erosion_s += float(rng.uniform(0.3, 0.9)) if rng.random() < 0.08 else 0.0
    local = 0.32 * patch + 0.12 * wave  # inflammation is patchy: here further on, there behind

    # Vascular pattern and erythema.
    clear = 1 - smoothstep(vessel_s + local, 0.15, 1.75)
    seen = traits.vessels * vessels * clear * (0.3 + 0.7 * tube.detail)
    erythema = 0.85 * smoothstep(red_s + 1.5 * local, 0.2, 2.8)
    mottled = 0.13 * float(smoothstep(red_s, 0.6, 2.2)) * (grain + ripple) * tube.detail
    blood = traits.blood * (1 + 0.09 * patch_2 + 0.04 * wave_2) + 1.05 * seen + erythema + mottled

    # Erosions: small, fibrin in the middle, a red halo around.
    level = float(np.interp(erosion_s, [1.2, 1.6, 2.2, 2.8, 3.6], [1.40, 0.90, 0.66, 0.52, 0.42]))
    ragged = spots * (1 + 0.25 * ripple_2 + 0.15 * grain) + 0.05 * wave
    erosion, halo = smoothstep(ragged, level, level + 0.25), smoothstep(ragged, level - 0.30, level)

    # Ulcers: large, irregular, by the share of the wall that they take.
    share = float(np.interp(severity + 0.4 * float(lean[3]), [2.3, 2.6, 3.0, 3.6], [0, 0.03, 0.11, 0.30]))
    bed = patch_2 + 0.55 * wave + 0.32 * ripple_2 + 0.16 * grain_2
    edge = float(np.quantile(bed, 1 - share)) if share > 0 else 99.0
    ulcer, rim = smoothstep(bed, edge - 0.15, edge + 0.55), smoothstep(bed, edge - 0.5, edge)

    # Bleeding: pinpoint on touch, then pools that run.
    level = float(np.interp(bleed_s, [1.4, 1.8, 2.4, 3.0, 3.6], [1.40, 0.93, 0.72, 0.58, 0.50]))
    bleeding = smoothstep(points * (1 + 0.3 * ripple), level, level + 0.25)
    share = float(np.interp(severity + 0.4 * float(lean[4]), [2.4, 2.8, 3.2, 3.6], [0, 0.03, 0.10, 0.20]))
    flow = patch + 0.6 * wave_2 + 0.25 * ripple
    edge = float(np.quantile(flow, 1 - share)) if share > 0 else 99.0
    pool = smoothstep(flow, edge - 0.1, edge + 0.9)

    blood = blood + 0.40 * halo + 0.45 * rim + 1.3 * bleeding + 3.2 * pool
    bile = traits.bile * (1 + 0.2 * patch_2) + np.float32(rng.gamma(1.0, 0.05))
    colour = SCATTER * np.exp(
        -np.maximum(blood, 0.1)[..., None] * BLOOD - np.maximum(bile, 0)[..., None] * BILE
    )
    thick = np.clip(0.78 + 0.14 * wave_2 + 0.08 * ripple, 0.3, 0.95)
    fibrin = thick * np.maximum(erosion, ulcer) * (1 - 0.9 * pool) * (1 - 0.7 * bleeding)
    colour = _cover(colour, FIBRIN * (1.0 + 0.07 * wave_2 + 0.05 * ripple)[..., None], fibrin)

    # Mucus and stool lie on every grade, not unlike fibrin – but without a halo.
    lie, dirt = float(rng.beta(0.7, 1.5)), STOOL if rng.random() < 0.6 else MUCUS
    level = 1.15 - 0.5 * lie
    scraps = smoothstep(flecks * (1 + 0.2 * ripple_2) + 0.08 * wave_2, level, level + 0.15)
    colour = _cover(colour, dirt * (0.9 + 0.08 * ripple)[..., None], 0.8 * scraps)

    # Relief bends light: fine grain of an inflamed surface, swollen rims, sunken ulcers.
    granular = 0.18 * traits.texture + 0.8 * float(smoothstep(grain_s, 0.7, 2.5))
    relief = granular * (0.16 * grain + 0.30 * ripple) * tube.detail * (1 - 0.6 * ulcer)
    relief += 0.35 * wave * tube.detail + 0.5 * (rim - ulcer) + 0.25 * halo + 0.2 * erosion + 0.3 * scraps
    wet = _highlights(tube, ripple_2 + (0.3 + granular) * 0.8 * grain_2, wave_2, rng)
    return colour, np.asarray(relief, np.float32), wet


def _cover(under: Field, over: Field, alpha: Field) -> Field:
    return np.asarray(under + (over - under) * alpha[..., None], np.float32)


def _highlights(tube: Tube, ripple: Field, wave: Field, rng: np.random.Generator) -> Field:
    """Mirror images of the lamp in the wet film: crisp, in clusters, where the wall faces the lens."""
    amount = rng.uniform(0.0, 1.0)
    cluster = smoothstep(wave, 1.1 - 0.9 * amount, 2.2) * smoothstep(tube.facing, 0.45, 0.95)
    glint = smoothstep(ripple * cluster, 0.95, 1.2) * tube.open
    bloom = ndimage.gaussian_filter(glint, glint.shape[0] / 60)
    return np.asarray(1.1 * glint + 0.25 * bloom, np.float32)


def _window(size: int, traits: Traits) -> Field:
    """The endoscope's window: 1 inside, 0 outside."""
    axis = np.abs((np.arange(size, dtype=np.float32) + 0.5) / size - 0.5)
    x, y = axis[None, :], axis[:, None]
    if traits.window == "octagon":
        cut = 0.72 + 0.12 * traits.inset
        inside = np.minimum(0.497 - np.maximum(x, y), (cut - x - y) / np.sqrt(2))
    elif traits.window == "round":
        inside = np.minimum(0.497 - np.maximum(x, y), 0.50 + 0.06 * traits.inset - np.hypot(x, y))
    else:
        inside = 0.087 - np.hypot(np.maximum(x - 0.41, 0), np.maximum(y - 0.41, 0))
    return np.asarray(np.clip(inside * size + 0.5, 0, 1), np.float32)


def _photograph(picture: Field, window: Field, traits: Traits, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Lens, sensor and processor: vignette, blur, cast, tone, sharpening, noise, window."""
    size = picture.shape[0]
    axis = ((np.arange(size, dtype=np.float32) + 0.5) / size - 0.5) ** 2
    vignette = 1 - np.float32(rng.uniform(0.2, 1.1)) * (axis[None, :] + axis[:, None])
    picture = _soft(
        _moved(picture * vignette[..., None] * traits.cast, rng), 0.55
    )  # 0.55 pixel: the lens itself
    tone = (1 - np.exp(-1.6 * np.maximum(picture, 0))) ** np.float32(1 / traits.gamma)
    if traits.sharpness > 0.05:
        tone = tone + np.float32(traits.sharpness) * (tone - _soft(tone, size / 110))
    tone = tone + np.float32(traits.noise) * rng.standard_normal(tone.shape, np.float32)
    return np.asarray(np.clip(tone, 0, 1) * window[..., None] * 255 + 0.5, np.uint8)


def _moved(picture: Field, rng: np.random.Generator) -> Field:
    """Most pictures are sharp; some are out of focus, some were taken while the endoscope moved."""
    kind, amount = rng.random(), picture.shape[0] / 128 * min(rng.gamma(2.0, 0.4), 2.0)
    if kind < 0.20:
        return _soft(picture, amount)
    if kind < 0.32:
        turn = rng.uniform(0, 2 * np.pi)
        steps = [(s * np.sin(turn), s * np.cos(turn), 0) for s in np.linspace(-1.6, 1.6, 5) * amount]
        shifted = [ndimage.shift(picture, step, order=1, mode="nearest", prefilter=False) for step in steps]
        return np.asarray(sum(shifted) / np.float32(len(steps)), np.float32)
    return picture


def _soft(picture: Field, sigma: float) -> Field:
    return np.asarray(ndimage.gaussian_filter(picture, (sigma, sigma, 0), truncate=3.0), np.float32)
