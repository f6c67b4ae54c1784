from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from steelyard.engine import cores, one_thread, run_all
from steelyard.errors import ConfigError, EngineError, MissingExtraError
from steelyard.experiment import ExperimentConfig, run_experiment, runner
from steelyard.experiment.runner import _compute as compute_cell


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


def fatal_for_five(x: int) -> int:
    if x == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def complaining(x: int) -> int:
    raise ConfigError(f"{x} is no good")


def proxy_here(_: int) -> str | None:
    return os.environ.get("http_proxy")


def cell_killed_once(task: Any) -> Any:
    """The first worker that computes a cell dies of it."""
    marker = Path(task.out).parent / "killed"
    if not marker.exists():
        marker.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return compute_cell(task)


@pytest.mark.slow
def test_ray_hands_out_work_again_but_not_for_ever(
    ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError, match="4 workers on Ray were lost on the same piece of work"):
        list(run_all(fatal_for_five, range(8), engine="ray", jobs=2))
    with pytest.raises(ConfigError, match="7 is no good"):  # as it was raised there
        list(run_all(complaining, [7], engine="ray"))
    # Ray's own processes must not reach the outside; work that was asked for must.
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert list(run_all(proxy_here, [0], engine="ray")) == ["http://proxy.example:3128"]
    assert list(run_all(square_and_where, [], engine="ray")) == []


def test_a_killed_process_is_said_plainly() -> None:
    with pytest.raises(EngineError, match="a worker process was killed"):
        list(run_all(fatal_for_five, range(8), jobs=2))


@pytest.mark.slow
def test_ray_computes_the_same_experiment_though_a_worker_is_killed(
    tmp_path: Path, ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(runner, "_compute", cell_killed_once)
    ray = run_experiment(
        config.with_changes(engine="ray", jobs=2), tmp_path / "ray", progress=lambda *call: told.append(call)
    )
    assert int((tmp_path / "killed").read_text()) != os.getpid()
    monkeypatch.undo()
    local = run_experiment(config.with_changes(jobs=1), tmp_path / "local")
    columns = ["method", "round", "pairs", "images", "overall", "neighboring"]
    assert ray.table("results")[columns].equals(local.table("results")[columns])
    assert told[-1][:2] == (2, 2)
