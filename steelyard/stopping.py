"""How accurate are we, and is it enough? Estimated from pairs that were drawn at random.

Pairs that a strategy chose are harder than average, so accuracy on them says little. A share of all questions is drawn
uniformly and marked as reserved. For the convex head each reserved answer is predicted *as if it had never been given*
(leave-one-out in closed form), so that it can teach as well as test; other rankers are not shown reserved answers.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.ranker.likelihood import curvature, slope
from steelyard.ranker.posterior import Posterior

__all__ = [
    "AccuracyEstimate",
    "advise",
    "estimate_accuracy",
    "left_out_differences",
    "random_curve",
    "share_interval",
]

_ENOUGH = 30  # reserved answers below which an estimate says next to nothing
_PLATEAU = 0.01
_Z95 = 1.959963984540054  # 95% of the normal distribution are within so many standard deviations


@dataclass(frozen=True)
class AccuracyEstimate:
    """Share of unseen pairs that are ordered as people order them.

    Attributes:
        estimate: the share, None before there is anything to estimate it from.
        low: lower end of the 95% interval (Wilson).
        high: upper end.
        pairs: reserved answers that it rests on, ties left out.
        stop: whether stopping is recommended.
        sentence: estimate and advice in words.
    """

    estimate: float | None
    low: float | None
    high: float | None
    pairs: int
    stop: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def left_out_differences(posterior: Posterior, pairs: ArrayLike, answers: ArrayLike) -> NDArray[np.float64]:
    """Score differences of pairs as the Laplace fit would have had them without each one's own answer.

    Removing one answer moves the mode by one Newton step: with v = zᵀΣz, g = ℓ′ and h = −ℓ″ at the mode,
    Δ₋ = Δ − g·v / (1 − h·v).

    Args:
        posterior: of kind `laplace`, fitted with these answers among others.
        pairs: shape (n, 2).
        answers: P1, shape (n,).

    Returns:
        Differences, shape (n,).
    """
    mean, variance = posterior.difference(pairs)
    given = np.asarray(answers, dtype=np.float64)
    gradient, bend = slope(mean, given, posterior.tau), curvature(mean, given, posterior.tau)
    # h·v is this answer's leverage, below 1; the guard is for rounding only.
    return np.asarray(mean - gradient * variance / np.maximum(1 - bend * variance, 1e-6), dtype=np.float64)


def estimate_accuracy(differences: ArrayLike, answers: ArrayLike) -> tuple[float, float, float, int]:
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


def share_interval(share: float, n: int) -> tuple[float, float]:
    """The 95% interval (Wilson) of a share of n."""
    z2 = _Z95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


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
    if len(index) < _ENOUGH:
        return []
    used, place = np.unique(index, return_inverse=True)
    own, place = np.asarray(rows[used], dtype=np.float64), place.reshape(-1, 2)
    same = Reduction.identity(own.shape[1])
    points, head = [], None
    for k in np.unique(np.linspace(_ENOUGH / 3, len(index), most).astype(int)).tolist():
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
        differences[:k] = left_out_differences(posterior, place[:k], given[:k])
        estimate, low, high, n = estimate_accuracy(differences, given)
        if n:
            points.append((k, estimate, low, high))
    return points


def advise(
    accuracy: tuple[float, float, float, int], *, answers: int, budget: int, earlier: list[float]
) -> AccuracyEstimate:
    """Put an estimate and a recommendation into words.

    Stopping is recommended when the budget is used up, or when the estimate has not risen by more than a point over
    the last three models.

    Args:
        accuracy: from `estimate_accuracy`.
        answers: given so far.
        budget: planned.
        earlier: estimates of earlier models, oldest first, the present one last.
    """
    estimate, low, high, n = accuracy
    if n == 0:
        return AccuracyEstimate(
            None,
            None,
            None,
            0,
            False,
            "No random pair has been answered yet, so accuracy cannot be estimated.",
        )
    text = f"About {estimate:.0%} of unseen pairs are ordered as people order them ({low:.0%}–{high:.0%}, from {n} random pairs)."
    flat = len(earlier) >= 4 and n >= _ENOUGH and max(earlier[-3:]) - earlier[-4] < _PLATEAU
    if answers >= budget:
        stop, advice = True, f"The planned {budget} answers are in: you can stop."
    elif n < _ENOUGH:
        stop, advice = False, "Too few random pairs so far to advise on stopping."
    elif flat:
        stop, advice = True, "The last three models brought less than a point: you can stop."
    else:
        stop, advice = False, f"{budget - answers} more answers are planned."
    return AccuracyEstimate(estimate, low, high, n, stop, f"{text} {advice}")
