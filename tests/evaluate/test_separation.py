"""Scale separation: what it says is the squared correlation with the truth; adaptive choice inflates it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from steelyard.evaluate.separation import reliability, separation
from steelyard.ranker.answers_alone import fit_alone
from steelyard.ranker.likelihood import sigmoid


def test_it_is_the_squared_correlation_with_the_truth() -> None:
    """The short form of benchmarks/agreement.py."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from agreement import separation_check

    value, truth, covers, half = separation_check(12, 60, 200, 1.5)
    assert value == pytest.approx(truth, abs=0.06)
    assert covers >= 0.8
    assert half < 0.2


def test_adaptive_choice_inflates_it() -> None:
    """People who guess: whoever asks about neighbours of the present order and trusts the answers finds a scale in nothing."""
    rng = np.random.default_rng(0)
    images, chosen, drawn = 40, [], []
    for _ in range(6):
        pairs, said = rng.permutation(images).reshape(-1, 2), rng.integers(0, 2, images // 2).astype(float)
        for _ in range(11):
            fit = fit_alone(pairs, said, images, rng=rng, prior=1.5, tau=0.0)
            more = np.argsort(fit.score).reshape(-1, 2)
            pairs, said = np.concatenate([pairs, more]), np.append(said, rng.integers(0, 2, images // 2))
        chosen.append(reliability(fit_alone(pairs, said, images, rng=rng, tau=0.0)))
        other = rng.integers(images, size=(len(pairs) + 40, 2))
        other = other[other[:, 0] != other[:, 1]][: len(pairs)]
        drawn.append(reliability(fit_alone(other, said[: len(other)], images, rng=rng, tau=0.0)))
    assert np.mean(chosen) > np.mean(drawn) + 0.05
    assert np.mean(drawn) < 0.3, "there is nothing to separate"


def test_few_answers_say_nothing() -> None:
    assert separation([[0, 1]] * 29, [1.0] * 29, 2, np.random.default_rng(0)) is None
    theta = np.array([-1.0, 0.0, 1.0])
    pairs = np.array([[0, 1], [1, 2], [0, 2]] * 30)
    said = (np.random.default_rng(0).random(90) < sigmoid(theta[pairs[:, 0]] - theta[pairs[:, 1]])).astype(
        float
    )
    found = separation(pairs, said, 5, np.random.default_rng(0))
    assert found is not None
    assert (found.answers, found.images) == (90, 3)
    assert 0 <= found.low <= found.value <= found.high <= 1
