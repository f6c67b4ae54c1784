"""A small experiment, seconds long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steelyard.experiment import ExperimentConfig
from steelyard.experiment.data import ExperimentData, load_data


def small(matrix: dict[str, str], **changes: Any) -> ExperimentConfig:
    settings = {
        "methods": ("all", "random", "ubs"),
        "seeds": 1,
        "rounds": 2,
        "only_folds": (0, 1),
        "jobs": 1,
        "test_pairs": 100,
    }
    return ExperimentConfig(**{**matrix, **settings, **changes})


def data_of(matrix: dict[str, str], tmp_path: Path, config: ExperimentConfig) -> ExperimentData:
    return load_data(config, tmp_path)
