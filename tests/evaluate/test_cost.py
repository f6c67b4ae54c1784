from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import ExperimentError
from steelyard.evaluate.cost import cost, cost_of_pairs, measured_seconds


@pytest.mark.parametrize(
    ("method", "relative", "absolute", "seconds"),
    [
        ("conventional", 0, 8_214, 164_280),
        ("baseline", 4_106, 4_106, 86_226),
        ("all", 8_214, 8_214, 172_494),
        ("random", 4_106, 3_378, 71_666),
        ("ubs", 4_106, 2_475, 53_606),
    ],
)
def test_the_papers_arithmetic(method: str, relative: int, absolute: int, seconds: int) -> None:
    assert cost(relative, absolute).seconds == seconds, method


def test_distinct_images_are_graded_once() -> None:
    spent = cost_of_pairs([[0, 1], [1, 2], [2, 0], [0, 3]], pair_seconds=2, grade_seconds=10)
    assert (spent.relative, spent.absolute, spent.seconds) == (4, 4, 48)
    assert cost_of_pairs(np.empty((0, 2), dtype=int)).seconds == 0


def test_measured_times_ignore_breaks_and_nonsense() -> None:
    assert measured_seconds([1.0, 2.0, 3.0, 4000.0, -1.0, np.nan]) == 2.5
    assert np.isnan(measured_seconds([]))


def test_negative_labels_are_refused() -> None:
    with pytest.raises(ExperimentError, match="-1"):
        cost(-1, 0)
