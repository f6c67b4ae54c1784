"""How many unseen pairs are ordered right? Estimated from pairs that were drawn at random.

Pairs that a strategy chose are harder than average, so accuracy on them says little. A share of all questions is drawn
uniformly and marked as reserved. For the convex head each reserved pair is predicted *as if it had never been answered*
(`left_out.py`), so that it can teach as well as test; other rankers are not shown reserved answers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.trust.left_out import without_own_answers

__all__ = ["ENOUGH", "estimate_accuracy", "random_curve", "share_interval"]

ENOUGH = 30  # reserved answers below which an estimate says next to nothing
_Z95 = 1.959963984540054  # 95% of the normal distribution are within so many standard deviations


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
        estimate, low, high, n = estimate_accuracy(differences, given)
        if n:
            points.append((k, estimate, low, high))
    return points
