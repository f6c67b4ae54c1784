"""What an image looks like, in a row of numbers, whatever a ranker sees of it: for telling whether it belongs to a study.

Features say it themselves. Activations of a trunk are averaged over the picture, with their deviation, in which sharpness is.
Of pixels – for networks that are trained from pixels on – simple statistics: colour, contrast and fine detail at four scales,
and where in the frame it is bright. numpy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.ranker.blocks import gather

__all__ = ["appearance"]

_PIECE = 64  # images at a time, where each of them is a picture
_SCALES = 4
_GRID = 4
# Luminance, and two differences of colour.
_OPPONENT = np.array([[0.299, 0.587, 0.114], [0.5, -0.419, -0.081], [-0.169, -0.331, 0.5]], dtype=np.float32)
_SHARES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def appearance(inputs: NDArray[Any], rows: Rows | None = None) -> NDArray[np.float32]:
    """A row for each image, shape (n, F).

    Args:
        inputs: features (N, F), activations (N, H, W, C), or pixels (N, H, W, 3) as uint8; may be a memory map.
        rows: which images, in this order; None is all.
    """
    if inputs.ndim == 2:
        return np.asarray(inputs if rows is None else gather(inputs, rows), dtype=np.float32)
    which = np.arange(len(inputs)) if rows is None else rows
    describe = _pixels if inputs.dtype == np.uint8 else _activations
    parts = [
        describe(np.asarray(inputs[which[at : at + _PIECE]])) for at in range(0, len(which), _PIECE)
    ] or [describe(np.zeros((0, *inputs.shape[1:]), dtype=inputs.dtype))]
    return np.concatenate(parts)


def _activations(maps: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    flat = maps.reshape(len(maps), maps.shape[1] * maps.shape[2], maps.shape[3]).astype(np.float32)
    return np.concatenate([flat.mean(axis=1), flat.std(axis=1)], axis=1)


def _pixels(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    colour = pictures.astype(np.float32) @ _OPPONENT.T
    told = [np.quantile(colour, _SHARES, axis=(1, 2)).transpose(1, 0, 2).reshape(len(colour), -1)]
    flat = colour.reshape(len(colour), -1, 3)
    mean = flat.mean(axis=1, keepdims=True)
    spread = np.einsum("npa,npb->nab", flat - mean, flat - mean) / flat.shape[1]
    deviation = (
        np.sqrt(np.einsum("naa->na", spread)) + 1.0
    )  # one grey level: a flat picture has no correlation
    told += [mean[:, 0], np.log(deviation)]
    across = spread / (deviation[:, :, None] * deviation[:, None, :])
    told.append(across[:, [0, 0, 1], [1, 2, 2]])
    told.append(_grid(colour))
    for _ in range(_SCALES):
        told += [*_detail(colour)]
        colour = _halved(colour)
    return np.concatenate(told, axis=1, dtype=np.float32)


def _detail(colour: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
    """Steps between neighbours, and what is left of them after a straight line: edges, and grain; log grey levels."""
    if min(colour.shape[1:3]) < 3:  # too small a picture for this scale
        return (np.zeros((len(colour), 3), dtype=np.float32),) * 2
    across, down = np.diff(colour, axis=2), np.diff(colour, axis=1)
    step = np.abs(across).mean(axis=(1, 2)) + np.abs(down).mean(axis=(1, 2))
    bend = np.abs(np.diff(across, axis=2)).mean(axis=(1, 2)) + np.abs(np.diff(down, axis=1)).mean(axis=(1, 2))
    return np.log(step + 0.1), np.log((bend + 0.1) / (step + 0.1))


def _halved(colour: NDArray[np.float32]) -> NDArray[np.float32]:
    """Half the side, by averages of four; a picture of one pixel stays."""
    high, wide = (side // 2 * 2 for side in colour.shape[1:3])
    if not high or not wide:
        return colour
    even = colour[:, :high, :wide]
    return np.asarray((even[:, ::2, ::2] + even[:, 1::2, ::2] + even[:, ::2, 1::2] + even[:, 1::2, 1::2]) / 4)


def _grid(colour: NDArray[np.float32]) -> NDArray[np.float32]:
    """Luminance of 4 × 4 parts of the frame, against the whole."""
    light = colour[..., 0]
    rows = np.array_split(light, _GRID, axis=1)
    parts = [np.array_split(row, _GRID, axis=2) for row in rows]
    means = [part.mean(axis=(1, 2)) if part.size else np.zeros(len(light)) for row in parts for part in row]
    return np.asarray(np.stack(means, axis=1) - light.mean(axis=(1, 2))[:, None], dtype=np.float32)
