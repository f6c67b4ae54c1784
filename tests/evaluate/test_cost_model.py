"""The cost model of benchmarks/costs.py finds coefficients that are known, and is checked by sizes it did not see."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _cost_model import CostModel, Point, check

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def test_a_line_is_found_over_five_powers_of_ten() -> None:
    model = CostModel.fit(["images"], [Point({"images": n}, 0.3 + 2e-6 * n) for n in SIZES])
    assert model.constant == pytest.approx(0.3)
    assert model.slopes == pytest.approx([2e-6])
    assert model.at({"images": 1e8}) == pytest.approx(200.3)
    assert str(model) == "0.3 + 2e-06·images"


def test_two_sizes_logarithms_and_squares() -> None:
    points = [
        Point({"images": n, "pairs": m}, 0.1 + 1e-7 * n * np.log2(n) + 3e-6 * m**2)
        for n in SIZES
        for m in (10, 100, 1_000)
    ]
    model = CostModel.fit(["images log", "pairs²"], points)
    assert model.constant == pytest.approx(0.1)
    assert model.slopes == pytest.approx([1e-7, 3e-6])


def test_nothing_costs_less_than_nothing() -> None:
    model = CostModel.fit(
        ["images"], [Point({"images": n}, cost) for n, cost in ((1, 1.0), (2, 3.0), (3, 5.0))]
    )
    assert model.constant >= 0
    assert all(slope >= 0 for slope in model.slopes)


def test_noise_of_a_tenth_moves_the_prediction_by_little() -> None:
    rng = np.random.default_rng(0)
    points = [Point({"images": n}, (0.2 + 1e-5 * n) * rng.normal(1, 0.1)) for n in SIZES for _ in range(4)]
    assert CostModel.fit(["images"], points).at({"images": 1e6}) == pytest.approx(10.2, rel=0.1)


def test_a_size_is_predicted_from_smaller_ones_only() -> None:
    points = [Point({"images": n}, 1e-5 * n) for n in SIZES] + [Point({"images": 1e6}, 77.0)]
    found = check(["images"], points, by="images")
    assert [one.seen for one in found] == [2, 3, 4, 5]
    assert [one.ratio for one in found[:-1]] == pytest.approx([1.0] * 3)
    assert found[-1].ratio == pytest.approx(7.7)  # what broke the line did not bend it


def test_a_square_is_seen_as_a_ratio_above_one() -> None:
    found = check(["images"], [Point({"images": n}, 1e-9 * n * n) for n in SIZES], by="images")
    assert min(one.ratio for one in found) > 2


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="2 points or more, not 1"):
        CostModel.fit(["images"], [Point({"images": 10}, 1.0)])
