"""Scores from the answers alone: against integration by brute force, planted settings, and the coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import RankerError
from steelyard.ranker import sparse_gaussian
from steelyard.ranker.answers_alone import fit_alone
from steelyard.ranker.likelihood import log_likelihood, outcomes
from tests.ranker.test_bradley_terry import drawn


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("tau", [0.0, 0.6])
def test_means_and_deviations_are_those_of_the_posterior(tau: float) -> None:
    """Three images on a grid: nothing is approximated there."""
    pairs = np.array([[0, 1], [0, 1], [1, 2], [0, 2], [2, 1]])
    said = np.array([1.0, 0.5, 1.0, 1.0, 0.0])
    axis = np.linspace(-7, 7, 141)
    theta = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    log = -0.5 * (theta**2).sum(axis=1) / 1.5**2
    for (i, j), c in zip(pairs, said, strict=True):
        log += log_likelihood(theta[:, i] - theta[:, j], np.full(len(theta), c), tau)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    mean = mass @ theta
    found = fit_alone(pairs, said, 3, rng=rng(), prior=1.5, tau=tau)
    assert found.score == pytest.approx(mean, abs=0.01)
    assert found.deviation == pytest.approx(np.sqrt(mass @ np.square(theta - mean)), abs=0.01)


def test_leaving_a_pair_out_is_fitting_without_it() -> None:
    _, pairs, said = drawn(15, 80, tau=0.5, seed=4)
    whole = fit_alone(pairs, said, 15, rng=rng(), prior=1.5, tau=0.5)
    for k in (0, 17, 60):
        own = (np.sort(pairs, axis=1) == np.sort(pairs[k])).all(axis=1)
        rest = fit_alone(pairs[~own], said[~own], 15, rng=rng(), prior=1.5, tau=0.5)
        assert whole.mean_without[k] == pytest.approx(
            rest.score[pairs[k, 0]] - rest.score[pairs[k, 1]], abs=0.04
        )


def test_planted_spread_and_ties_are_found_and_intervals_hold() -> None:
    """The short form of benchmarks/answers_alone.py; with σ by Laplace's approximation they held 71 to 89%."""
    held, spread, half = [], [], []
    for seed in range(12):
        theta, pairs, said = drawn(100, 350, tau=0.5, seed=100 + seed)
        found = fit_alone(pairs, said, 100, rng=rng(seed))
        held.append(np.mean(np.abs(found.score - theta) <= 1.96 * found.deviation))
        spread.append(found.prior)
        half.append(found.tau)
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)
    assert np.mean(spread) == pytest.approx(1.5, rel=0.15)
    assert np.mean(half) == pytest.approx(0.5, rel=0.15)


def test_many_images_are_fitted_without_an_inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    _, pairs, said = drawn(200, 800, tau=0.5, seed=5)
    exact = fit_alone(pairs, said, 200, rng=rng())
    monkeypatch.setattr(sparse_gaussian, "_DENSE", 0)
    drawn_ = fit_alone(pairs, said, 200, rng=rng())
    assert drawn_.score == pytest.approx(exact.score, abs=0.1)
    assert drawn_.deviation == pytest.approx(exact.deviation, rel=0.1)
    assert (drawn_.prior, drawn_.tau) == pytest.approx((exact.prior, exact.tau), rel=0.05)
    again = fit_alone(pairs, said, 200, rng=rng())
    assert (again.score == drawn_.score).all(), "the same seed, the same scores"


def test_images_that_nobody_was_asked_about_are_in_the_middle() -> None:
    found = fit_alone([[1, 3], [1, 3]], [1.0, 1.0], 5, rng=rng(), prior=2.0)
    assert found.answers.tolist() == [0, 2, 0, 2, 0]
    assert found.asked.tolist() == [1, 3]
    assert found.score[[0, 2, 4]].tolist() == [0, 0, 0]
    assert found.deviation[[0, 2, 4]].tolist() == [2.0, 2.0, 2.0]
    assert found.score[1] == pytest.approx(-found.score[3])
    assert found.outcomes() == pytest.approx(outcomes(np.zeros(2), np.full(2, 8.0)), abs=1e-6), (
        "nothing else is known"
    )


def test_answers_that_never_contradict_each_other_stay_finite() -> None:
    pairs = np.array([[i, j] for i in range(12) for j in range(i + 1, 12)])
    found = fit_alone(pairs, np.ones(len(pairs)), 12, rng=rng())
    assert (np.diff(found.score) < 0).all()
    assert np.isfinite(found.deviation).all()
    assert found.prior <= 5.0


@pytest.mark.parametrize(
    ("pairs", "said", "options", "says"),
    [
        (np.zeros((0, 2), int), [], {}, "scores need some"),
        ([[0, 1]], [1.0, 0.0], {}, "one answer for each pair"),
        ([[0, 1]], [0.3], {}, "ties know only"),
        ([[0, 1]], [1.0], {"prior": 0.0}, "above 0, not 0.0"),
        ([[0, 9]], [1.0], {}, "9"),
    ],
)
def test_mistakes_are_named(pairs: object, said: list[float], options: dict[str, float], says: str) -> None:
    with pytest.raises(RankerError, match=says):
        fit_alone(pairs, said, 3, rng=rng(), **options)  # type: ignore[arg-type]
