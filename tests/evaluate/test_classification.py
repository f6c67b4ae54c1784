from __future__ import annotations

import warnings

import numpy as np
import pytest

from steelyard.errors import ExperimentError
from steelyard.evaluate.classification import classification


def test_by_hand() -> None:
    result = classification([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 1])
    # precision 1, ½, 0; recall ⅔, 1, 0; F1 .8, ⅔, 0
    assert result.precision == pytest.approx((1 + 0.5 + 0) / 3)
    assert result.recall == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert result.f1 == pytest.approx((0.8 + 2 / 3 + 0) / 3)
    assert result.mae == pytest.approx(2 / 6)
    assert result.accuracy == pytest.approx(4 / 6)


def test_quadratic_kappa_by_hand() -> None:
    truth, said = np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2])
    observed = ((truth - said) ** 2).sum()
    expected = np.mean([(a - b) ** 2 for a in truth for b in said]) * len(truth)
    assert classification(truth, said).kappa == pytest.approx(1 - observed / expected)


def test_a_perfect_and_a_constant_prediction() -> None:
    grades = np.array([0, 1, 2, 3])
    assert classification(grades, grades).f1 == 1.0
    assert classification(grades, np.zeros(4, dtype=int)).kappa == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(classification([1, 1], [1, 1]).kappa)


def test_a_grade_missing_from_the_test_set_does_not_count() -> None:
    assert classification([0, 0, 2], [0, 0, 2]).f1 == 1.0


def test_bad_input_is_named() -> None:
    with pytest.raises(ExperimentError, match="cannot be compared"):
        classification([0, 1], [0])
    with pytest.raises(ExperimentError, match="whole numbers"):
        classification([0, 1], [0.2, 0.9])
