from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from steelyard.errors import ExperimentError
from steelyard.evaluate.agreement import cohen_kappa, fleiss_kappa, raw_agreement, side_bias


def test_raw_agreement_and_cohens_kappa_by_hand_and_against_sklearn() -> None:
    first = np.repeat(["left", "left", "right", "right"], [20, 5, 10, 15])
    second = np.repeat(["left", "right", "left", "right"], [20, 5, 10, 15])
    assert raw_agreement(first, second) == pytest.approx(0.7)
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 80), rng.integers(0, 3, 80)
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))


def test_fleiss_against_statsmodels_and_with_uneven_raters() -> None:
    table = np.random.default_rng(1).multinomial(6, [0.5, 0.3, 0.2], size=30)
    assert fleiss_kappa(table) == pytest.approx(statsmodels_fleiss(table))
    assert fleiss_kappa([[2, 0], [0, 3], [4, 0]]) == pytest.approx(1.0)


def test_kappa_of_people_who_always_say_the_same_is_not_defined() -> None:
    assert np.isnan(cohen_kappa(["left"] * 4, ["left"] * 4))
    assert np.isnan(fleiss_kappa([[2, 0], [2, 0]]))
    assert np.isnan(raw_agreement([], []))


def test_side_bias() -> None:
    assert side_bias(50, 50).p_value == pytest.approx(1.0)
    biased = side_bias(80, 20)
    assert biased.share == 0.8
    assert biased.p_value < 1e-6
    assert np.isnan(side_bias(0, 0).share)


def test_bad_tables_are_refused() -> None:
    with pytest.raises(ExperimentError, match="at least two answers"):
        fleiss_kappa([[1, 0]])
    with pytest.raises(ExperimentError, match="same items"):
        raw_agreement([1, 2], [1])
