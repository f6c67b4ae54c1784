"""Mistakes in settings and data are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from steelyard.errors import ConfigError, ExperimentError
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.experiment.folder import RunFolder
from tests.experiment.small import small


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ()}, "no methods given"),
        ({"methods": ("random", "random")}, "'random' is named twice"),
        ({"methods": ("epgi",)}, "did you mean 'epig'"),
        (
            {"methods": ("epig:start=spred",)},
            "'start' in method 'epig:start=spred' is one of spread, clusters, random",
        ),
        ({"methods": ("epig:fast",)}, "'fast' in 'epig:fast' is not an option"),
        ({"methods": ("baseline:targets=3",)}, "takes no option 'targets'"),
        ({"methods": ("epig:r=0",)}, "percentages above 0"),
        ({"folds": 2}, "at least 3 folds"),
        ({"only_folds": (5,)}, "fold 5; folds are 0 … 4"),
        ({"seeds": 0}, "at least one seed"),
        ({"r": 120.0}, r"\'r\' is a percentage above 0, up to 100, not 120\.0"),
        ({"jobs": -1}, "'jobs' is 0 or more, not -1"),
        ({"engine": "slurm"}, "'engine' is one of local, ray; not 'slurm'"),
        ({"start": "here"}, "'start' is one of spread, clusters, random, or a plug-in"),
        ({"annotator": "noisi"}, "did you mean 'noisy'"),
        ({"annotator": "noisy:sclae=1"}, "no option 'sclae'"),
        ({"ranker": {"componets": 3}}, "components"),
        ({"ranker": {"hidden": 8}}, "'ranker.hidden' belongs to the network ranker"),
        ({"ranker": {"backbone": "lite0"}}, "'lite0' takes pictures, and 'features' gives rows"),
        ({"methods": ("ubs:head=mlp:components=8",)}, "'ranker.components' belongs to the convex ranker"),
        ({"methods": ("ubs:hidden=8",)}, "'ranker.hidden' belongs to the network ranker"),
        ({"methods": ("ubs:posterior=draws",)}, "the convex one's is always laplace"),
        ({"methods": "all"}, "'methods' is a list of texts, not 'all'"),
        (
            {"features": "", "methods": ("ubs:backbone=lite0",)},
            "all methods of an experiment see the same; set it for all",
        ),
    ],
)
def test_mistakes_in_the_settings_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExperimentConfig(**{"features": "x.npy", "methods": ("all",), **changes})


def test_mistakes_in_the_data_are_named(matrix: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="no data given"):
        run_experiment(ExperimentConfig(methods=("all",)), tmp_path / "RUN")
    with pytest.raises(ConfigError, match="did you mean 'rounds'"):
        ExperimentConfig.from_dict({"round": 3})
    with pytest.raises(ExperimentError, match="needs graded images"):
        run_experiment(small(matrix, labels=""), tmp_path / "RUN")
    flat = tmp_path / "flat.csv"
    pd.DataFrame({"image": [f"i{k}" for k in range(150)], "grade": 1}).to_csv(flat, index=False)
    with pytest.raises(ExperimentError, match="same grade"):
        run_experiment(small(matrix, labels=str(flat)), tmp_path / "RUN")
    with pytest.raises(ExperimentError, match="holds no experiment"):
        RunFolder(tmp_path).describe()
    with pytest.raises(ExperimentError, match="no table 'results'"):
        RunFolder(tmp_path).table("results")
