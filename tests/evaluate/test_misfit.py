"""Infit and outfit, by hand and where the probabilities hold."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import ExperimentError
from steelyard.evaluate.misfit import misfit


def test_by_hand() -> None:
    """Two answers, one expected with .8, one against odds of .9."""
    found = misfit([[0.8, 0, 0.2], [0.9, 0, 0.1]], [1.0, 0.0], [0, 0], 2, against_others=False)
    assert found.infit[0] == pytest.approx((0.2**2 + 0.9**2) / (0.16 + 0.09), rel=0.02)
    assert found.outfit[0] == pytest.approx((0.2**2 / 0.16 + 0.9**2 / 0.09) / 2, rel=0.02)
    assert found.answers.tolist() == [2, 0]
    assert np.isnan(found.infit[1])


def test_where_probabilities_hold_both_are_one_and_z_is_normal() -> None:
    rng = np.random.default_rng(0)
    z, fits = [], []
    for _ in range(200):
        p = rng.dirichlet([2, 1, 2], 300)
        luck = rng.random(300)
        said = np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, 0] + p[:, 1], 0.5, 0.0))
        found = misfit(p, said, rng.integers(0, 5, 300), 5)
        z.append(found.z)
        fits.append((found.overall, found.outfit.mean()))
    assert np.mean(fits, axis=0) == pytest.approx([1, 1], abs=0.02)
    assert np.mean(z) == pytest.approx(0, abs=0.1)
    assert np.std(z) == pytest.approx(1, abs=0.1)


def test_who_guesses_stands_out_and_probabilities_that_are_off_for_all_flag_nobody() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 0.2, 1], 1000)
    luck, who = rng.random(1000), rng.integers(0, 4, 1000)
    said = np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, 0] + p[:, 1], 0.5, 0.0))
    said[who == 2] = rng.integers(0, 2, int((who == 2).sum()))
    found = misfit(p, said, who, 4)
    assert found.z[2] > 4
    assert found.infit[2] > 1.3
    assert (found.z[[0, 1, 3]] < 2).all()
    flat = np.full((1000, 3), 1 / 3)
    fair = misfit(flat, said, np.arange(1000) % 4, 4)
    assert (np.abs(fair.z) < 3).all()


def test_one_slip_is_no_outfit_of_a_thousand_and_what_is_not_known_takes_no_part() -> None:
    assert misfit([[1 - 1e-9, 0, 1e-9]] * 10, [1.0] * 9 + [0.0], [0] * 10, 1).outfit[0] < 60
    nan = float("nan")
    found = misfit([[nan] * 3, [0.5, 0, 0.5], [0.5, 0, 0.5]], [1.0, nan, 1.0], [0, 0, 0], 1)
    assert found.answers.tolist() == [1]
    assert np.isnan(misfit(np.zeros((0, 3)), [], [], 0).overall)
    with pytest.raises(ExperimentError, match="a group each"):
        misfit([[0.5, 0, 0.5]], [1.0, 0.0], [0, 0], 1)


def test_one_sure_answer_that_is_as_expected_flags_nobody() -> None:
    """The correction of Wilson and Hilferty grows with the noise, and one answer that is all but certain has much of it."""
    rng = np.random.default_rng(0)
    p = np.column_stack([np.full(61, 0.7), np.zeros(61), np.full(61, 0.3)])
    p[60] = [0.9999, 0.0, 0.0001]
    said = (rng.random(61) < 0.7).astype(float)
    who = np.append(np.arange(60) % 3, 3)
    said[60] = 1.0
    assert misfit(p, said, who, 4).z[3] <= 0
    said[60] = 0.0
    assert misfit(p, said, who, 4).z[3] > 3, "and one that nobody would have expected does"
