from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from steelyard.errors import ExperimentError
from steelyard.evaluate.calibration import calibration, error_by_variance, proportions, uncertainty_auroc


def test_honest_probabilities_are_calibrated_and_boastful_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(40_000)
    happened = (rng.random(40_000) < p).astype(float)
    honest = calibration(p, happened)
    assert honest.ece < 0.01
    assert honest.brier == pytest.approx(brier_score_loss(happened, p))
    assert calibration(np.where(p > 0.5, 0.99, 0.01), happened).ece > 0.2


def test_one_bin_by_hand() -> None:
    result = calibration([0.9, 0.9, 0.1, 0.9], [1, 0, 0, 1])
    assert result.stated == pytest.approx([0.9])
    assert result.observed == pytest.approx([0.75])
    assert result.ece == pytest.approx(0.15)
    assert result.count.tolist() == [4]


def test_the_order_within_a_pair_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    p, y = rng.random(500), rng.integers(0, 2, 500).astype(float)
    turned = rng.random(500) < 0.5
    first, second = calibration(p, y), calibration(np.where(turned, 1 - p, p), np.where(turned, 1 - y, y))
    assert first.ece == pytest.approx(second.ece)
    assert first.brier == pytest.approx(second.brier)


def test_auroc_of_uncertainty_against_sklearn() -> None:
    rng = np.random.default_rng(2)
    wrong = rng.random(300) < 0.3
    doubt = np.round(rng.normal(size=300) + wrong, 1)
    assert uncertainty_auroc(doubt, wrong) == pytest.approx(roc_auc_score(wrong, doubt))
    assert np.isnan(uncertainty_auroc([1.0, 2.0], [False, False]))


def test_slices_run_from_certain_to_uncertain() -> None:
    slices = error_by_variance([4.0, 1.0, 3.0, 2.0], [0.0, 1.0, 0.0, 1.0], slices=2)
    assert [(s.variance, s.accuracy, s.count) for s in slices] == [(1.5, 1.0, 2), (3.5, 0.0, 2)]


def test_proportions_leave_out_unknown_grades() -> None:
    assert proportions([0, 0, 2, -1], 3) == pytest.approx([2 / 3, 0, 1 / 3])
    assert proportions([], 2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("bad", [[1.2, 0.5], [float("nan"), 0.5]])
def test_no_probability_no_calibration(bad: list[float]) -> None:
    with pytest.raises(ExperimentError, match="between 0 and 1"):
        calibration(bad, [1, 0])
