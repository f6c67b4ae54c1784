"""Do the probabilities that a model states about pairs come true? With what chance alone would show beside it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats
from steelyard.evaluate.calibration import calibration
from steelyard.trust.accuracy import share_interval

__all__ = ["PairCalibration", "pair_calibration"]

_DRAWS = 200


class PairCalibration(NamedTuple):
    """Stated probabilities against answers.

    Attributes:
        stated: mean probability of the likelier side, half of a tie's included.
        observed: how often that side was chosen; a tie counts half.
        low: lower end of its 95% interval.
        high: upper end.
        ece: expected calibration error.
        ece_by_chance: its mean were every stated probability true: with few pairs it is far from 0.
        brier: mean squared error.
        pairs: how many.
    """

    stated: float
    observed: float
    low: float
    high: float
    ece: float
    ece_by_chance: float
    brier: float
    pairs: int


def pair_calibration(outcomes: Floats, answers: ArrayLike, rng: np.random.Generator) -> PairCalibration:
    """Compare what was stated with what was answered.

    Args:
        outcomes: P(first), P(tie), P(second) of pairs whose answers the model has not seen, shape (n, 3), n ≥ 1.
        answers: P1, one for each, shape (n,).
        rng: for what chance alone would show.
    """
    given = np.asarray(answers, dtype=np.float64)
    first = np.clip(outcomes[:, 0] + outcomes[:, 1] / 2, 0.0, 1.0)
    found = calibration(first, given)
    drawn = rng.random((_DRAWS, len(given)))
    could = np.where(drawn < outcomes[:, 0], 1.0, np.where(drawn < outcomes[:, 0] + outcomes[:, 1], 0.5, 0.0))
    by_chance = float(np.mean([calibration(first, one).ece for one in could]))
    right = np.where(first >= 0.5, given, 1.0 - given)
    observed = float(right.mean())
    low, high = share_interval(observed, len(given))
    return PairCalibration(
        float(np.maximum(first, 1.0 - first).mean()), observed, low, high, found.ece, by_chance, found.brier, len(given)
    )  # fmt: skip
