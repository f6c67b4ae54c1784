"""How many unseen pairs are ordered right? A model-assisted estimate: the model's own expectation, corrected by random pairs.

What is estimated: draw a pair of the study's images at random, ask one of the people who answered random pairs; if that person
decides for a side, how often does the newest model order the pair alike? Ties are left out.

Every answered pair is predicted as if nobody had answered it (`left_out.py`); answers that came after the model are predicted
plainly. The margin of a prediction is |Δ| in deviations. Then

1. pairs that a strategy chose teach how margins turn into decided and right answers (two logistic curves);
2. the curves, averaged over random pairs of the pool that nobody need answer, give an expectation θ₀. It is off by the error of
   the curves and because chosen pairs differ from others of the same margin, by `TRANSFER`;
3. pairs that were drawn at random measure how far it is off (the difference estimator), each counted for what it is worth.

With no chosen pairs this is a plain difference estimate, with many random ones they overrule everything else. docs/statistics.md
has derivation and simulations (`benchmarks/coverage.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.evaluate.shares import share_interval
from steelyard.ranker.left_out import without_own_answers
from steelyard.ranker.likelihood import sigmoid

__all__ = [
    "ENOUGH",
    "NOTHING",
    "TRANSFER",
    "Accuracy",
    "Judged",
    "estimate_accuracy",
    "random_curve",
    "share_interval",
    "share_right",
]

ENOUGH = 30  # random answers below which a model fitted on them alone says next to nothing
TRANSFER = 0.03
"""Deviation of what left-out pairs teach from what holds for pairs of the pool, in accuracy. Measured on Retina, drawn and colitis images:
an adaptive choice has asked less about what a left-out answer already told, and more so the surer the answers are."""

_WIDEST = 0.15  # an interval of more than ± 15 points says nothing that is worth a number
_FEWEST = 5  # random pairs, without which nobody has looked whether the expectation is right
_SHARED = 100.0  # of n answers about the same images, learnt by one model, the curves' variance is 1 + this/n times as large
_FEW = 3.0  # n answers may all agree with a wrong curve, which then looks sharp: this/n more deviation
_TOGETHER = 25.0  # the same for the noise of random pairs
_WORTH = 10.0  # answers that the expected noise of a random pair is worth, against the noise seen


class Accuracy(NamedTuple):
    """Share of unseen pairs that are ordered as people order them; NaN where nothing can be said yet.

    Attributes:
        estimate: the share.
        low: lower end of the 95% interval.
        high: upper end.
        pairs: random pairs that it rests on, ties left out.
    """

    estimate: float
    low: float
    high: float
    pairs: int


NOTHING = Accuracy(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Judged:
    """Answered pairs, each against a prediction that knows nothing of its answers; all of shape (m,).

    Attributes:
        margin: |Δ| in standard deviations.
        decided: share of the pair's answers that were for a side.
        right: share of the pair's answers that were for the side predicted; at most `decided`.
        random: whether the pair was drawn at random.
    """

    margin: Floats
    decided: Floats
    right: Floats
    random: NDArray[np.bool_]


def estimate_accuracy(judged: Judged, pool_margin: Floats) -> Accuracy:
    """The estimate and its 95% interval.

    Args:
        judged: what was answered.
        pool_margin: margins of pairs drawn at random from the pool, answered or not, shape (k,).
    """
    random = judged.random
    pairs = int(np.ceil(judged.decided[random]).sum())
    if pairs < _FEWEST or not len(pool_margin):
        return NOTHING._replace(pairs=pairs)
    chosen = ~random
    # Random pairs help to draw the curves. How well the curves are known is reckoned without them: they count below.
    curves = _Curves.fit(judged.margin, judged.decided, judged.right)
    alone = _Curves.fit(judged.margin[chosen], judged.decided[chosen], judged.right[chosen])
    expected = curves.expectation(pool_margin)[0]
    spread = alone.expectation(pool_margin)[1]
    offset, noise = _difference(judged, curves, pool_margin, expected)
    n = max(1, int(chosen.sum()))
    prior = spread**2 * (1 + _SHARED / n) + TRANSFER**2 + (_FEW / n) ** 2
    weight = prior / (prior + noise)
    estimate = float(np.clip(expected + weight * offset, 0.005, 0.995))
    deviation = math.sqrt(weight * noise)
    # Wilson's interval for as many answers as would leave this deviation (n that were all right leave 1/n).
    low, high = share_interval(estimate, max(estimate * (1 - estimate) / deviation**2, 1 / deviation))
    if high - low > 2 * _WIDEST:
        return NOTHING._replace(pairs=pairs)
    return Accuracy(estimate, low, high, pairs)


@dataclass(frozen=True)
class _Curves:
    """P(decided | margin) = σ(c₀ + c₁·margin) and P(right | decided, margin) = σ(b·margin).

    Priors: b = 1 ± 1, c₀ = 0 ± 2, c₁ = 1 ± 1.
    """

    decided: Floats
    decided_covariance: Floats
    right: float
    right_variance: float

    @classmethod
    def fit(cls, margin: Floats, decided: Floats, right: Floats) -> _Curves:
        # A pair counts once, however often it was answered: further answers need not tell anything new.
        b, b_covariance = _logistic(margin[:, None], right, decided - right, np.ones(1), np.ones(1))
        if (decided == 1.0).all():  # nobody ever said "equal"
            return cls(np.array([np.inf, 0.0]), np.zeros((2, 2)), float(b[0]), float(b_covariance[0, 0]))
        rows = np.column_stack([np.ones(len(margin)), margin])
        c, c_covariance = _logistic(rows, decided, 1.0 - decided, np.array([0.0, 1.0]), np.array([0.25, 1.0]))
        return cls(c, c_covariance, float(b[0]), float(b_covariance[0, 0]))

    def at(self, margin: Floats) -> tuple[Floats, Floats]:
        """P(decided) and P(right | decided)."""
        decided = (
            np.ones(len(margin))
            if np.isinf(self.decided[0])
            else sigmoid(self.decided[0] + self.decided[1] * margin)
        )
        return decided, sigmoid(self.right * margin)

    def expectation(self, margin: Floats) -> tuple[float, float]:
        """Share right among the decided over these margins, and its deviation by the error of the curves."""
        decided, right = self.at(margin)
        total = float(decided.sum())
        share = float(decided @ right) / total
        by_right = float(decided @ (right * (1 - right) * margin)) / total
        pull = decided * (1 - decided) * (right - share)
        by_decided = np.array([pull.sum(), pull @ margin]) / total
        variance = by_right**2 * self.right_variance + by_decided @ self.decided_covariance @ by_decided
        return share, math.sqrt(float(variance))


def _difference(judged: Judged, curves: _Curves, pool_margin: Floats, expected: float) -> tuple[float, float]:
    """How far random pairs are above the expectation, and the variance of that.

    The share is a ratio, right among decided; a pair's part in it is decided·(right − θ₀), seen less expected.
    """
    random = judged.random
    n = int(random.sum())
    decided, right = curves.at(judged.margin[random])
    seen = judged.right[random] - judged.decided[random] * expected
    part = seen - decided * (right - expected)
    pool_decided, pool_right = curves.at(pool_margin)
    share = float(pool_decided.mean())
    square = pool_right * (1 - expected) ** 2 + (1 - pool_right) * expected**2
    likely = float(np.mean(pool_decided * square - (pool_decided * (pool_right - expected)) ** 2))
    variance = (_WORTH * likely + float(np.square(part - part.mean()).sum())) / (_WORTH + n - 1)
    # Were every pair right and sure to be, n of them would still not prove that the next one is.
    variance = max(variance, share**2 * n / (n + 1) ** 2)
    # Few answers have taught a model that all of them are held against: their errors are not independent.
    together = 1 + _TOGETHER / len(judged.margin)
    return float(part.mean()) / share, together * variance / n / share**2


def _logistic(
    rows: Floats, yes: Floats, no: Floats, prior: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """Bayesian logistic regression on shares of yes and no: mode and covariance, by Newton's method."""
    at = prior.copy()
    for _ in range(100):
        chance = sigmoid(rows @ at)
        bend = (rows * ((yes + no) * chance * (1 - chance))[:, None]).T @ rows + np.diag(precision)
        step = np.linalg.solve(bend, rows.T @ (yes - (yes + no) * chance) - precision * (at - prior))
        at = at + np.clip(step, -1.0, 1.0)  # from a prior near the optimum no longer step is needed
        if np.abs(step).max() < 1e-9:
            break
    return at, np.asarray(np.linalg.inv(bend), dtype=np.float64)


