"""Two processes train as one does, and take up one another's checkpoints."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import ProcessError
from steelyard.ranker import checkpoint
from steelyard.ranker.train import TrainResult

PROGRAM = Path(__file__).with_name("together.py")
_spec = importlib.util.spec_from_file_location("together", PROGRAM)
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


# Three processes load torch; on a machine that others use that takes its time.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All cases in two processes of one `torchrun`; the second begins where one process was stopped."""
    out = tmp_path_factory.mktemp("together")
    with pytest.raises(cases.Stopped):
        cases.fitted(cases.on_rows(epochs=4), folder=out / "by one", progress=cases.stop_after(2))
    shutil.copytree(out / "by one", out / "as it was")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(PROGRAM), str(out)],
        check=False, timeout=600, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert "Stopped" in done.stderr, done.stderr[-3000:]
    assert "SIGABRT" not in done.stderr
    found: dict[str, Any] = pickle.loads((out / "found").read_bytes())
    return out, found


Trained = tuple[dict[str, Any], TrainResult]


def assert_same(one: Trained, other: Trained, within: float = 1e-6) -> None:
    (weights, result), (theirs, they) = one, other
    assert [entry.epoch for entry in result.history] == [entry.epoch for entry in they.history]
    assert result.best_epoch == they.best_epoch
    for entry, their in zip(result.history, they.history, strict=True):
        for what in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
            got, wanted = getattr(their, what), getattr(entry, what)
            assert got == pytest.approx(wanted, abs=within, nan_ok=True), what
    for name, value in weights.items():
        assert np.abs(value - theirs[name]).max() < within, name


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.CASES)
def test_two_processes_equal_one(by_two: tuple[Path, dict[str, Any]], name: str) -> None:
    assert_same(cases.CASES[name](), by_two[1][name], within=1e-4 if "single" in name else 1e-6)


@pytest.mark.slow
def test_a_checkpoint_of_one_process_is_taken_up_by_two_and_the_other_way_round(
    by_two: tuple[Path, dict[str, Any]],
) -> None:
    out, found = by_two
    whole = cases.fitted(cases.on_rows(epochs=4))
    assert_same(whole, found["resumed"])
    before = checkpoint.load(out / "as it was").extra["history"]
    assert len(before) == 2
    after = checkpoint.load(out / "by one").extra["history"]
    assert after[:2] == before  # taken up, not begun anew: every bit of the first epochs is one process's

    left = checkpoint.load(out / "by two").extra["history"]
    assert len(left) == 2
    resumed = cases.fitted(cases.on_rows(epochs=4), folder=out / "by two")
    assert [entry.to_json() for entry in resumed[1].history[:2]] == left
    assert_same(whole, resumed)


@pytest.mark.slow
def test_all_processes_leave_a_training_that_fails_and_are_there_for_the_next(
    by_two: tuple[Path, dict[str, Any]],
) -> None:
    assert "the loss became nan in epoch 0, step" in by_two[1]["not finite"]


def test_processes_that_were_not_joined_are_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ProcessError, match="torchrun has started 2 processes, and each of them would train"):
        cases.fitted(cases.on_rows(), folder=tmp_path)
