"""One half of the images to choose on, the other to report: they share nothing, and a run says which it took."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import ConfigError, ExperimentError
from steelyard.experiment import run_experiment
from tests.experiment.small import data_of, small


def test_halves_share_no_image_and_make_up_the_whole(matrix: dict[str, str], tmp_path: Path) -> None:
    whole = data_of(matrix, tmp_path, small(matrix))
    choose, report = (data_of(matrix, tmp_path, small(matrix, half=half)) for half in ("choose", "report"))
    assert sorted([*choose.images, *report.images]) == sorted(whole.images)
    for part in (choose, report):
        rows = [whole.images.index(name) for name in part.images]
        assert (part.inputs == whole.inputs[rows]).all()
        assert (part.grades == whole.grades[rows]).all()
        assert abs(len(part) - len(whole) / 2) <= 2
        assert np.unique(part.grades).tolist() == np.unique(whole.grades).tolist()


def test_a_run_keeps_to_its_half(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, half="report", methods=("random",), only_folds=(0,))
    run = run_experiment(config, tmp_path / "RUN")
    assert set(run.table("images")["image"]) == set(data_of(matrix, tmp_path, config).images)
    with pytest.raises(ExperimentError, match="half"):
        run_experiment(config.with_changes(half="choose"), tmp_path / "RUN", resume=True)


def test_another_word_is_refused(matrix: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="'half'"):
        small(matrix, half="first")
