"""A feature matrix and a finished run, made once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from steelyard.experiment import run_experiment
from steelyard.experiment.folder import RunFolder
from tests.experiment.small import small


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """150 images in 4 imbalanced grades of 30 groups, as a feature matrix."""
    folder = tmp_path_factory.mktemp("matrix")
    rng = np.random.default_rng(0)
    severity = rng.normal(size=150)
    grades = np.searchsorted(np.quantile(severity, [0.5, 0.75, 0.9]), severity)
    rows = severity[:, None] * rng.normal(size=12) + rng.normal(0, 2, (150, 12))
    np.save(folder / "features.npy", rows.astype(np.float32))
    table = pd.DataFrame(
        {"image": [f"i{k}" for k in range(150)], "grade": grades, "group": np.arange(150) % 30}
    )
    table.to_csv(folder / "labels.csv", index=False)
    return {"features": str(folder / "features.npy"), "labels": str(folder / "labels.csv")}


@pytest.fixture(scope="session")
def finished(matrix: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    config = small(matrix, methods=("baseline", "all", "random", "ubs", "epig", "conventional"))
    return run_experiment(config, tmp_path_factory.mktemp("run") / "RUN", command="steelyard experiment …")
