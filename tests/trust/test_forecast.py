"""What more answers would bring, against what they brought."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.reduction import Reduction
from steelyard.trust.forecast import (
    FIRST_LOOK,
    Forecast,
    Gain,
    forecast,
    horizons,
    is_look,
    look_count,
)

D, N = 12, 200


class World:
    """Images whose scores are linear in their features, and somebody who answers by them."""

    def __init__(self, seed: int, spread: float = 2.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows = self.rng.standard_normal((N, D))
        self.truth = self.rng.standard_normal(D) * spread / np.sqrt(2 * D)
        self.pairs = np.array([self.rng.choice(N, 2, replace=False) for _ in range(400)])
        gap = (self.rows[self.pairs[:, 0]] - self.rows[self.pairs[:, 1]]) @ self.truth
        self.answers = (self.rng.random(400) < 1 / (1 + np.exp(-gap))).astype(float)

    def head(self, n: int) -> ConvexHead:
        return ConvexHead.fit(
            self.rows, self.pairs[:n], self.answers[:n], reduction=Reduction.identity(D), rows=self.rows
        )

    def accuracy(self, head: ConvexHead) -> float:
        left, right = np.triu_indices(N, 1)
        z = self.rows[left] - self.rows[right]
        chance = 1 / (1 + np.exp(-(z @ self.truth)))
        return float(np.where(z @ head.weights > 0, chance, 1 - chance).mean())

    def forecast(self, n: int, until: list[int]) -> Forecast:
        return forecast(
            self.rows, self.head(n).weights, self.pairs[:n], self.answers[:n], ties=False, until=until,
            rng=np.random.default_rng(0),
        )  # fmt: skip


def test_the_forecast_is_what_comes_on_average_and_within_its_deviation() -> None:
    off, inside, gains = [], [], []
    for seed in range(16):
        world = World(seed)
        [gain] = world.forecast(60, [400]).gains
        came = world.accuracy(world.head(400)) - world.accuracy(world.head(60))
        off.append(came - gain.mean)
        gains.append(came)
        inside.append(abs(came - gain.mean) < 2 * gain.deviation)
    assert abs(np.mean(off)) < 0.015, f"{np.mean(gains):.3f} came, off by {np.mean(off):.3f}"
    assert np.mean(inside) >= 0.85


def test_more_answers_bring_more_and_each_less_than_the_one_before() -> None:
    found = World(3).forecast(50, [100, 200, 400])
    means = [gain.mean for gain in found.gains]
    assert means == sorted(means)
    assert (means[2] - means[1]) / 200 < (means[1] - means[0]) / 100 < means[0] / 50
    assert World(3).forecast(300, [400]).gains[0].mean < means[-1] / 2, "later there is less to gain"


def test_a_model_that_sees_nothing_yet_does_not_conclude_that_there_is_nothing() -> None:
    # Thirty answers at random: the most likely prior is one in which all images are alike, and nothing could be gained.
    world = World(5)
    world.answers = world.rng.integers(0, 2, 400).astype(float)
    [gain] = world.forecast(30, [400]).gains
    assert gain.at_most(0.9) > 0.01


def test_what_is_saved_is_what_is_read() -> None:
    found = Forecast(100, 0.8, (Gain(150, 0.01, 0.004), Gain(300, 0.02, 0.005)))
    again = Forecast.from_metrics(json.loads(json.dumps({"forecast": found.to_dict()})))
    assert again == found
    assert found.until(120) == found.gains[0]
    assert found.until(300) == found.gains[1]
    assert found.until(301) is None
    assert Forecast.from_metrics({"accuracy": 0.8}) is None
    empty = Forecast.from_metrics({"forecast": Forecast(40).to_dict()})
    assert empty is not None
    assert math.isnan(empty.level)


def test_a_fan_starts_at_the_estimate_and_never_leaves_the_shares() -> None:
    fan = Forecast(100, 0.7, (Gain(200, 0.1, 0.05), Gain(400, 0.25, 0.1))).fan(0.95, 0.9, 0.98)
    assert fan[0] == (100, 0.95, 0.9, 0.98)
    for (_, before, _, _), (_, middle, low, high) in pairwise(fan):
        assert before < middle < 1
        assert 0 <= low < middle < high <= 1
    assert Forecast(100, 0.7).fan(0.8, 0.7, 0.9) == [(100, 0.8, 0.7, 0.9)]


def test_looks_are_a_fifth_apart_and_their_number_is_known() -> None:
    looks, models = [], []
    for answers in range(5, 1501, 5):
        if is_look(answers, models):
            looks.append(answers)
            models.append({"forecast": Forecast(answers).to_dict()})
    assert looks[0] == FIRST_LOOK
    assert all(b >= 1.2 * a for a, b in pairwise(looks))
    assert len(looks) <= look_count(1500)
    assert look_count(10) == 1


@pytest.mark.parametrize(
    ("answers", "budget", "also"), [(30, 150, 0), (100, 5638, 100), (149, 150, 100), (0, 5, 0)]
)
def test_horizons_end_at_the_budget(answers: int, budget: int, also: int) -> None:
    found = horizons(answers, budget, also=also)
    assert found[-1] == budget
    assert found == sorted(set(found))
    assert found[0] > answers
    assert not also or min(budget, answers + also) in found
    assert horizons(budget, budget) == []


def test_a_forecast_of_no_future_is_empty() -> None:
    assert World(0).forecast(50, [40, 50]).gains == ()
