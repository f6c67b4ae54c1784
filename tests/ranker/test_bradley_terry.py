"""The likeliest scores, against choix, evalica and numerical derivatives."""

from __future__ import annotations

import choix
import evalica
import numpy as np
import pytest

from steelyard.ranker.bradley_terry import likeliest_scores, summed
from steelyard.ranker.likelihood import log_likelihood, outcomes, slope


def drawn(images: int, n: int, *, tau: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True scores, pairs and answers by Rao and Kupper's law."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1.5, images)
    pairs = rng.integers(images, size=(2 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n]
    chance = outcomes(theta[pairs[:, 0]] - theta[pairs[:, 1]], 0.0, tau)
    luck = rng.random(len(pairs))
    said = np.where(luck < chance[:, 0], 1.0, np.where(luck < chance[:, :2].sum(axis=1), 0.5, 0.0))
    return theta, pairs, said


@pytest.mark.parametrize("prior", [0.7, 2.0, 30.0])
def test_bradley_terry_is_choix_with_the_same_prior(prior: float) -> None:
    _, pairs, said = drawn(25, 200, tau=0.0, seed=1)
    won = [(int(i), int(j)) if c == 1 else (int(j), int(i)) for (i, j), c in zip(pairs, said, strict=True)]
    oracle = choix.opt_pairwise(25, won, alpha=prior**-2 / 2, tol=1e-10, max_iter=2000)
    assert likeliest_scores(pairs, said, 25, prior=prior) == pytest.approx(oracle, abs=1e-4)


def test_without_a_prior_it_is_evalicas_bradley_terry() -> None:
    _, pairs, said = drawn(12, 600, tau=0.0, seed=2)
    names = np.array([f"i{k:02d}" for k in range(12)])
    winner = [evalica.Winner.X if c == 1 else evalica.Winner.Y for c in said]
    found = evalica.bradley_terry(
        names[pairs[:, 0]].tolist(), names[pairs[:, 1]].tolist(), winner, tolerance=1e-10, limit=10_000
    )
    oracle = np.log(found.scores.sort_index().to_numpy())
    ours = likeliest_scores(pairs, said, 12, prior=1e3)
    assert ours - ours.mean() == pytest.approx(oracle - oracle.mean(), abs=1e-3)


@pytest.mark.parametrize("tau", [0.0, 0.4, 1.2])
def test_the_gradient_is_the_numerical_one_and_vanishes_at_the_mode(tau: float) -> None:
    _, pairs, said = drawn(10, 120, tau=tau, seed=3)

    def value(theta: np.ndarray) -> float:
        return float(
            log_likelihood(theta[pairs[:, 0]] - theta[pairs[:, 1]], said, tau).sum() - theta @ theta / 8
        )

    def gradient(theta: np.ndarray) -> np.ndarray:
        step = 1e-5 * np.eye(10)
        return np.array([(value(theta + e) - value(theta - e)) / 2e-5 for e in step])

    anywhere = np.random.default_rng(0).normal(size=10)
    pull = slope(anywhere[pairs[:, 0]] - anywhere[pairs[:, 1]], said, tau)
    assert summed(pairs, pull, 10) - anywhere / 4 == pytest.approx(gradient(anywhere), abs=1e-5)
    assert gradient(likeliest_scores(pairs, said, 10, prior=2.0, tau=tau)) == pytest.approx(
        np.zeros(10), abs=1e-4
    )


def test_who_won_everything_has_a_finite_score() -> None:
    pairs = np.array([[0, 1], [0, 2], [0, 1], [3, 4]])
    found = likeliest_scores(pairs, np.array([1.0, 1.0, 1.0, 0.0]), 5, prior=5.0)
    assert np.isfinite(found).all()
    assert found[0] > found[1] > -10
    assert found[3] == pytest.approx(-found[4])
