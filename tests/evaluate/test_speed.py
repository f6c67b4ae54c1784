"""Quick and slow answers."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.evaluate.speed import quick_and_slow, quicker_half, seconds_taken


def test_seconds_and_halves() -> None:
    assert seconds_taken([1.0, np.nan, 5.0], [3.5, 2.0, 4.0])[0] == 2.5
    assert np.isnan(seconds_taken([1.0, np.nan, 5.0], [3.5, 2.0, 4.0])[1:]).all(), (
        "unknown, or clocks disagree"
    )
    quick = quicker_half(np.array([1.0, 2.0, 3.0, 10.0, 20.0, np.nan]), [0, 0, 0, 1, 1, 1])
    assert quick.tolist() == [True, False, False, True, False, False], "each person by their own pace"


def test_easy_pairs_explain_quick_answers_and_haste_does_not_hide() -> None:
    rng = np.random.default_rng(0)
    easy = rng.random(2000) < 0.5
    chance = np.where(easy, 0.95, 0.6)
    careful = quick_and_slow(easy, rng.random(2000) < chance, chance)
    assert careful is not None
    assert careful.quick > careful.slow + 0.2
    assert careful.low < 0 < careful.high
    hasty = quick_and_slow(easy, rng.random(2000) < np.where(easy, 0.75, 0.6), chance)
    assert hasty is not None
    assert hasty.high < 0
    assert hasty.gap == pytest.approx(-0.2, abs=0.05)
    assert quick_and_slow(np.ones(30, dtype=bool), np.ones(30), np.ones(30)) is None