def share_right(differences: ArrayLike, answers: ArrayLike) -> tuple[float, float, float, int]:
    """Share of answers that the sign of the difference agrees with, and its 95% Wilson interval.

    Ties are left out, as in PAPER.md; a difference of exactly 0 counts half.

    Returns:
        estimate, low, high, number of answers; NaN where there are none.
    """
    delta, given = np.asarray(differences, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    clear = given != 0.5
    n = int(clear.sum())
    if n == 0:
        return float("nan"), float("nan"), float("nan"), 0
    right = float(np.where(delta == 0, 0.5, (delta > 0) == (given == 1))[clear].sum())
    low, high = share_interval(right / n, n)
    return right / n, low, high, n


def random_curve(
    rows: NDArray[np.floating], pairs: ArrayLike, answers: ArrayLike, *, ties: bool, most: int = 6
) -> list[tuple[int, float, float, float]]:
    """How accurate the convex head would be had nothing but random pairs been asked.

    Reserved pairs are drawn at random, so the first k of them are a small study of random choice. A head is fitted on
    those alone and asked about all of them, each answer it was fitted on left out. It is known up to as many answers as
    there are random ones, and no further: what more random pairs would have brought, nobody has asked.

    Args:
        rows: reduced features of all images, (N, D), as the study's own head has them.
        pairs: reserved pairs in the order of their answers, shape (n, 2).
        answers: P1, shape (n,).
        ties: whether a tie is an outcome of its own (Rao–Kupper).
        most: number of points.

    Returns:
        (answers, estimate, low, high) of every point; none where there are too few answers to say anything.
    """
    from steelyard.ranker.convex import ConvexHead
    from steelyard.ranker.reduction import Reduction

    index, given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2), np.asarray(answers, dtype=np.float64)
    if len(index) < ENOUGH:
        return []
    used, place = np.unique(index, return_inverse=True)
    own, place = np.asarray(rows[used], dtype=np.float64), place.reshape(-1, 2)
    same = Reduction.identity(own.shape[1])
    points, head = [], None
    for k in np.unique(np.linspace(ENOUGH / 3, len(index), most).astype(int)).tolist():
        head = ConvexHead.fit(
            own,
            place[:k],
            given[:k],
            reduction=same,
            rows=own,
            ties="rao_kupper" if ties else "half",
            start=head,
        )
        posterior = head.posterior(rows=own)
        differences = posterior.difference(place)[0]
        differences[:k] = without_own_answers(posterior, place[:k], given[:k])
        estimate, low, high, n = share_right(differences, given)
        if n:
            points.append((k, estimate, low, high))
    return points
