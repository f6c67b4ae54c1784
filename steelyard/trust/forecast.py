"""What would more answers bring? The learning curve ahead, from the posterior itself.

Nothing is extrapolated. The posterior says which scores are still possible, and how much each further answer would narrow them:
a future of h random pairs has the covariance S_h = (S⁻¹ + Σ c·z·zᵀ)⁻¹ with the expected curvature c. So one draws

    the truth            w* ~ N(w, S)
    the model by then    w_h given w* ~ N(w + (1 − S_h·S⁻¹)(w* − w), S_h − S_h·S⁻¹·S_h)

and counts how many pairs of the pool today's model and that one order as w* does: their difference is the gain, the draws are its
distribution. How wide the scores are spread (λ) is drawn too, by its evidence: a model of a few answers that sees no signal yet
must not conclude that there is none. docs/statistics.md says how often it was wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.ranker.blocks import gather
from steelyard.ranker.likelihood import expected_curvature, sigmoid

if TYPE_CHECKING:
    from steelyard.ranker.convex import ConvexHead

__all__ = ["FIRST_LOOK", "STEP", "Forecast", "Gain", "forecast", "horizons", "is_look", "look_count"]

FIRST_LOOK = 30
"""Answers before which nothing is forecast."""
STEP = 1.2
"""A decision is taken each time there are so many times more answers than at the last one."""

_PAIRS = 2_000  # of the pool, on which models are compared
_FUTURE = 4_000  # pairs that stand for those still to be asked
_DRAWS = 400
_SPREADS = 2.0 ** np.arange(-2, 5)  # prior deviations of a typical difference of scores
_FAINT = 5.0  # nats below the best evidence at which a spread is no longer worth a fit


@dataclass(frozen=True)
class Gain:
    """What further answers would bring.

    Attributes:
        answers: in all, by then.
        mean: expected rise of the accuracy, a share.
        deviation: of the same.
    """

    answers: int
    mean: float
    deviation: float

    def at_most(self, sure: float) -> float:
        """An upper limit that holds with this probability."""
        return self.mean + NormalDist().inv_cdf(sure) * self.deviation


@dataclass(frozen=True)
class Forecast:
    """What was forecast for a model.

    Attributes:
        answers: that it knew.
        level: its accuracy by its own lights; only differences from it are shown to people.
        gains: by number of answers, rising; empty where there is nothing ahead or the ranker makes no forecast.
    """

    answers: int
    level: float = math.nan
    gains: tuple[Gain, ...] = field(default=())

    def until(self, answers: int) -> Gain | None:
        """The gain up to so many answers, or up to the next number that was forecast; None beyond the last."""
        return next((gain for gain in self.gains if gain.answers >= answers), None)

    def fan(self, estimate: float, low: float, high: float) -> list[tuple[int, float, float, float]]:
        """(answers, accuracy, low, high) with a 95% interval, from an estimate of today's accuracy and its interval.

        Gains are carried over in log-odds: a model that is too modest about its level must not promise more than everything.
        """
        z = NormalDist().inv_cdf(0.975)
        points = [(self.answers, estimate, low, high)]
        for gain in self.gains:
            shift = _odds(self.level + gain.mean) - _odds(self.level)
            middle = 1.0 / (1.0 + math.exp(-_odds(estimate) - shift))
            up, down = (
                math.hypot(high - estimate, z * gain.deviation),
                math.hypot(estimate - low, z * gain.deviation),
            )
            points.append((gain.answers, middle, max(0.0, middle - down), min(1.0, middle + up)))
        return points

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the model's metrics."""
        return {
            "answers": self.answers,
            "level": None if math.isnan(self.level) else round(self.level, 5),
            "gains": [[g.answers, round(g.mean, 6), round(g.deviation, 6)] for g in self.gains],
        }

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, Any]) -> Forecast | None:
        """The forecast of a model; None for one that was no look, or was made before there were forecasts."""
        saved = metrics.get("forecast")
        if not isinstance(saved, Mapping):
            return None
        level = saved.get("level")
        gains = tuple(Gain(int(n), float(mean), float(sd)) for n, mean, sd in saved.get("gains", ()))
        return cls(int(saved["answers"]), math.nan if level is None else float(level), gains)


def is_look(answers: int, earlier: Iterable[Mapping[str, Any]]) -> bool:
    """Whether it is time for a decision: `STEP` times as many answers as at the last one.

    Args:
        answers: that the new model knows.
        earlier: metrics of the models before it.
    """
    last = max((f.answers for f in map(Forecast.from_metrics, earlier) if f is not None), default=0)
    return answers >= max(FIRST_LOOK, math.ceil(STEP * last))


def look_count(budget: int) -> int:
    """How many decisions there can be until the budget is used up; the error is shared out among them."""
    return (
        1 + max(0, math.floor(math.log(budget / FIRST_LOOK) / math.log(STEP) + 1e-9))
        if budget > FIRST_LOOK
        else 1
    )


def horizons(answers: int, budget: int, *, also: int = 0, most: int = 10) -> list[int]:
    """Numbers of answers to forecast for: evenly spaced in their logarithm, up to the budget; `also` so many further ones."""
    if answers >= budget:
        return []
    steps = np.geomspace(max(1, answers), budget, most + 1)[1:]
    near = {min(budget, answers + also)} if also else set()
    return sorted({n for n in (round(float(step)) for step in steps) if n > answers} | near | {budget})


