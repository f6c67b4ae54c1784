"""Accuracy from random pairs: intervals and curves."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.reduction import Reduction
from steelyard.trust.accuracy import random_curve, share_interval, share_right


def test_accuracy_leaves_ties_out_and_has_wilsons_interval() -> None:
    estimate, low, high, n = share_right([1.0, -1.0, 2.0, 0.0, 3.0], [1.0, 1.0, 0.5, 0.0, 1.0])
    assert n == 4
    assert estimate == pytest.approx(2.5 / 4)
    z = 1.959964
    centre = (0.625 + z * z / 8) / (1 + z * z / 4)
    half = z / (1 + z * z / 4) * np.sqrt(0.625 * 0.375 / 4 + z * z / 64)
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=1e-5)
    assert share_right([], [])[3] == 0


def test_the_interval_of_a_share_is_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for n in (1, 2, 7, 30, 1000):
        for right in np.arange(0, n + 0.5, 0.5 if n < 30 else n / 20):  # equal scores count half
            expected = proportion_confint(right, n, method="wilson")
            low, high = share_interval(right / n, n)
            assert (low, high) == pytest.approx(expected, abs=1e-12)
            assert 0 <= low < high <= 1


def test_random_pairs_alone_give_the_accuracy_that_new_pairs_confirm() -> None:
    """The curve against the truth: accuracy on pairs that nobody answered, of heads fitted on the first k answers."""
    points, truths, d = [], [], 6
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(300, d)).astype(np.float32)
        score = x @ rng.normal(size=d)
        pairs = random_pairs(1200, 300, taken=PairSet(300), rng=rng)
        gap = score[pairs[:, 0]] - score[pairs[:, 1]] + rng.logistic(0, 0.5, size=len(pairs))
        answers = (gap > 0).astype(float)
        curve = random_curve(x, pairs[:200], answers[:200], ties=False, most=4)
        assert [k for k, *_ in curve] == [10, 73, 136, 200]
        assert all(low < estimate < high for _, estimate, low, high in curve)
        points.append([estimate for _, estimate, *_ in curve])
        for k, *_ in curve:
            head = ConvexHead.fit(x, pairs[:k], answers[:k], reduction=Reduction.identity(d))
            truths.append(share_right(head.posterior(x).difference(pairs[200:])[0], answers[200:])[0])
    estimated, measured = np.mean(points, axis=0), np.mean(np.reshape(truths, (8, 4)), axis=0)
    assert np.abs(estimated - measured).max() < 0.03
    assert estimated[0] < estimated[-1]


def test_too_few_random_pairs_give_no_curve() -> None:
    rng = np.random.default_rng(0)
    pairs = random_pairs(29, 40, taken=PairSet(40), rng=rng)
    assert random_curve(rng.normal(size=(40, 3)), pairs, np.ones(29), ties=False) == []
    assert random_curve(rng.normal(size=(40, 3)), np.zeros((0, 2)), np.zeros(0), ties=True) == []
