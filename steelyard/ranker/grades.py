"""Scores → grades: rounding (the paper's multi-task scores), ordered logistic cut points, or isotonic regression.

All three give for every image a distribution over the grades 0 … G−1, so that a grade always comes with an interval. The
grade is the median of the distribution: it changes exactly where a score passes a cut point, and it lies in its interval.

An interval is a conformal set where the scale knows how far known grades lie from where their scores fall
(`trust/grade_sets.py` measures that), and the central interval of the distribution where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.special import ndtr

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.ranker.likelihood import log_sigmoid, sigmoid

__all__ = ["GradeScale", "Grading", "Method", "round_scores"]

Method = Literal["ordinal", "isotonic", "rounding"]


class Grading(NamedTuple):
    """Grades of N images with a central interval and the probability of every grade."""

    grades: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    probabilities: Floats


def round_scores(scores: ArrayLike, n_grades: int) -> NDArray[np.int64]:
    """The nearest grade, clipped to the valid ones; a score half-way takes the higher (the more severe).

    >>> round_scores([-3.0, 1.7, 0.5, 9.0], 4).tolist()
    [0, 2, 1, 3]
    """
    return np.clip(np.floor(_finite(scores) + 0.5), 0, n_grades - 1).astype(np.int64)


@dataclass(frozen=True)
class GradeScale:
    """A fitted map from scores to grades.

    Attributes:
        method: how it was fitted.
        n_grades: G.
        cuts: `ordinal`: the G−1 cut points, in scores.
        slope: `ordinal`: how sharply one grade turns into the next at a cut point.
        knots: `isotonic`: scores of the steps.
        exceed: `isotonic`: P(grade > k) at the knots, a row for each k < G−1.
        softness: `rounding`: deviation of people's grades around exact scores; `isotonic`: typical deviation of the scores
            that it was fitted on, for `distances`.
        reach: distances between scores and known grades (see `distances`), ascending; empty where nobody has measured them.
        shares: share of unseen images that are no farther than each of them.
        groups: number of groups (patients) that these come from.
    """

    method: Method
    n_grades: int
    cuts: tuple[float, ...] = ()
    slope: float = 0.0
    knots: tuple[float, ...] = ()
    exceed: tuple[tuple[float, ...], ...] = field(default=())
    softness: float = 0.0
    reach: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    groups: int = 0

    @classmethod
    def fit(
        cls,
        scores: ArrayLike,
        grades: ArrayLike,
        n_grades: int,
        method: Method = "ordinal",
        *,
        std: ArrayLike | None = None,
    ) -> GradeScale:
        """Calibrate on images with known grades.

        `ordinal` is an ordered logistic regression P(grade ≤ k) = σ(a(t_k − score)) whose weak prior (even steps, moderate a) decides
        only what the images leave open: a grade that none of them has, or a few images that are perfectly separated.

        Args:
            scores: shape (n,).
            grades: codes 0 … G−1 of the same images, shape (n,).
            n_grades: G, which may be more than occur.
            method: `ordinal`, `isotonic`, or `rounding` (only its softness is learnt, and nothing without images).
            std: deviations of the scores, shape (n,). What they explain of the scatter of grades is not taken for softness
                of the scale, which `predict` would otherwise add to them once more.

        Raises:
            RankerError: no images, fewer than two grades, a grade out of range, or an unknown method.
        """
        if n_grades < 2:
            raise RankerError(f"a scale has 2 or more grades, not {n_grades}")
        if method == "rounding" and not np.size(scores):
            return cls("rounding", n_grades)
        x, given = _finite(scores), np.asarray(grades)
        if x.shape != given.shape or len(x) == 0:
            raise RankerError(
                f"give one grade for each score and at least one, not {given.shape} for {x.shape}"
            )
        codes = given.astype(np.int64)
        if (codes != given).any() or codes.min() < 0 or codes.max() >= n_grades:
            raise RankerError(f"grades are the codes 0 … {n_grades - 1}, not {given.min()} … {given.max()}")
        spread = _deviations(std, x)
        if method == "ordinal":
            return _ordinal(x, codes, n_grades, spread)
        if method == "isotonic":
            return _isotonic(x, codes, n_grades, spread)
        if method == "rounding":
            return _rounding(x, codes, n_grades, spread)
        raise RankerError(f"unknown method {method!r}; there are ordinal, isotonic and rounding")

    def predict(self, scores: ArrayLike, std: ArrayLike | None = None, *, level: float = 0.9) -> Grading:
        """Grades of scores.

        Args:
            scores: shape (N,).
            std: their standard deviations, shape (N,); widens the distribution. None takes the scores as exact.
            level: share of images whose grade lies in its interval `low` … `high`; with too few known grades to vouch for
                it, the interval is all grades.

        Raises:
            RankerError: a score or deviation is not finite, or the level is no probability.
        """
        x = _finite(scores)
        spread = _deviations(std, x)
        if not 0 < level < 1:
            raise RankerError(f"the level lies between 0 and 1, not {level}")
        up_to = np.column_stack([1.0 - self._exceed(x, spread), np.ones(len(x))])  # P(grade ≤ k), (N, G)
        up_to = np.maximum.accumulate(np.clip(up_to, 0.0, 1.0), axis=1)
        probabilities = np.diff(up_to, axis=1, prepend=0.0)

        def quantile(q: float) -> NDArray[np.int64]:
            # Rounding error in the sums must not push a grade over its edge.
            return np.asarray((up_to < q - 1e-9).sum(axis=1), dtype=np.int64)

        middle = round_scores(x, self.n_grades) if self.method == "rounding" else quantile(0.5)
        if self.reach:
            near = self.distances(x, spread) <= self.reach_of(level)
            low = near.argmax(axis=1)
            high = self.n_grades - 1 - near[:, ::-1].argmax(axis=1)
            none = ~near.any(axis=1)  # of a scale that has no room for any grade here
            low, high = np.where(none, middle, low), np.where(none, middle, high)
        else:
            low, high = quantile((1 - level) / 2), quantile((1 + level) / 2)
        return Grading(middle, np.minimum(low, middle), np.maximum(high, middle), probabilities)

    def distances(self, scores: ArrayLike, std: ArrayLike | None = None) -> Floats:
        """How far each score lies from the scores of each grade, shape (N, G): 0 inside, else in units of its own deviation
        and the scale's softness. It rises away from the grade in which a score falls, so that sets of near grades have no gaps.
        """
        x = _finite(scores)
        spread = _deviations(std, x)
        edges = np.concatenate([[-np.inf], self._edges(), [np.inf]])
        gap = np.maximum(np.maximum(edges[:-1] - x[:, None], x[:, None] - edges[1:]), 0.0)
        if self.method == "ordinal":
            unit = np.sqrt(1.0 / self.slope**2 + np.pi / 8.0 * np.square(spread))
        else:
            unit = np.sqrt(self.softness**2 + np.square(spread))
        return np.asarray(gap / np.where(unit > 0, unit, 1.0)[:, None], dtype=np.float64)

    def reach_of(self, level: float) -> float:
        """The distance that this share of unseen images keeps to; infinite where too few grades are known to say."""
        at = int(np.searchsorted(np.array(self.shares), level - 1e-9))
        return self.reach[at] if at < len(self.reach) else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "method": self.method, "n_grades": self.n_grades, "cuts": list(self.cuts), "slope": self.slope,
            "knots": list(self.knots), "exceed": [list(row) for row in self.exceed], "softness": self.softness,
            "reach": list(self.reach), "shares": list(self.shares), "groups": self.groups,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> GradeScale:
        """What `to_dict` gave.

        Raises:
            RankerError: a value is missing.
        """
        try:
            return cls(
                values["method"], int(values["n_grades"]), tuple(values["cuts"]), float(values["slope"]),
                tuple(values["knots"]), tuple(tuple(row) for row in values["exceed"]),
                # 0.1 knew nothing of these.
                float(values.get("softness", 0.0)), tuple(values.get("reach", ())), tuple(values.get("shares", ())),
                int(values.get("groups", 0)),
            )  # fmt: skip
        except KeyError as missing:
            raise RankerError(f"the saved scale of grades lacks {missing}; calibrate it anew") from None

    def _exceed(self, x: Floats, spread: Floats) -> Floats:
        """P(grade > k) for k < G−1, shape (N, G−1)."""
        if self.method == "ordinal":
            gap = self.slope * (x[:, None] - np.array(self.cuts))
            # The logistic over a Gaussian score: MacKay's approximation.
            return sigmoid(gap / np.sqrt(1.0 + np.pi / 8.0 * np.square(self.slope * spread))[:, None])
        if self.method == "isotonic":
            nodes, weights = np.polynomial.hermite_e.hermegauss(15)
            at = x[:, None] + spread[:, None] * nodes
            chances = [np.interp(at, self.knots, row) @ (weights / weights.sum()) for row in self.exceed]
            return np.stack(chances, axis=1)
        return _rounded_exceed(x, np.sqrt(np.square(spread) + self.softness**2), self.n_grades)

    def _edges(self) -> Floats:
        """The G−1 scores at which one grade turns into the next; infinite for a grade that no score reaches."""
        if self.method == "ordinal":
            return np.array(self.cuts)
        if self.method == "rounding":
            return np.arange(self.n_grades - 1, dtype=np.float64) + 0.5
        knots = np.array(self.knots)
        found = np.full(self.n_grades - 1, np.inf)
        for k, row in enumerate(np.array(self.exceed)):
            above = np.flatnonzero(row >= 0.5)
            if len(above) and above[0] == 0:
                found[k] = -np.inf
            elif len(above):
                i = above[0]
                part = (0.5 - row[i - 1]) / (row[i] - row[i - 1])
                found[k] = knots[i - 1] + part * (knots[i] - knots[i - 1])
        return found


def _rounded_exceed(x: Floats, spread: Floats, n_grades: int) -> Floats:
    gap = x[:, None] - (np.arange(n_grades - 1) + 0.5)
    wide = np.where(spread > 0, spread, 1.0)[:, None]
    return np.asarray(np.where(spread[:, None] > 0, ndtr(gap / wide), gap >= 0), dtype=np.float64)


def _rounding(scores: Floats, grades: NDArray[np.int64], n_grades: int, std: Floats) -> GradeScale:
    rows = np.arange(len(scores))

    def loss(softness: float) -> float:
        exceed = _rounded_exceed(scores, np.sqrt(np.square(std) + softness**2), n_grades)
        up_to = np.column_stack([np.zeros(len(scores)), 1.0 - exceed, np.ones(len(scores))])
        return -float(np.log(np.maximum(up_to[rows, grades + 1] - up_to[rows, grades], 1e-12)).sum())

    found = optimize.minimize_scalar(loss, bounds=(1e-3, float(n_grades)), method="bounded")
    return GradeScale("rounding", n_grades, softness=float(found.x))


def _ordinal(scores: Floats, grades: NDArray[np.int64], n_grades: int, std: Floats) -> GradeScale:
    center, scale = float(scores.mean()), float(scores.std()) or 1.0
    x, spread = (scores - center) / scale, std / scale
    step = 4.0 / n_grades  # even steps over two deviations to either side
    middle = (n_grades - 2) / 2

    def unfold(theta: Floats) -> tuple[float, Floats]:
        """theta = [log a, middle cut, log steps]; the cut points ascend whatever theta is."""
        steps = np.exp(theta[2:])
        cuts = np.concatenate([[0.0], np.cumsum(steps)])
        return float(np.exp(theta[0])), theta[1] + cuts - np.interp(middle, np.arange(n_grades - 1), cuts)

    def loss(theta: Floats) -> float:
        a, cuts = unfold(theta)
        # The logistic over a Gaussian score, as in `predict`.
        sharp = a / np.sqrt(1.0 + np.pi / 8.0 * np.square(a * spread))
        gap = sharp[:, None] * (np.concatenate([[-np.inf], cuts, [np.inf]]) - x[:, None])
        rows = np.arange(len(x))
        upper, lower = gap[rows, grades + 1], gap[rows, grades]
        # log(σ(u) − σ(l)) = log σ(u) + log σ(−l) + log(1 − e^{l−u}) keeps its digits in the tails.
        with np.errstate(invalid="ignore"):
            width = np.where(np.isinf(upper) | np.isinf(lower), np.inf, upper - lower)
        total = log_sigmoid(upper) + log_sigmoid(-lower) + np.log(-np.expm1(-np.maximum(width, 1e-12)))
        prior = (
            (theta[0] - np.log(3.0)) ** 2 / 2
            + theta[1] ** 2 / 18
            + np.sum((theta[2:] - np.log(step)) ** 2) / 2
        )
        return float(prior - total.sum())

    start = np.array([np.log(3.0), 0.0, *np.full(n_grades - 2, np.log(step))])
    found = optimize.minimize(
        loss, start, method="L-BFGS-B", bounds=[(-5, 6), (-20, 20), *[(-8, 4)] * (n_grades - 2)]
    )
    a, cuts = unfold(found.x)
    return GradeScale("ordinal", n_grades, cuts=tuple((center + scale * cuts).tolist()), slope=a / scale)


def _isotonic(scores: Floats, grades: NDArray[np.int64], n_grades: int, std: Floats) -> GradeScale:
    knots, position = np.unique(scores, return_inverse=True)
    count = np.bincount(position).astype(np.float64)
    # Isotonic regression keeps order, so P(grade > k) falls with k without being told.
    rows = [
        optimize.isotonic_regression(np.bincount(position, weights=grades > k) / count, weights=count).x
        for k in range(n_grades - 1)
    ]
    return GradeScale(
        "isotonic", n_grades, knots=tuple(knots.tolist()), exceed=tuple(tuple(row.tolist()) for row in rows),
        softness=float(np.sqrt(np.mean(np.square(std)))),
    )  # fmt: skip


def _deviations(std: ArrayLike | None, scores: Floats) -> Floats:
    if std is None:
        return np.zeros_like(scores)
    found = np.broadcast_to(_finite(std), scores.shape)
    if (found < 0).any():
        raise RankerError(f"deviations are 0 or more, not {found.min()}")
    return found


def _finite(values: ArrayLike) -> Floats:
    x = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(x).all():
        where = int(np.flatnonzero(~np.isfinite(x))[0])
        raise RankerError(f"score {where} is {x.reshape(-1)[where]}; scores and deviations are finite")
    return x
