"""Accuracy from random pairs: leave-one-out in closed form against real refits, intervals, advice."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.reduction import Reduction
from steelyard.stopping import (
    advise,
    estimate_accuracy,
    left_out_differences,
    random_curve,
    share_interval,
)


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
def test_leaving_one_out_is_what_refitting_without_it_gives(ties: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 8))
    truth = x @ rng.normal(size=8)
    pairs = random_pairs(120, 60, taken=PairSet(60), rng=rng)
    gap = truth[pairs[:, 0]] - truth[pairs[:, 1]] + rng.logistic(size=120)
    answers = np.where(np.abs(gap) < 0.4, 0.5, (gap > 0).astype(float))
    identity = Reduction.identity(8)
    full = ConvexHead.fit(x, pairs, answers, reduction=identity, precision=1.0, ties=ties)  # type: ignore[arg-type]
    quick = left_out_differences(full.posterior(x), pairs, answers)
    refitted = []
    for k in range(len(pairs)):
        keep = np.arange(len(pairs)) != k
        head = ConvexHead.fit(
            x,
            pairs[keep],
            answers[keep],
            reduction=identity,
            precision=1.0,
            ties=ties,
            start=full,  # type: ignore[arg-type]
        )
        refitted.append(head.posterior(x).difference(pairs[k : k + 1])[0][0])
    assert np.corrcoef(quick, refitted)[0, 1] > 0.999
    assert np.abs(quick - refitted).mean() < 0.03 * np.std(refitted)
    seen = full.posterior(x).difference(pairs)[0]
    assert estimate_accuracy(quick, answers)[0] <= estimate_accuracy(seen, answers)[0]


def test_accuracy_leaves_ties_out_and_has_wilsons_interval() -> None:
    estimate, low, high, n = estimate_accuracy([1.0, -1.0, 2.0, 0.0, 3.0], [1.0, 1.0, 0.5, 0.0, 1.0])
    assert n == 4
    assert estimate == pytest.approx(2.5 / 4)
    z = 1.959964
    centre = (0.625 + z * z / 8) / (1 + z * z / 4)
    half = z / (1 + z * z / 4) * np.sqrt(0.625 * 0.375 / 4 + z * z / 64)
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=1e-5)
    assert estimate_accuracy([], [])[3] == 0


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
            truths.append(estimate_accuracy(head.posterior(x).difference(pairs[200:])[0], answers[200:])[0])
    estimated, measured = np.mean(points, axis=0), np.mean(np.reshape(truths, (8, 4)), axis=0)
    assert np.abs(estimated - measured).max() < 0.03
    assert estimated[0] < estimated[-1]


def test_too_few_random_pairs_give_no_curve() -> None:
    rng = np.random.default_rng(0)
    pairs = random_pairs(29, 40, taken=PairSet(40), rng=rng)
    assert random_curve(rng.normal(size=(40, 3)), pairs, np.ones(29), ties=False) == []
    assert random_curve(rng.normal(size=(40, 3)), np.zeros((0, 2)), np.zeros(0), ties=True) == []


def test_advice_says_when_to_stop_and_why() -> None:
    nothing = advise((np.nan, np.nan, np.nan, 0), answers=3, budget=100, earlier=[])
    assert not nothing.stop
    assert "cannot be estimated" in nothing.sentence
    early = advise((0.8, 0.5, 0.9, 10), answers=10, budget=100, earlier=[0.8])
    assert not early.stop
    assert "Too few random pairs" in early.sentence
    going = advise((0.8, 0.7, 0.9, 50), answers=50, budget=100, earlier=[0.6, 0.7, 0.75, 0.8])
    assert not going.stop
    assert "50 more answers" in going.sentence
    flat = advise((0.8, 0.7, 0.9, 50), answers=50, budget=100, earlier=[0.8, 0.80, 0.805, 0.802])
    assert flat.stop
    assert "less than a point" in flat.sentence
    spent = advise((0.8, 0.7, 0.9, 50), answers=100, budget=100, earlier=[])
    assert spent.stop
    assert spent.to_dict()["pairs"] == 50
    assert "80%" in spent.sentence
