"""`steelyard train --processes`: what a study gains from it, and what a killed process costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import ConfigError
from steelyard.study import Study
from tests.waiting import until

from .conftest import answer

NETWORK = {
    "kind": "network", "hidden": 8, "epochs": 40, "patience": 40, "batch_size": 16, "precision": "64-true", "device": "cpu",
    "log": "csv",
}  # fmt: skip
START = [sys.executable, "-m", "steelyard.cli", "train"]


@pytest.fixture
def network_study(make_study: Callable[..., Study]) -> Study:
    study = make_study(ranker=NETWORK, ask={"start": "random", "random_share": 0.0})
    answer(study, 30)
    return study


def epochs_of(study: Study) -> list[dict[str, float]]:
    """Epochs in the checkpoint of a training under way."""
    for path in (study.folder / "models").glob(".training-*/checkpoint.json"):
        history: list[dict[str, float]] = json.loads(path.read_text())["extra"]["history"]
        return history
    return []


@pytest.mark.slow
@pytest.mark.timeout(1800)  # six processes load torch; on a machine that others use that takes its time
def test_a_killed_process_ends_the_training_soon_and_the_next_goes_on_from_there(
    network_study: Study, make_study: Callable[..., Study], tmp_path: Path
) -> None:
    study = network_study
    command = [*START, str(study.folder), "--processes", "2"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (tmp_path / "said").open("w+") as said:
        running = subprocess.Popen(command, stdout=said, stderr=said, env=env)
        try:
            until(
                lambda: len(epochs_of(study)) >= 2 or running.poll() is not None, "two epochs", seconds=600, every=0.005
            )  # fmt: skip
            family = psutil.Process(running.pid).children(recursive=True)
            (second,) = [one for one in family if one.environ().get("RANK") == "1"]
            second.send_signal(signal.SIGKILL)
            assert running.wait(timeout=200) == 2
        finally:
            for one in (
                [*psutil.Process(running.pid).children(recursive=True), running]
                if running.poll() is None
                else []
            ):
                one.kill()
            running.wait()
        said.seek(0)
        text = said.read()
    assert not psutil.wait_procs(family, timeout=60)[1]  # nobody is left behind
    assert "train again, and it goes on from the last epoch that was finished" in text
    assert "Traceback" not in text
    # Nothing was published, nothing is lost, and nobody has to wait for the lease.
    assert study.store.models.all() == []
    assert study.store.models.trainer.state().owner is None
    assert study.store.answers.count() == 30
    kept = epochs_of(study)
    assert 2 <= len(kept) < NETWORK["epochs"]

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    assert "model 1 trained on 30 answers" in done.stdout
    model = study.store.models.newest()
    assert model is not None
    log = np.genfromtxt(study.folder / model.path / "log.csv", delimiter=",", names=True)
    assert log["loss"][: len(kept)].tolist() == [
        entry["loss"] for entry in kept
    ]  # gone on with, not begun anew

    undisturbed = make_study(ranker=NETWORK, ask={"start": "random", "random_share": 0.0})
    answer(undisturbed, 30)
    alone = undisturbed.fit()  # in this process
    expected = np.genfromtxt(alone.folder / "log.csv", delimiter=",", names=True)
    for what in ("loss", "validation_loss"):
        assert log[what] == pytest.approx(expected[what], abs=1e-6)
    one, other = study.score(), undisturbed.score()
    assert one["score"].to_numpy() == pytest.approx(other["score"].to_numpy(), abs=1e-5)


def test_a_convex_ranker_needs_no_processes(make_study: Callable[..., Study]) -> None:
    done = CliRunner().invoke(app, ["train", str(make_study().folder), "--processes", "2"])
    assert isinstance(done.exception, ConfigError)
    assert "convex and fitted by one process" in str(done.exception)


def test_torchrun_is_for_train_alone_and_says_so_once(
    make_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = str(make_study().folder)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    for words in (["status", study], ["worker", study, "--once"], ["experiment", "--out", "run"]):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, ConfigError)
        assert f"`steelyard {words[0]}` runs in one process" in str(done.exception)
    done = CliRunner().invoke(app, ["train", study, "--processes", "2"])
    assert "leave --processes out" in str(done.exception)
    monkeypatch.setenv("RANK", "1")
    done = CliRunner().invoke(app, ["status", study])
    assert (done.exit_code, done.output) == (0, "")
