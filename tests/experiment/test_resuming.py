"""A run that was stopped goes on; what is there is not computed again."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steelyard.errors import ExperimentError
from steelyard.experiment import run_experiment
from steelyard.experiment.folder import RunFolder
from tests.experiment.small import small

SECONDS = ["train_s", "score_s", "select_s"]
KILLED = """
import sys
from steelyard.experiment import ExperimentConfig, run_experiment
import json
run_experiment(ExperimentConfig.from_dict(json.loads(sys.argv[1])), sys.argv[2], resume=True)
"""


def test_killed_three_times_and_resumed_gives_the_same_results(
    matrix: dict[str, str], tmp_path: Path
) -> None:
    config = small(matrix, seeds=3, classify=False)
    whole = run_experiment(config, tmp_path / "whole")
    broken = RunFolder(tmp_path / "broken")
    stamps: dict[str, int] = {}
    for wanted in (2, 6, 10):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, json.dumps(config.to_dict()), str(broken.path)]
        )
        while process.poll() is None:
            there = [p for p in broken.cells.iterdir() if p.name[0] != "."] if broken.cells.exists() else []
            if len(there) >= wanted:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.002)
        assert process.wait() == -signal.SIGKILL, "it was to be killed half-way"
        assert not (broken.path / "results.csv").exists()
        for path in broken.cells.glob("[!.]*/rows.json"):
            stamps.setdefault(path.parent.name, path.stat().st_mtime_ns)
    run_experiment(config, broken.path, resume=True)
    assert len(stamps) >= 10
    for name, stamp in stamps.items():
        assert (broken.cells / name / "rows.json").stat().st_mtime_ns == stamp, (
            "a finished cell was computed again"
        )
    # Times are measured, everything else is computed.
    pd.testing.assert_frame_equal(
        broken.table("results").drop(columns=SECONDS),
        whole.table("results").drop(columns=SECONDS),
        check_exact=True,
    )
    for name in ("outcomes", "asked", "scores"):
        pd.testing.assert_frame_equal(broken.table(name), whole.table(name), check_exact=True)
    assert not [p for p in broken.cells.iterdir() if p.name.startswith(".")]


def test_nothing_is_computed_when_all_is_there(
    finished: RunFolder, matrix: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (finished.path / "results.csv").read_bytes()
    monkeypatch.setattr(
        "steelyard.experiment.runner.run_cell", lambda *_: pytest.fail("a cell was computed again")
    )
    config = small(matrix, methods=("baseline", "all", "random", "ubs", "epig", "conventional"))
    told: list[tuple[int, int, str]] = []
    run_experiment(
        config,
        finished.path,
        resume=True,
        command="steelyard experiment …",
        progress=lambda *call: told.append(call),
    )
    assert (finished.path / "results.csv").read_bytes() == before
    assert told[-1] == (12, 12, "cells: 12 found finished")


def test_what_a_living_process_is_writing_stays(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, methods=("all",), only_folds=(0,))
    folder = run_experiment(config, tmp_path / "RUN")
    host = platform.node().partition(".")[0]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {
        "mine": f".x-f0-s0.{host}.{os.getpid()}",
        "left": f".x-f0-s1.{host}.{dead.pid}",
        "far": ".x-f0-s2.other-host.1",
    }
    for name in names.values():
        (folder.cells / name).mkdir()
    run_experiment(config, tmp_path / "RUN", resume=True)
    assert {key for key, name in names.items() if (folder.cells / name).exists()} == {"mine", "far"}


def test_methods_and_seeds_can_be_added(matrix: dict[str, str], tmp_path: Path) -> None:
    run_experiment(small(matrix, methods=("random",), only_folds=(0,)), tmp_path / "RUN")
    told: list[tuple[int, int, str]] = []
    folder = run_experiment(
        small(matrix, methods=("all",), seeds=2),
        tmp_path / "RUN",
        resume=True,
        progress=lambda *call: told.append(call),
    )
    table = folder.table("results")
    assert table.groupby("method", sort=False).size().to_dict() == {"random": 3, "all": 4}
    assert told == [(done, 4, "cells") for done in range(5)]


@pytest.mark.parametrize(
    ("changes", "resume", "message"),
    [
        ({}, False, "already holds an experiment; go on with it with --resume"),
        ({"r": 10.0}, True, r"made with r=20.0, not 10.0"),
        ({"ranker": {"components": 4}}, True, "made with ranker="),
    ],
)
def test_another_configuration_is_refused(
    finished: RunFolder, matrix: dict[str, str], changes: dict[str, Any], resume: bool, message: str
) -> None:
    with pytest.raises(ExperimentError, match=message):
        run_experiment(small(matrix, **changes), finished.path, resume=resume)


def test_other_data_and_strange_folders_are_refused(matrix: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(ExperimentError, match="not empty and holds no experiment"):
        run_experiment(small(matrix), tmp_path / "full")
    changed = tmp_path / "features.npy"
    np.save(changed, np.load(matrix["features"]))
    config = small(matrix, features=str(changed), methods=("all",), only_folds=(0,))
    run_experiment(config, tmp_path / "RUN")
    np.save(changed, np.load(matrix["features"]) + 1)
    with pytest.raises(ExperimentError, match="made with other data"):
        run_experiment(config, tmp_path / "RUN", resume=True)
