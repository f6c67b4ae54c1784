"""The accuracy a study states holds in simulation: a short form of benchmarks/coverage.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from steelyard.trust.accuracy import Judged, estimate_accuracy

N, D = 120, 24


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SITUATIONS = [
    (1, 0.0, 0, "perfect", "default"),
    (2, 0.3, 60, "noisy", "default"),
    (3, 0.0, 60, "tie_prone", "default"),
    (2, 0.0, 0, "perfect", "random"),
    (3, 0.3, 60, "noisy", "random"),
    (1, 0.3, 0, "tie_prone", "random"),
]


def test_the_interval_covers_the_truth(coverage: ModuleType) -> None:
    """48 studies in six situations: at least nine of ten intervals hold, and the mean error is below two points."""
    covered, errors = [], []
    for situation in SITUATIONS:
        for seed in range(8):
            rng = np.random.default_rng([seed, 5])
            rows = rng.normal(size=(N, D)).astype(np.float32)
            severity = rows[:, :5].sum(axis=1) / 2 + 0.6 * rng.normal(size=N)
            (found,) = coverage.run(
                coverage.Images(rows, severity), coverage.Situation(*situation), seed=seed, looks=(180,)
            )
            if not np.isnan(found.stated.estimate):
                covered.append(found.stated.low <= found.truth <= found.stated.high)
                errors.append(found.stated.estimate - found.truth)
    assert len(covered) >= 40
    assert np.mean(covered) >= 0.9
    assert abs(np.mean(errors)) < 0.02


def test_perfect_raters_were_told_their_own_answers_by_version_0_1(coverage: ModuleType) -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(N, D)).astype(np.float32)
    severity = rows[:, :5].sum(axis=1) / 2 + 1.2 * rng.normal(size=N)
    situation = coverage.Situation(raters=3, choice="random")
    (found,) = coverage.run(coverage.Images(rows, severity), situation, seed=2, looks=(200,))
    assert found.before[0] > found.truth + 0.1
    assert found.stated.estimate == pytest.approx(found.truth, abs=0.1)


# ---------------------------------------------------------------------- the estimate itself


def judged(rng: np.random.Generator, n: int, random: float, slope: float = 1.0) -> tuple[Judged, float]:
    """Pairs whose margins tell the truth up to `slope`; chosen ones have small margins."""
    drawn = rng.random(n) < random
    margin = np.abs(rng.normal(size=n)) * np.where(drawn, 2.0, 0.7)
    right = (rng.random(n) < 1 / (1 + np.exp(-slope * margin))).astype(float)
    pool = np.abs(rng.normal(size=20_000)) * 2.0
    return Judged(margin, np.ones(n), right, drawn), float(np.mean(1 / (1 + np.exp(-slope * pool))))


@pytest.mark.parametrize("slope", [0.6, 1.0, 1.8])
@pytest.mark.parametrize("random", [0.1, 1.0])
def test_the_estimate_is_unbiased_and_covers(slope: float, random: float) -> None:
    rng = np.random.default_rng(0)
    pool = np.abs(rng.normal(size=4_000)) * 2.0
    hits, errors = [], []
    for _ in range(200):
        seen, truth = judged(rng, 200, random, slope)
        found = estimate_accuracy(seen, pool)
        if np.isnan(found.estimate):  # too wide to be said
            continue
        hits.append(found.low <= truth <= found.high)
        errors.append(found.estimate - truth)
    assert len(hits) > 150
    assert np.mean(hits) >= 0.92
    assert abs(np.mean(errors)) < 0.015


def test_random_pairs_overrule_a_model_that_deceives_itself() -> None:
    """Chosen pairs go right as margins say; random ones only half as often as they should: with many, they win."""
    rng = np.random.default_rng(1)
    n = 4_000
    drawn = rng.random(n) < 0.5
    margin = np.abs(rng.normal(size=n)) * 2
    right = (rng.random(n) < np.where(drawn, 0.5, 1 / (1 + np.exp(-margin)))).astype(float)
    found = estimate_accuracy(Judged(margin, np.ones(n), right, drawn), np.abs(rng.normal(size=4_000)) * 2)
    assert found.estimate < 0.56


def test_nothing_is_said_of_too_little() -> None:
    one = Judged(np.ones(4), np.ones(4), np.ones(4), np.ones(4, dtype=bool))
    assert np.isnan(estimate_accuracy(one, np.ones(10)).estimate)
    assert estimate_accuracy(one, np.ones(10)).pairs == 4
    none = Judged(*(np.empty(0) for _ in range(3)), np.empty(0, dtype=bool))
    assert estimate_accuracy(none, np.ones(10)).pairs == 0
    ties = Judged(np.ones(50), np.zeros(50), np.zeros(50), np.ones(50, dtype=bool))
    assert np.isnan(estimate_accuracy(ties, np.ones(10)).estimate)
    certain = Judged(np.full(300, 9.0), np.ones(300), np.ones(300), np.ones(300, dtype=bool))
    found = estimate_accuracy(certain, np.full(10, 9.0))
    assert 0.95 < found.low < found.estimate < found.high < 1
    assert found.low < 1 - 2 / 300, "300 pairs cannot prove more"
