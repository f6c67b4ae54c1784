"""Annotators that know how severe each image is, and answer from that."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from steelyard.annotators.virtual import check_above, check_share
from steelyard.arrays import Floats
from steelyard.errors import PairError
from steelyard.pairs import check_pairs

__all__ = ["NoisyAnnotator", "PerfectAnnotator", "TieProneAnnotator"]


class PerfectAnnotator:
    """Knows the severities: C_ij from the grades (PAPER.md, evaluation protocol).

    >>> PerfectAnnotator([0, 1, 1]).answer([(1, 0), (1, 2), (0, 2)], np.random.default_rng(0)).tolist()
    [1.0, 0.5, 0.0]

    Args:
        values: grades or latent severities by catalog row, shape (N,); an image with NaN cannot be judged.
    """

    def __init__(self, values: ArrayLike) -> None:
        self.values = _check_values(values)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """1 where the first is greater, 0.5 where they are equal, 0 where the second is."""
        difference = _differences(self.values, pairs)
        return np.asarray(np.where(np.isnan(difference), np.nan, (np.sign(difference) + 1.0) / 2.0))


class NoisyAnnotator:
    """Errs by P2: P(first) = σ(difference / scale). Never says "equal".

    Args:
        values: latent severities by catalog row, shape (N,).
        scale: difference at which the more severe image is found in 73% of cases; the greater, the noisier.
        lapse: share of answers given without looking.

    Raises:
        PairError: the scale is not above 0, or the lapse no share.
    """

    def __init__(self, values: ArrayLike, scale: float = 0.5, lapse: float = 0.0) -> None:
        self.values = _check_values(values)
        self.scale = check_above("scale", scale, 0.0)
        self.lapse = check_share("lapse", lapse)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw answers from the logistic model."""
        difference = _differences(self.values, pairs)
        chance = self.lapse / 2.0 + (1.0 - self.lapse) * expit(difference / self.scale)
        drawn = (rng.random(len(difference)) < chance).astype(np.float64)
        return np.asarray(np.where(np.isnan(difference), np.nan, drawn))


class TieProneAnnotator:
    """Says "equal" where the two are close, by Rao and Kupper: P(first) = σ((difference − threshold) / scale).

    Args:
        values: latent severities by catalog row, shape (N,).
        threshold: difference below which "equal" becomes likely.
        scale: softness of that border; 0 makes it sharp.

    Raises:
        PairError: threshold or scale is below 0.
    """

    def __init__(self, values: ArrayLike, threshold: float = 0.5, scale: float = 0.25) -> None:
        self.values = _check_values(values)
        self.threshold = check_above("threshold", threshold, 0.0, equal=True)
        self.scale = check_above("scale", scale, 0.0, equal=True)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw one of the three answers."""
        difference = _differences(self.values, pairs)
        if self.scale == 0.0:
            sharp = np.where(np.abs(difference) <= self.threshold, 0.5, (np.sign(difference) + 1.0) / 2.0)
            return np.asarray(np.where(np.isnan(difference), np.nan, sharp))
        first = expit((difference - self.threshold) / self.scale)
        second = expit((-difference - self.threshold) / self.scale)
        luck = rng.random(len(difference))
        drawn = np.where(luck < first, 1.0, np.where(luck >= 1.0 - second, 0.0, 0.5))
        return np.asarray(np.where(np.isnan(difference), np.nan, drawn))


def _check_values(values: ArrayLike) -> Floats:
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1:
        raise PairError(f"an annotator knows one severity per image, shape (N,), not {checked.shape}")
    return checked


def _differences(values: Floats, pairs: ArrayLike) -> Floats:
    rows = check_pairs(pairs, len(values), same=True)
    return np.asarray(values[rows[:, 0]] - values[rows[:, 1]])
