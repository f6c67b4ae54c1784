from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from steelyard.engine import cores, one_thread, run_all
from steelyard.errors import ConfigError, MissingExtraError
from steelyard.experiment import ExperimentConfig, run_experiment


def square_and_where(x: int) -> tuple[int, int, int]:
    _ = np.ones((4, 4)) @ np.ones((4, 4))
    threads = max((lib["num_threads"] for lib in threadpool_info()), default=1)
    return x * x, os.getpid(), threads


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_done_once_with_one_thread(jobs: int) -> None:
    found = list(run_all(square_and_where, range(7), jobs=jobs))
    assert sorted(value for value, _, _ in found) == [x * x for x in range(7)]
    assert {threads for _, _, threads in found} == {1}
    processes = {process for _, process, _ in found}
    assert (processes == {os.getpid()}) == (jobs == 1)


def test_one_thread_gives_back_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with one_thread():
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in os.environ


def test_no_tasks_no_results() -> None:
    assert list(run_all(square_and_where, [])) == []
    assert cores() >= 1


def test_unknown_engine_and_missing_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="unknown engine 'slurm'; there are local and ray"):
        run_all(square_and_where, [1], engine="slurm")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[ray\]"):
        list(run_all(square_and_where, [1], engine="ray"))


@pytest.mark.slow
def test_ray_computes_the_same_experiment(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    severity = rng.normal(size=60)
    np.save(tmp_path / "features.npy", severity[:, None] + rng.normal(0, 1, (60, 5)))
    rows = [f"i{k},{int(value > 0)}" for k, value in enumerate(severity)]
    (tmp_path / "labels.csv").write_text("\n".join(["image,grade", *rows]))
    config = ExperimentConfig(
        features=str(tmp_path / "features.npy"), labels=str(tmp_path / "labels.csv"), methods=("all", "ubs"),
        seeds=1, rounds=1, only_folds=(0,), test_pairs=50, classify=False,
    )  # fmt: skip
    told: list[tuple[int, int, str]] = []
    ray = run_experiment(
        config.with_changes(engine="ray", jobs=2), tmp_path / "ray", progress=lambda *call: told.append(call)
    )
    local = run_experiment(config.with_changes(jobs=1), tmp_path / "local")
    columns = ["method", "round", "pairs", "images", "overall", "neighboring"]
    assert ray.table("results")[columns].equals(local.table("results")[columns])
    assert told[-1][:2] == (2, 2)
