"""α against its definition by brute force, Krippendorff's own example, and the coverage of its interval."""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import ExperimentError
from steelyard.evaluate.krippendorff import agreement_interval, alpha_interval, krippendorff_alpha


def brute(units: list[list[int]], level: str) -> float:
    """By the definition: every two answers within a unit, every two answers of all."""
    units = [unit for unit in units if len(unit) > 1]
    every = [value for unit in units for value in unit]
    many = {value: every.count(value) for value in set(every)}

    def apart(c: int, k: int) -> float:
        if level == "nominal":
            return float(c != k)
        low, high = sorted((c, k))
        between = sum(n for value, n in many.items() if low <= value <= high)
        return (between - (many[c] + many[k]) / 2) ** 2

    seen = sum(apart(c, k) / (len(unit) - 1) for unit in units for c, k in permutations(unit, 2)) / len(every)
    chance = sum(apart(c, k) for c, k in permutations(every, 2)) / (len(every) * (len(every) - 1))
    return 1 - seen / chance


def counts(units: list[list[int]], categories: int) -> np.ndarray:
    return np.array([np.bincount(unit, minlength=categories) for unit in units])


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
def test_alpha_is_its_definition_also_with_uneven_raters(level: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        units = [
            np.clip(rng.integers(3) + rng.integers(-1, 2, rng.integers(1, 6)), 0, 2).tolist()
            for _ in range(30)
        ]
        assert krippendorff_alpha(counts(units, 3), level) == pytest.approx(brute(units, level))  # type: ignore[arg-type]


def test_krippendorffs_own_example() -> None:
    """Computing Krippendorff's Alpha-Reliability (2011), section C: four observers, missing data; α = .743 and .815."""
    rows = [
        "1 2 3 3 2 1 4 1 2 * * *",
        "1 2 3 3 2 2 4 1 2 5 * 3",
        "* 3 3 3 2 3 4 2 2 5 1 *",
        "1 2 3 3 2 4 4 1 2 5 1 *",
    ]
    columns = zip(*(row.split() for row in rows), strict=True)
    units = [[int(value) - 1 for value in unit if value != "*"] for unit in columns]
    assert krippendorff_alpha(counts(units, 5), "nominal") == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(counts(units, 5), "ordinal") == pytest.approx(0.815, abs=5e-4)


def test_ends_of_the_scale() -> None:
    assert krippendorff_alpha([[2, 0, 0], [0, 0, 3]], "ordinal") == 1.0
    assert np.isnan(krippendorff_alpha([[2, 0, 0], [3, 0, 0]]))
    assert np.isnan(krippendorff_alpha([[1, 0, 0], [0, 1, 0]]))
    assert krippendorff_alpha([[1, 0, 1]] * 10, "ordinal") < 0
    with pytest.raises(ExperimentError, match="table"):
        krippendorff_alpha([1, 2])


def test_ties_are_half_as_bad_where_the_scale_is_ordinal() -> None:
    close = [[4, 0, 0], [0, 0, 4], [3, 1, 0], [0, 1, 3]]
    far = [[4, 0, 0], [0, 0, 4], [3, 0, 1], [1, 0, 3]]
    assert krippendorff_alpha(close, "ordinal") > krippendorff_alpha(far, "ordinal")
    assert krippendorff_alpha(close, "ordinal") > krippendorff_alpha(close, "nominal")


def test_intervals_hold_what_they_say() -> None:
    """The short form of benchmarks/agreement.py."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from agreement import alpha_coverage

    for covers, bias, half in alpha_coverage(120, 50, 2, 1.5, 0.5).values():
        assert covers >= 0.88
        assert abs(bias) < 0.04
        assert 0.1 < half < 0.3


def test_intervals_are_repeatable_and_raw_agreement_has_one() -> None:
    table = np.random.default_rng(1).multinomial(3, [0.5, 0.1, 0.4], size=40)
    one, other = (alpha_interval(table, "nominal", np.random.default_rng(2)) for _ in range(2))
    assert one == other
    assert one.low < one.value < one.high
    raw = agreement_interval([[2, 0, 0], [1, 0, 1], [0, 0, 2], [0, 2, 0]], np.random.default_rng(0))
    assert raw.value == 0.75
    assert raw.low < 0.75 <= raw.high
    assert np.isnan(agreement_interval(np.zeros((0, 3)), np.random.default_rng(0)).value)
    assert np.isnan(alpha_interval(np.zeros((0, 3)), "nominal", np.random.default_rng(0)).low)
