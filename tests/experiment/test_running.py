"""Whoever waits for a run is told what it takes and sees it move."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from steelyard.config import ranker_preset
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.experiment.cell import Cell, run_cell
from steelyard.experiment.resources import cell_bytes, how_it_runs
from steelyard.experiment.running import doing, noting
from tests.experiment.small import data_of, small

PIXELS = np.zeros((10, 224, 224, 3), dtype=np.uint8)
ROWS = np.zeros((1000, 500), dtype=np.float32)


def test_how_it_runs_names_jobs_memory_and_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.experiment.resources.cores", lambda: 8)
    quick = ExperimentConfig(features="x.npy", methods=("all",))
    text = how_it_runs(quick, ROWS, 15, 4_000_000_000)
    assert text == (
        "15 cells to compute, 8 at a time (--jobs; 8 cores here), one thread and about 0.2 GB of memory each; 4.0 GB are free"
    )
    assert "1 cell to compute, 1 at a time" in how_it_runs(quick, ROWS, 1, None)
    assert how_it_runs(quick, ROWS, 0, None).startswith("every cell is there")
    paper = ExperimentConfig(images="x", preset="paper", jobs=4)
    text = how_it_runs(paper, PIXELS, 30, 40_000_000_000)
    assert "4 at a time" in text
    assert text.endswith("more than the 40.0 GB that are free: --jobs 2 would fit")
    assert text.count("about 15.9 GB") == 1
    one = paper.with_changes(jobs=1)
    assert how_it_runs(one, PIXELS, 30, 4_000_000_000).endswith("a smaller --ranker batch_size takes less")
    ray = how_it_runs(quick.with_changes(engine="ray"), ROWS, 15, 4_000_000_000)
    assert "on Ray, as many at a time as the cluster has cores" in ray


def test_memory_grows_with_what_is_trained() -> None:
    small_network, paper = ranker_preset("small"), ranker_preset("paper")
    assert cell_bytes(small_network, PIXELS) < cell_bytes(paper, PIXELS) / 5
    half = ranker_preset("paper", batch_size=16)
    assert cell_bytes(half, PIXELS) < 0.55 * cell_bytes(paper, PIXELS)


def test_a_cell_notes_its_round_and_epoch(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, methods=("ubs",), ranker={"kind": "network", "epochs": 3}, rounds=1, draws=2)
    said: list[str] = []
    run_cell(Cell("ubs", 0, 0), data_of(matrix, tmp_path, config), config, note=said.append)
    assert said[0] == "in round 0 of 1, training"
    assert "in round 0 of 1, training 2 of 3" in said
    assert any(text.startswith("in round 1 of 1, scoring ") for text in said)


def test_notes_are_seen_while_a_cell_is_at_work_and_gone_afterwards(tmp_path: Path) -> None:
    clock = iter([0.0, 1.0, 1.0, 2.0, 9.0, 9.0]).__next__
    since = time.time()
    with noting(tmp_path, "ubs-f0-s0", clock) as note:
        note("in round 0")
        assert doing(tmp_path, ["ubs-f0-s0", "ubs-f1-s0"], since) == ["ubs-f0-s0 in round 0"]
        note("too soon")
        assert doing(tmp_path, ["ubs-f0-s0"], since) == ["ubs-f0-s0 in round 0"]
        note("in round 1")
        assert doing(tmp_path, ["ubs-f0-s0"], since) == ["ubs-f0-s0 in round 1"]
        assert doing(tmp_path, ["ubs-f0-s0"], since + 100) == [], "said before this run began"
    assert doing(tmp_path, ["ubs-f0-s0"], since) == []
    assert not (tmp_path / ".now").exists()


def test_progress_tells_of_cells_at_work(
    matrix: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.experiment import running

    monkeypatch.setattr(running, "_EVERY", 0.01)
    told: list[tuple[int, int, str]] = []
    begun: list[str] = []
    config = small(
        matrix, methods=("ubs",), only_folds=(0,), ranker={"kind": "network", "epochs": 20, "patience": 20}, rounds=1, draws=2,
        classify=False,
    )  # fmt: skip
    run_experiment(config, tmp_path / "RUN", progress=lambda *now: told.append(now), begin=begun.append)
    assert len(begun) == 1
    assert begun[0].startswith("1 cell to compute, 1 at a time (--jobs; ")
    assert any("ubs-f0-s0 in round 0 of 1, training " in text for _, _, text in told)
    assert told[-1][:2] == (1, 1)
    assert not (tmp_path / "RUN" / ".now").exists()


def test_a_log_file_has_what_a_run_takes_and_how_far_it_is(matrix: dict[str, str], tmp_path: Path) -> None:
    """No terminal: lines, the first before anything is computed; here with minutes of a tenth of a second."""
    script = (
        "import sys\nfrom steelyard import terminal\nterminal.FIRST_SECONDS, terminal.EVERY_SECONDS = 0.0, 0.1\n"
        "from steelyard.cli import main\nmain()\n"
    )
    settings = [
        "--methods",
        "ubs",
        "--only-folds",
        "0",
        "--seeds",
        "1",
        "--rounds",
        "1",
        "--jobs",
        "1",
        "--no-classify",
    ]
    settings += ["--ranker", "kind=network", "--ranker", "epochs=60", "--ranker", "patience=60"]
    done = subprocess.run(
        [sys.executable, "-c", script, "experiment", "--features", matrix["features"], "--labels", matrix["labels"],
         "--out", str(tmp_path / "RUN"), *settings],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert lines[0].startswith("1 cell to compute, 1 at a time (--jobs; ")
    assert any("cells 0 of 1" in line for line in lines)
    assert lines[-1].endswith("cells 1 of 1")
