"""Scale-separation reliability (SSR): how much of what separates the scores is real.

    SSR = Var(scores) / (Var(scores) + mean squared uncertainty)

of scores from the answers alone: 0 where they are noise, 1 where they are known without error; the share of the true scores'
variance that the estimated ones explain. Only of answers about pairs drawn at random: a strategy that asks about images whose
scores it takes for close pulls estimates apart, and SSR of such answers is too high whatever the people do (Bramley, 2015).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from steelyard.ranker.answers_alone import AnswersAlone, fit_alone

__all__ = ["FEWEST", "Separation", "separation"]

FEWEST = 30
"""Random answers below which nothing is said."""
_STEP = 0.15
_Z95 = 1.959963984540054


class Separation(NamedTuple):
    """Reliability of the scale.

    Attributes:
        value: SSR.
        low: lower end of its 95% interval.
        high: upper end.
        answers: random answers that it rests on.
        images: images that they are about.
    """

    value: float
    low: float
    high: float
    answers: int
    images: int


def separation(
    pairs: ArrayLike, answers: ArrayLike, images: int, rng: np.random.Generator
) -> Separation | None:
    """SSR of the images that were asked about; None with fewer than 30 answers.

    The interval is for the squared correlation of these images' estimated and true scores. It follows how far σ, the spread of
    the true scores, is known (the curvature of the marginal likelihood in log σ), and that these images are a sample (Fisher's z).

    Args:
        pairs: rows (i, j) of answers about pairs that were drawn at random, shape (n, 2).
        answers: P1, shape (n,).
        images: N.
        rng: as in `fit_alone`.
    """
    index, given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2), np.asarray(answers, dtype=np.float64)
    if len(given) < FEWEST:
        return None
    middle = fit_alone(index, given, images, rng=rng)

    def at(log_sigma: float) -> AnswersAlone:
        sigma = float(np.exp(log_sigma))
        return fit_alone(index, given, images, rng=rng, prior=sigma, tau=middle.tau)

    here = np.log(middle.prior)
    bend = (_slope(at(here - _STEP)) - _slope(at(here + _STEP))) / (2 * _STEP)
    half = _Z95 / np.sqrt(max(bend, 1.0))
    low, high = (
        reliability(at(float(np.clip(x, np.log(0.05), np.log(8.0))))) for x in (here - half, here + half)
    )
    value, n = reliability(middle), len(middle.asked)
    z = _fisher(value)
    sample = _Z95 / np.sqrt(max(n - 3, 1))
    down, up = np.hypot(z - _fisher(min(low, value)), sample), np.hypot(_fisher(max(high, value)) - z, sample)
    ends = np.square(np.tanh([max(z - down, 0.0), z + up]))
    return Separation(value, float(ends[0]), float(ends[1]), len(given), n)


def reliability(fit: AnswersAlone) -> float:
    """SSR of scores that are there, over the images with answers."""
    real = float(fit.score[fit.asked].var())
    return real / (real + float(np.square(fit.deviation[fit.asked]).mean()))


def _fisher(share: float) -> float:
    return float(np.arctanh(np.sqrt(np.clip(share, 0.0, 1 - 1e-9))))


def _slope(fit: AnswersAlone) -> float:
    """Derivative of the log marginal likelihood in log σ."""
    share = np.square(fit.deviation[fit.asked] / fit.prior)
    return float(np.square(fit.score[fit.asked] / fit.prior).sum() - (1 - share).sum())
