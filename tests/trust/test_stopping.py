"""Advice on stopping, in words."""

from __future__ import annotations

import numpy as np

from steelyard.trust.stopping import advise


def test_advice_says_when_to_stop_and_why() -> None:
    nothing = advise((np.nan, np.nan, np.nan, 0), answers=3, budget=100, earlier=[])
    assert not nothing.stop
    assert "cannot be estimated" in nothing.sentence
    early = advise((0.8, 0.5, 0.9, 10), answers=10, budget=100, earlier=[0.8])
    assert not early.stop
    assert "Too few random pairs" in early.sentence
    going = advise((0.8, 0.7, 0.9, 50), answers=50, budget=100, earlier=[0.6, 0.7, 0.75, 0.8])
    assert not going.stop
    assert "50 more answers" in going.sentence
    flat = advise((0.8, 0.7, 0.9, 50), answers=50, budget=100, earlier=[0.8, 0.80, 0.805, 0.802])
    assert flat.stop
    assert "less than a point" in flat.sentence
    spent = advise((0.8, 0.7, 0.9, 50), answers=100, budget=100, earlier=[])
    assert spent.stop
    assert spent.to_dict()["pairs"] == 50
    assert "80%" in spent.sentence
