"""Predictions held against answers: what was learnt, what came later, what cannot be told."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.left_out import left_out
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Reduction
from steelyard.trust.evidence import POOL_PAIRS, Predictions, judge, predict

N, D = 40, 4


@pytest.fixture
def fitted() -> tuple[Posterior, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    pairs = np.sort(random_pairs(60, N, taken=PairSet(N), rng=rng), axis=1)
    answers = (x[pairs[:, 0], 0] > x[pairs[:, 1], 0]).astype(float)
    head = ConvexHead.fit(x, pairs[:50], answers[:50], reduction=Reduction.identity(D))
    return head.posterior(x), pairs, answers


def known(posterior: Posterior, pairs: np.ndarray, answers: np.ndarray, **options: object) -> Predictions:
    given = {"learns_reserved": True, "pool": np.arange(N), "rng": np.random.default_rng(1), **options}
    return predict(posterior, pairs, answers, **given)  # type: ignore[arg-type]


def test_learnt_pairs_are_left_out_and_later_ones_predicted_plainly(
    fitted: tuple[Posterior, np.ndarray, np.ndarray],
) -> None:
    posterior, pairs, answers = fitted
    predictions = known(posterior, pairs[:50], answers[:50])
    judged = judge(predictions, posterior, pairs, answers, np.ones(60, dtype=bool))
    found = left_out(posterior, pairs[:50], answers[:50])
    mean, variance = posterior.difference(pairs[50:])
    expected = {tuple(p): abs(m) / np.sqrt(v) for p, m, v in zip(found.pairs.tolist(), found.mean, found.variance, strict=True)}  # fmt: skip
    expected |= {tuple(p): abs(m) / np.sqrt(v) for p, m, v in zip(pairs[50:].tolist(), mean, variance, strict=True)}  # fmt: skip
    order = sorted(expected)
    np.testing.assert_allclose(judged.margin, [expected[p] for p in order])
    assert (judged.decided == 1).all()


def test_a_pair_counts_once_with_the_shares_of_its_answers(
    fitted: tuple[Posterior, np.ndarray, np.ndarray],
) -> None:
    posterior, pairs, _ = fitted
    asked = np.repeat(pairs[55:56], 4, axis=0)
    said = np.array([1.0, 1.0, 0.5, np.nan])
    random = np.array([False, True, False, False])
    judged = judge(known(posterior, pairs[:0], []), posterior, asked, said, random)
    up = posterior.difference(pairs[55:56])[0][0] > 0
    assert judged.decided.tolist() == pytest.approx([2 / 3])
    assert judged.right.tolist() == pytest.approx([2 / 3 if up else 0.0])
    assert judged.random.tolist() == [True], "it was drawn at random, whoever was asked again"


def test_a_ranker_that_cannot_leave_out_is_judged_by_what_it_never_saw(
    fitted: tuple[Posterior, np.ndarray, np.ndarray],
) -> None:
    posterior, pairs, answers = fitted
    predictions = known(posterior, pairs[:50], answers[:50], learns_reserved=False)
    assert np.isnan(predictions.margin).all()
    assert len(judge(predictions, posterior, pairs, answers, np.ones(60, dtype=bool)).margin) == 10


def test_the_pool_is_drawn_from_images_that_are_there(
    fitted: tuple[Posterior, np.ndarray, np.ndarray],
) -> None:
    posterior, pairs, answers = fitted
    predictions = known(posterior, pairs, answers, pool=np.arange(10, N))
    assert predictions.pool.min() >= 10
    assert len(predictions.pool) == min(POOL_PAIRS, 30 * 29 // 2)
    fewer = predictions.without(np.array([10, 11]))
    assert fewer.pool.min() >= 12
    assert len(fewer.pool) == len(fewer.pool_margin) == 28 * 27 // 2
    assert predictions.without(np.empty(0, dtype=np.int64)) is predictions
