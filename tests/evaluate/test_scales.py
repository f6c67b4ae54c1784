"""Correlations of scales: right without noise, undiluted with it, and with intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.evaluate.scales import composite, correlate_scales, reliability
from steelyard.ranker.convex import ConvexHead


def test_without_error_it_is_the_correlation() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 50))
    found = correlate_scales((one, two), (np.tile(one, (20, 1)), np.tile(two, (20, 1))))
    assert found.pearson == pytest.approx(np.corrcoef(one, two)[0, 1])
    assert found.pearson_low == pytest.approx(found.pearson_high)
    ranks = [np.argsort(np.argsort(x)) for x in (one, two)]
    assert found.spearman == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_errors_in_common_are_no_error() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=60)
    together = mean + rng.normal(size=(200, 1)) * 5
    assert reliability(mean, together) == pytest.approx(1.0)
    apart = mean + rng.normal(size=(2000, 60)) * mean.std()
    assert reliability(mean, apart) == pytest.approx(0.5, abs=0.02)


def test_what_is_all_noise_says_nothing() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=30) * 0.1
    draws = mean + rng.normal(size=(100, 30))
    found = correlate_scales((mean, mean), (draws, draws))
    assert np.isnan([found.pearson, found.pearson_low, found.spearman]).all()
    assert found.to_dict()["pearson"] is None
    flat = correlate_scales((np.zeros(5), np.zeros(5)), (np.zeros((9, 5)), np.zeros((9, 5))))
    assert np.isnan(flat.pearson)


def test_the_composite() -> None:
    score, std = composite([[1.0, -1.0], [1.0, 1.0]], [[0.3, 0.3], [0.4, 0.4]], [1.0, -1.0])
    assert score.tolist() == [0.0, -1.0]
    assert std == pytest.approx([0.25, 0.25])


def planted(seed: int, correlation: float, n: int) -> tuple[float, float, float, float, float]:
    """Two scales with a known correlation, answered by chance as their differences say, learnt, and correlated."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 8)).astype(np.float32) * np.linspace(2, 0.5, 8).astype(np.float32)
    w = rng.normal(size=(2, 8))
    w[1] = correlation * w[0] + np.sqrt(1 - correlation**2) * w[1]
    scores = x @ w.T
    scores = 2 * scores / scores.std(axis=0)
    pairs = np.stack([rng.permutation(120)[:2] for _ in range(n)])
    posteriors = []
    for k in range(2):
        gap = scores[pairs[:, 0], k] - scores[pairs[:, 1], k]
        answers = (rng.random(n) < 1 / (1 + np.exp(-gap))).astype(float)
        posteriors.append(ConvexHead.fit(x, pairs, answers).posterior(x))
    one, two = posteriors
    found = correlate_scales((one.mean, two.mean), (one.sample(200, rng), two.sample(200, rng)))
    return (
        float(np.corrcoef(scores.T)[0, 1]),
        found.pearson_low,
        found.pearson_high,
        found.pearson,
        found.observed,
    )


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_interval_holds_the_planted_correlation(correlation: float) -> None:
    """95% are promised; of 16 at most 3 misses would be a lucky day for an interval of 70%."""
    truth, low, high, corrected, observed = np.array([planted(seed, correlation, 80) for seed in range(16)]).T
    assert ((low <= truth) & (truth <= high)).sum() >= 13
    assert (high - low).mean() < 1.0
    if correlation:
        assert abs((corrected - truth).mean()) < abs((observed - truth).mean())
