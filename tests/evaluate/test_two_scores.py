"""Where two scores of the same images differ: few false alarms, planted ones found, one slip is no evidence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.multitest import multipletests

from steelyard.evaluate.two_scores import chance_of_surprise, compare_scores, named
from steelyard.ranker.answers_alone import fit_alone
from steelyard.ranker.likelihood import outcomes


def study(images: int, n: int, planted: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which images are named, which are planted; the model errs by half a logit and says so."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1.5, images)
    model, deviation = 0.9 * (theta + rng.normal(0, 0.5, images)), np.full(images, 0.47)
    bad = np.zeros(images, dtype=bool)
    bad[rng.permutation(images)[:planted]] = True
    seen = np.where(bad, -np.sign(model) * 4.0, theta)  # what people see in a mislabelled image
    pairs = rng.integers(images, size=(2 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n]
    p, luck = outcomes(seen[pairs[:, 0]] - seen[pairs[:, 1]], 0.0, 0.5), rng.random(n)
    said = np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, :2].sum(axis=1), 0.5, 0.0))
    alone = fit_alone(pairs, said, images, rng=rng)
    both = np.square(deviation[pairs]).sum(axis=1)
    expected = outcomes(model[pairs[:, 0]] - model[pairs[:, 1]], both, 0.5)
    found = compare_scores(
        alone.score, alone.deviation, model, deviation, scale=1.0, spread=1.0, probabilities=expected, answers=said, pairs=pairs
    )  # fmt: skip
    return found.differs, bad


def test_sound_images_are_not_named() -> None:
    assert sum(study(100, 400, 0, seed)[0].sum() for seed in range(6)) <= 1


def test_planted_images_are_found() -> None:
    found = [study(100, 900, 3, seed) for seed in range(5)]
    assert sum((differs & bad).sum() for differs, bad in found) >= 8, "of 15"
    assert sum((differs & ~bad).sum() for differs, bad in found) <= 3


def test_the_chance_is_a_bound_and_a_close_one() -> None:
    """Ten answers about image 0, each against odds of 4 : 1, are binomial."""
    pairs = np.column_stack([np.zeros(10, dtype=int), np.arange(1, 11)])
    for wins in (5, 7, 10):
        said = np.where(np.arange(10) < wins, 1.0, 0.0)
        total, chance = chance_of_surprise([[0.2, 0, 0.8]] * 10, said, pairs, 11, np.zeros(11))
        exact = 2 * binom.sf(wins - 1, 10, 0.2)
        assert total[0] == pytest.approx(wins - 2, abs=0.02)
        assert exact <= chance[0] * 1.05
        assert chance[0] < 12 * exact
        unsure = chance_of_surprise([[0.2, 0, 0.8]] * 10, said, pairs, 11, np.ones(11))[1]
        assert unsure[0] > chance[0], "the model may be wrong about the image"


def test_one_slip_is_no_evidence() -> None:
    _, chance = chance_of_surprise([[0.001, 0, 0.999]], [1.0], [[0, 1]], 3, np.zeros(3))
    assert chance[0] > 0.001
    assert chance[2] == 1.0, "nobody asked"


def test_naming_is_benjamini_and_hochbergs() -> None:
    p = np.random.default_rng(0).random(50) ** 3
    assert named(p).tolist() == multipletests(p, alpha=0.1, method="fdr_bh")[0].tolist()
    assert named(np.array([np.nan, 0.001, np.nan])).tolist() == [False, True, False]
    assert not named(np.full(3, np.nan)).any()
