"""Figures that people see about themselves: what they are, and that their intervals hold what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, mannwhitneyu

from steelyard.evaluate.fatigue import (
    clearly_below,
    fatigue,
    last_session,
    median_seconds,
    repeats_alike,
    share,
    share_change,
    time_change,
)


def test_a_session_ends_with_half_an_hour_without_an_answer() -> None:
    assert last_session([]) == 0
    assert last_session([0, 10, 1000]) == 0
    assert last_session([0, 10, 2000, 2010, 9000, 9001]) == 4


def test_a_repeat_is_compared_with_the_first_answer() -> None:
    pairs = [(0, 1), (2, 3), (0, 1), (0, 1), (2, 3), (2, 3)]
    said = [1.0, np.nan, 1.0, 0.0, 0.5, 0.5]
    assert repeats_alike(pairs, said).tolist()[2:4] == [1.0, 0.0]
    assert np.isnan(repeats_alike(pairs, said)[[0, 1, 4]]).all()
    assert repeats_alike(pairs, said)[5] == 1.0


def test_a_share_is_wilsons() -> None:
    for ones, n in ((9, 10), (0, 12), (31, 40)):
        found = share([1] * ones + [0] * (n - ones) + [np.nan] * 3)
        theirs = binomtest(ones, n).proportion_ci(method="wilson")
        assert found is not None
        assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert share([1] * 9) is None, "nine are too few for a number"


def test_how_much_longer_agrees_with_the_rank_test() -> None:
    """The interval holds the factors that the two-sided rank test does not refute."""
    rng = np.random.default_rng(0)
    first, last = rng.gamma(4, 1, 25), rng.gamma(4, 1.6, 30)
    found = time_change(first, last)
    assert found is not None
    for factor, inside in ((found.low * 1.02, True), (found.low * 0.9, False), (found.high * 1.1, False)):
        p = mannwhitneyu(np.log(first) + np.log(factor), np.log(last), method="asymptotic").pvalue
        assert (p > 0.05) == inside


def coverage(draw: Callable[[np.random.Generator], tuple[Any, float]], n: int = 1500) -> float:
    """How often an interval holds the truth; those that are not shown are not counted."""
    rng, held, shown = np.random.default_rng(5), 0, 0
    for _ in range(n):
        figure, truth = draw(rng)
        if figure is not None:
            shown += 1
            held += figure.low - 1e-12 <= truth <= figure.high + 1e-12
    return held / shown


@pytest.mark.parametrize("p", [0.6, 0.8, 0.95])
def test_intervals_of_shares_hold_what_they_say(p: float) -> None:
    """A discrete share cannot hold exactly 95% at every n; over the lengths of sessions it does."""
    assert 0.93 < coverage(lambda rng: (share(rng.random(int(rng.integers(10, 80))) < p), p)) < 0.98

    def change(rng: np.random.Generator) -> tuple[Any, float]:
        n = int(rng.integers(10, 40))
        return share_change(rng.random(n) < p, rng.random(n) < p - 0.2), -0.2

    assert 0.93 < coverage(change) < 0.985


def test_intervals_of_seconds_hold_what_they_say() -> None:
    middle = float(np.median(np.random.default_rng(0).gamma(3, 1, 2_000_000)))

    def median(rng: np.random.Generator) -> tuple[Any, float]:
        return median_seconds(rng.gamma(3, 1, int(rng.integers(6, 120)))), middle

    assert 0.945 < coverage(median) < 0.985

    def factor(rng: np.random.Generator) -> tuple[Any, float]:
        n = int(rng.integers(6, 40))
        return time_change(rng.lognormal(1, 0.6, n), 0.7 * rng.lognormal(1, 0.6, n)), 0.7

    assert 0.935 < coverage(factor) < 0.97


def test_whoever_is_as_good_as_wanted_is_seldom_flagged_however_often_one_looks() -> None:
    rng = np.random.default_rng(1)
    right = np.cumsum(rng.random((1000, 60)) < 0.8, axis=1)
    ever = [any(clearly_below(int(k), n + 1, 0.8) for n, k in enumerate(row)) for row in right]
    assert np.mean(ever) < 0.05
    careless = np.cumsum(rng.random((1000, 60)) < 0.5, axis=1)
    soon = [clearly_below(int(row[39]), 40, 0.8) for row in careless]
    assert np.mean(soon) > 0.9
    assert not clearly_below(0, 0, 0.8)


def test_a_tired_person_is_told_so_and_a_steady_one_is_not() -> None:
    rng = np.random.default_rng(2)
    n = 240
    at = np.arange(n) * 5.0
    slower = rng.lognormal(1, 0.4, n) * np.linspace(1, 2.5, n)
    alike = np.where(rng.random(n) < 0.4, (rng.random(n) < np.linspace(1, 0.4, n)).astype(float), np.nan)
    tired = fatigue(at, slower, alike)
    assert "it became longer" in tired.seconds.sentence
    assert "in the first third" in tired.repeats.sentence
    assert tired.gold is None
    steady = fatigue(at, rng.lognormal(1, 0.4, n), np.full(n, np.nan), np.ones(n))
    assert "about as long as at the beginning" in steady.seconds.sentence
    assert "Too few pairs came a second time" in steady.repeats.sentence
    assert steady.gold is not None
    assert "240 hidden pairs with a known answer, 100% (95% interval 98% to 100%)" in steady.gold.sentence
    nothing = fatigue([], [], [])
    assert (nothing.answers, nothing.seconds.whole) == (0, None)
    assert "too few answers" in nothing.seconds.sentence
