from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.experiment.folder import RunFolder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A small finished experiment: 6 methods, 3 folds, 2 seeds, 3 rounds."""
    folder: Path = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    severity = rng.normal(size=150)
    grades = np.searchsorted(np.quantile(severity, [0.5, 0.75, 0.9]), severity)
    rows = severity[:, None] * rng.normal(size=12) + rng.normal(0, 2, (150, 12))
    np.save(folder / "features.npy", rows.astype(np.float32))
    names = np.array(["0-1", "1", "1_2 & more", "3"])
    pd.DataFrame({"image": [f"i{k}" for k in range(150)], "grade": names[grades]}).to_csv(
        folder / "labels.csv", index=False
    )
    config = ExperimentConfig(
        features=str(folder / "features.npy"), labels=str(folder / "labels.csv"),
        methods=("baseline", "all", "random", "ubs", "epig:start=random:r=10", "conventional"),
        folds=3, seeds=2, rounds=2, jobs=1, test_pairs=100,
    )  # fmt: skip
    return run_experiment(
        config, folder / "RUN", command="steelyard experiment --features features.npy --out RUN"
    )
