"""Short forms of benchmarks/stopping.py: studies from the first answer to the end of their plan."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def stopping() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stopping_benchmark", FOLDER / "stopping.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _images(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Eight features, of which the severity is linear but for a third of it."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 8)).astype(np.float32)
    severity = rows @ np.linspace(1.0, 0.2, 8) + 0.5 * rng.standard_normal(n)
    return rows, severity


def test_whoever_is_told_to_stop_loses_less_than_a_point(stopping: ModuleType) -> None:
    studies = []
    for seed in range(4):
        rows, severity = _images(seed)
        studies.append(
            stopping.simulate(rows, severity, severity, annotator=("perfect", "noisy")[seed % 2], seed=seed)
        )
    stops = [study.stops.get("gain:points=1") for study in studies]
    assert sum(k is not None for k in stops) >= 2, "a rule that never stops is of no use"
    lost = [0.0 if k is None else study.gain(k) for study, k in zip(studies, stops, strict=True)]
    assert max(lost) < 0.015
    assert sum(one >= 0.01 for one in lost) <= 1
    assert all(stopping.first_sure(study, max(study.truth) + 0.005) is None for study in studies)
    assert len(stopping.table(studies)) == 5