def forecast(
    rows: NDArray[np.floating],
    weights: Floats,
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    ties: bool,
    until: Sequence[int],
    rng: np.random.Generator,
    pool: NDArray[np.int64] | None = None,
) -> Forecast:
    """What answers up to `until` would bring to a convex head.

    Args:
        rows: reduced features of all images, (N, D), as the head has them.
        weights: of today's head, shape (D,).
        pairs: what it learnt from, shape (n, 2).
        answers: P1, shape (n,).
        ties: whether a tie is an outcome of its own (Rao–Kupper).
        until: numbers of answers in all, beyond n.
        rng: draws pairs, truths and futures.
        pool: rows that may be asked about; all by default.
    """
    index, given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2), np.asarray(answers, dtype=np.float64)
    ahead = sorted({int(n) for n in until if n > len(index)})
    images = np.arange(len(rows)) if pool is None else pool
    if not ahead or len(images) < 2:
        return Forecast(len(index))
    seen = _differences(rows, images, _PAIRS, rng)
    future = _differences(rows, images, min(_FUTURE, 4 * (ahead[-1] - len(index)) + 200), rng)
    first = seen @ weights > 0
    levels, gains = [], []
    heads = _plausible(rows, index, given, ties=ties)
    counts = np.maximum(2, np.round(_DRAWS * np.array([share for share, _ in heads]))).astype(int)
    for (_, head), count in zip(heads, counts.tolist(), strict=True):
        level, gain = _imagined(head, seen, future, first, [n - len(index) for n in ahead], count, rng)
        levels.append(level)
        gains.append(gain)
    drawn = np.concatenate(gains, axis=1)
    # More answers never bring less, on average; the draws are few enough to say so now and then.
    means = np.maximum.accumulate(np.maximum(drawn.mean(axis=1), 0.0))
    spreads = drawn.std(axis=1)
    return Forecast(
        len(index),
        float(np.concatenate(levels).mean()),
        tuple(Gain(n, float(m), float(s)) for n, m, s in zip(ahead, means, spreads, strict=True)),
    )


def _imagined(
    head: ConvexHead,
    seen: Floats,
    future: Floats,
    first: NDArray[np.bool_],
    more: Sequence[int],
    count: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Accuracy of today's model in each drawn truth, shape (count,), and what more answers add to it, (len(more), count)."""
    mean, covariance, tau = head.weights, head.covariance, head.tau
    size = len(mean)
    truth = _root(covariance) @ rng.standard_normal((size, count))
    luck = rng.standard_normal((size, count))
    gap = seen @ (mean[:, None] + truth)
    left, right = sigmoid(gap - tau), sigmoid(-gap - tau)
    decided = (left + right).sum(axis=0)

    def share_right(says_left: NDArray[np.bool_]) -> Floats:
        return np.asarray(np.where(says_left, left, right).sum(axis=0) / decided, dtype=np.float64)

    level = share_right(first[:, None])
    precision = np.linalg.inv(covariance)
    at, spread = future @ mean, np.sqrt(np.maximum(np.einsum("nd,nd->n", future @ covariance, future), 0.0))
    # The expected curvature, averaged over what Δ may be (five points of the normal distribution).
    bend = np.mean([expected_curvature(at + spread * e, tau) for e in (-1.4, -0.6, 0.0, 0.6, 1.4)], axis=0)
    information = (future * bend[:, None]).T @ future / len(future)
    gained = []
    for n in more:
        later = np.linalg.inv(precision + n * information)
        kept = later @ precision
        known = mean[:, None] + truth - kept @ truth + _root(later - kept @ later) @ luck
        gained.append(share_right(seen @ known > 0) - level)
    return level, np.array(gained)


def _plausible(
    rows: NDArray[np.floating], pairs: NDArray[np.int64], answers: Floats, *, ties: bool
) -> list[tuple[float, ConvexHead]]:
    """Heads of several prior widths with their share of the evidence, from the middle outwards until it is faint."""
    from steelyard.ranker.convex import ConvexHead
    from steelyard.ranker.reduction import Reduction

    used, place = np.unique(pairs, return_inverse=True)
    own, place = np.asarray(gather(rows, used), dtype=np.float64), place.reshape(-1, 2)
    length = float(np.mean(np.sum(np.square(own[place[:, 0]] - own[place[:, 1]]), axis=1))) or 2.0
    same = Reduction.identity(own.shape[1])
    found: dict[int, ConvexHead] = {}

    def fit(k: int, start: ConvexHead | None) -> ConvexHead:
        found[k] = ConvexHead.fit(
            own, place, answers, reduction=same, rows=own, ties="rao_kupper" if ties else "half",
            precision=length / float(_SPREADS[k]) ** 2, start=start,
        )  # fmt: skip
        return found[k]

    middle = len(_SPREADS) // 2
    fit(middle, None)
    for step in (1, -1):
        k = middle
        while 0 <= k + step < len(_SPREADS):
            k += step
            best = max(head.log_evidence for head in found.values())
            if fit(k, found[k - step]).log_evidence < best - _FAINT:
                break
    best = max(head.log_evidence for head in found.values())
    shares = {k: math.exp(head.log_evidence - best) for k, head in found.items()}
    total = sum(shares.values())
    return [(shares[k] / total, found[k]) for k in sorted(found) if shares[k] / total > 0.005]


def _differences(
    rows: NDArray[np.floating], images: NDArray[np.int64], n: int, rng: np.random.Generator
) -> Floats:
    """φ_i − φ_j of n random pairs of different images."""
    left = rng.integers(len(images), size=n)
    right = (left + rng.integers(1, len(images), size=n)) % len(images)
    used, place = np.unique(images[np.concatenate([left, right])], return_inverse=True)
    own = np.asarray(gather(rows, used), dtype=np.float64)
    return np.asarray(own[place[:n]] - own[place[n:]], dtype=np.float64)


def _root(covariance: Floats) -> Floats:
    """A square root; directions that rounding made negative have none."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)


def _odds(share: float) -> float:
    share = min(max(share, 0.001), 0.999)
    return math.log(share / (1.0 - share))
