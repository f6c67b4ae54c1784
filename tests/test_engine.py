from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from steelyard.engine import cores, one_thread, run_all
from steelyard.errors import ConfigError, MissingExtraError


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
