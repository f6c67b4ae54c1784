"""Score ± 1.96 deviations: the short form of `benchmarks/score_intervals.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from score_intervals import coverage


def test_intervals_of_new_images_hold_what_they_say() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((400, 30)) / np.sqrt(30)
    pool, new = features[:250] - features[:250].mean(0), features[250:] - features[:250].mean(0)
    for answers in (60, 250):
        held = np.mean([coverage(pool, new, spread=2.0, answers=answers, seed=s) for s in range(16)], axis=0)
        assert 0.93 < held[0] < 0.99, (answers, held)
