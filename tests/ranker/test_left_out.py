"""Leaving a pair out: in closed form against real refits, with one answer and with several."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.left_out import forget, left_out, without_own_answers
from steelyard.ranker.reduction import Reduction
from steelyard.trust.accuracy import share_right


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
    quick = without_own_answers(full.posterior(x), pairs, answers)
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
    assert share_right(quick, answers)[0] <= share_right(seen, answers)[0]


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
def test_all_answers_about_a_pair_are_left_out_together(ties: str) -> None:
    """Three raters, one of them shown the pair turned round: the closed form against a refit without any of them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 8))
    truth = x @ rng.normal(size=8)
    different = random_pairs(80, 60, taken=PairSet(60), rng=rng)
    pairs = np.concatenate([different, different, different[:, ::-1]])
    gap = truth[pairs[:, 0]] - truth[pairs[:, 1]] + rng.logistic(0, 0.5, size=len(pairs))
    answers = np.where(np.abs(gap) < 0.3, 0.5, (gap > 0).astype(float))
    identity = Reduction.identity(8)
    full = ConvexHead.fit(x, pairs, answers, reduction=identity, precision=1.0, ties=ties)  # type: ignore[arg-type]
    found = left_out(full.posterior(x), pairs, answers)
    assert found.answered.tolist() == [3] * 80
    means, variances = [], []
    for pair in found.pairs:
        keep = (np.sort(pairs, axis=1) != pair).any(axis=1)
        assert keep.sum() == len(pairs) - 3
        head = ConvexHead.fit(x, pairs[keep], answers[keep], reduction=identity, precision=1.0, ties=ties, start=full)  # type: ignore[arg-type]  # fmt: skip
        mean, variance = head.posterior(x).difference(pair[None])
        means.append(mean[0])
        variances.append(variance[0])
    assert np.corrcoef(found.mean, means)[0, 1] > 0.998
    assert np.abs(found.mean - means).mean() < 0.05 * np.std(means)
    assert np.median(np.abs(found.variance / variances - 1)) < 0.1
    # One rater's answer left out alone would be told by the other two.
    told = without_own_answers(full.posterior(x), pairs, answers)
    turned = np.where(pairs[:, 0] < pairs[:, 1], 1.0, -1.0)
    np.testing.assert_allclose(told, turned * found.mean[found.place])


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
def test_forgetting_is_what_refitting_without_the_answers_gives(ties: str) -> None:
    """Eight answers about five pairs are taken out of a posterior: all scores and deviations against a refit."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 8))
    truth = x @ rng.normal(size=8)
    different = random_pairs(80, 60, taken=PairSet(60), rng=rng)
    pairs = np.concatenate([different, different[:20, ::-1]])
    gap = truth[pairs[:, 0]] - truth[pairs[:, 1]] + rng.logistic(0, 0.5, size=len(pairs))
    answers = np.where(np.abs(gap) < 0.3, 0.5, (gap > 0).astype(float))
    gone = np.isin(np.arange(len(pairs)), [0, 1, 2, 40, 41, 80, 81, 82])
    identity = Reduction.identity(8)
    full = ConvexHead.fit(x, pairs, answers, reduction=identity, precision=1.0, ties=ties).posterior(x)  # type: ignore[arg-type]
    refit = ConvexHead.fit(
        x, pairs[~gone], answers[~gone], reduction=identity, precision=1.0, ties=ties
    ).posterior(x)  # type: ignore[arg-type]
    found = forget(full, pairs[gone], answers[gone])
    moved = np.abs(full.mean - refit.mean).mean()
    assert np.abs(found.mean - refit.mean).mean() < 0.15 * moved
    np.testing.assert_allclose(np.sqrt(found.variance), np.sqrt(refit.variance), rtol=0.06)
    # Forgetting one pair is what leaving it out says about it.
    one = left_out(full, pairs, answers)
    its = (np.sort(pairs, axis=1) == one.pairs[3]).all(axis=1)
    mean, variance = forget(full, pairs[its], answers[its]).difference(one.pairs[3:4])
    np.testing.assert_allclose((mean[0], variance[0]), (one.mean[3], one.variance[3]))
