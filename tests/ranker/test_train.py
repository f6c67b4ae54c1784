"""The loop: learns, stops, resumes bit for bit, computes what is deterministic once, and fails with a name."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from steelyard.config import RankerConfig, ranker_preset
from steelyard.errors import RankerError
from steelyard.ranker import checkpoint
from steelyard.ranker.dropout import bayesian
from steelyard.ranker.network import Network, build_network
from steelyard.ranker.scoring import batches_of, draw_scores, mean_scores
from steelyard.ranker.train import fit_conventional, train

RNG = np.random.default_rng(0)
GRADES = RNG.integers(0, 4, 120)
IMAGES = RNG.integers(0, 90, (120, 24, 24, 3)).astype(np.uint8)
IMAGES[..., 0] += (GRADES * 40).astype(np.uint8)[:, None, None]
ROWS = RNG.normal(size=(120, 12)).astype(np.float32)
ROWS[:, 0] += GRADES
PAIRS = np.array([(i, j) for i, j in RNG.integers(0, 120, (100, 2)) if i != j])
ANSWERS = (np.sign(GRADES[PAIRS[:, 0]] - GRADES[PAIRS[:, 1]]) + 1) / 2
CPU: dict[str, Any] = {"device": "cpu"}


def on_rows(**changes: Any) -> RankerConfig:
    return ranker_preset("features", **{"kind": "network", "hidden": 16, "epochs": 4, **CPU, **changes})


def on_images(**changes: Any) -> RankerConfig:
    return ranker_preset("small", **{"image_size": 24, "epochs": 3, **CPU, **changes})


def fitted(config: RankerConfig, **options: Any) -> tuple[Network, Any]:
    rows = config.backbone == "none"
    network = build_network(config, seed=3, width=12 if rows else 0)
    result = train(network, ROWS if rows else IMAGES, PAIRS, ANSWERS, config=config, seed=1, **options)
    return network, result


def equal(one: Network, other: Network) -> bool:
    return all(torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items())


@pytest.mark.parametrize("units", ["channel", "element"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
def test_scores_come_to_follow_the_answers(units: str, masks: str, ties: str) -> None:
    config = on_rows(units=units, masks=masks, ties=ties, epochs=30, patience=30, learning_rate=1e-2)
    network, result = fitted(config)
    scores = mean_scores(network, batches_of(ROWS, 50))
    unequal = ANSWERS != 0.5
    ordered = np.sign(scores[PAIRS[:, 0]] - scores[PAIRS[:, 1]]) == np.sign(ANSWERS - 0.5)
    assert ordered[unequal].mean() > 0.85
    assert result.history[-1].loss < result.history[0].loss
    assert (result.tau is not None) == (ties == "rao_kupper")


def test_images_are_learnt_end_to_end_with_augmentation_and_grades() -> None:
    config = on_images(epochs=8, multitask=True, augment=True, learning_rate=3e-3)
    network, result = fitted(config, grades=np.where(np.arange(120) < 60, GRADES, -1))
    scores = mean_scores(network, batches_of(IMAGES, 50))
    assert np.corrcoef(scores, GRADES)[0, 1] > 0.9
    assert result.history[result.best_epoch].validation_loss == min(e.validation_loss for e in result.history)


def test_tau_learns_how_many_ties_there_are() -> None:
    taus = []
    for ties in (False, True):
        answers = np.full(len(PAIRS), 0.5) if ties else np.where(ANSWERS == 0.5, 1.0, ANSWERS)
        config = on_rows(ties="rao_kupper", epochs=20, patience=20, learning_rate=3e-2)
        network = build_network(config, seed=0, width=12)
        taus.append(train(network, ROWS, PAIRS, answers, config=config, seed=0).tau)
    assert taus[0] < 0.5 < 1.0 < taus[1]  # it starts at log 2


def test_same_seed_same_weights_other_seed_others() -> None:
    config = on_images(augment=True)
    one, result = fitted(config)
    other, again = fitted(config)
    assert equal(one, other)
    assert result == again
    network = build_network(config, seed=3)
    train(network, IMAGES, PAIRS, ANSWERS, config=config, seed=2)
    assert not equal(one, network)


class Killed(Exception):
    pass


def kill_after(epochs: int) -> Any:
    def progress(done: int, total: int, text: str) -> None:
        if done == epochs:
            raise Killed

    return progress


@pytest.mark.parametrize("make", [on_rows, on_images])
def test_resumed_is_as_never_killed(tmp_path: Path, make: Any) -> None:
    config = make(ties="rao_kupper", epochs=4)
    whole, expected = fitted(config, folder=tmp_path / "whole")
    for epochs in (1, 3):
        with pytest.raises(Killed):
            fitted(config, folder=tmp_path / "killed", progress=kill_after(epochs))
    resumed, result = fitted(config, folder=tmp_path / "killed")
    assert equal(whole, resumed)
    assert result == expected
    # and a finished run is not run again
    seen: list[str] = []
    finished, again = fitted(config, folder=tmp_path / "killed", progress=lambda d, t, s: seen.append(s))
    assert equal(whole, finished)
    assert (again, seen) == (expected, [])
    saved = checkpoint.load(tmp_path / "killed")
    assert saved.config["ties"] == "rao_kupper"
    assert saved.optimizer == {}


SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_train import *
def die(done, total, text):
    if done == 2:
        os.kill(os.getpid(), signal.SIGKILL)
fitted(on_rows(), folder=Path({folder!r}), progress=die)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_run_to_resume(tmp_path: Path) -> None:
    whole, _ = fitted(on_rows())
    script = SCRIPT.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=120, env={**os.environ})
    assert done.returncode == -signal.SIGKILL
    assert len(checkpoint.load(tmp_path / "run").extra["history"]) == 2
    resumed, _ = fitted(on_rows(), folder=tmp_path / "run")
    assert equal(whole, resumed)


def test_a_folder_with_another_run_is_refused(tmp_path: Path) -> None:
    fitted(on_rows(epochs=1), folder=tmp_path)
    with pytest.raises(RankerError, match="trained on other data"):
        fitted(on_rows(epochs=1, learning_rate=0.5), folder=tmp_path)


def test_early_stopping_keeps_the_best_epoch() -> None:
    """Validation answers that contradict training get worse with every step: the first epoch is the best."""
    config = on_rows(epochs=50, patience=3, learning_rate=1e-2, dropout=0.1)
    network = build_network(config, seed=0, width=12)
    held = (PAIRS, 1 - ANSWERS)
    kept: list[dict[str, torch.Tensor]] = []
    result = train(
        network, ROWS, PAIRS, ANSWERS, validation=held, config=config, seed=0,
        progress=lambda done, total, text: kept.append({k: v.clone() for k, v in network.state_dict().items()}),
    )  # fmt: skip
    assert result.best_epoch == 0
    assert len(result.history) == 4
    assert all(torch.equal(value, kept[0][key]) for key, value in network.state_dict().items())


def test_without_validation_the_training_loss_decides() -> None:
    network, result = fitted(on_rows(validation_share=0.0))
    assert np.isnan(result.history[0].validation_loss)
    assert result.best_epoch == int(np.argmin([entry.loss for entry in result.history]))
    assert not network.training


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += len(x)
        return x


@pytest.mark.parametrize("frozen", [False, True])
def test_deterministic_part_runs_once_per_distinct_image_never_per_pair(frozen: bool) -> None:
    pairs = np.array([(0, k) for k in range(1, 9)])  # one image in all pairs
    counting, config = Counting(), on_rows(epochs=3, batch_size=4, validation_share=0.0)
    network = Network(nn.Sequential(nn.Linear(12, 6), counting), 6)
    bayesian(network.last, 0.2)
    if frozen:
        network.freeze_backbone()
    train(network, ROWS, pairs, np.ones(8), config=config, seed=0)
    distinct_in_step = 5  # image 0 and four others
    assert counting.rows == (9 if frozen else 3 * 2 * distinct_in_step)


def test_loss_that_is_not_finite_names_epoch_step_and_rate() -> None:
    rows = ROWS.copy()
    rows[PAIRS[0, 0]] = np.inf
    network = build_network(on_rows(), seed=0, width=12)
    with pytest.raises(RankerError, match=r"nan in epoch 0, step \d+, at learning rate 0.001; lower"):
        train(network, rows, PAIRS, ANSWERS, config=on_rows(validation_share=0.0), seed=0)


def test_conventional_classification_learns() -> None:
    config = on_rows(epochs=30, patience=30, learning_rate=1e-2)
    network = build_network(config, seed=0, width=12, outputs=4)
    index, rows = np.arange(120), ROWS.copy()
    rows[:, 0] += 3 * GRADES
    result = fit_conventional(
        network, rows, index[:80], GRADES[:80], validation=(index[80:], GRADES[80:]), config=config, seed=0
    )
    assert result.history[result.best_epoch].validation_accuracy > 0.45  # chance is 0.25
    assert mean_scores(network, batches_of(rows, 64)).shape == (120, 4)
    with pytest.raises(RankerError, match="codes 0 … 3"):
        fit_conventional(network, ROWS, index, GRADES + 1, config=config, seed=0)


def test_memory_maps_and_arrays_give_the_same(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    config = on_images(epochs=1)
    one, _ = fitted(config)
    network = build_network(config, seed=3)
    train(network, np.load(tmp_path / "x.npy", mmap_mode="r"), PAIRS, ANSWERS, config=config, seed=1)
    assert equal(one, network)


def test_progress_and_csv_log_tell_each_epoch(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    _, result = fitted(on_rows(log="csv"), folder=tmp_path, progress=lambda *what: seen.append(what))
    assert [(done, total) for done, total, _ in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert "validation loss" in seen[0][2]
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == [entry.loss for entry in result.history]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard's own imports
def test_tensorboard_log(tmp_path: Path) -> None:
    fitted(on_rows(log="tensorboard", epochs=2), folder=tmp_path)
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("pairs", "answers", "message"),
    [
        (np.empty((0, 2), int), [], "no answered pairs"),
        ([(0, 1, 2)], [1], "shape"),
        ([(0, 1)], [1, 0], "1 pairs need 1 answers"),
        ([(0, 1)], [0.7], "not 0.7"),
        ([(0, 120)], [1], r"pair \(0, 120\) is outside the 120 images"),
        ([(0.0, 1.0)], [1], "whole numbers"),
    ],
)
def test_bad_pairs_are_named(pairs: Any, answers: Any, message: str) -> None:
    network = build_network(on_rows(), seed=0, width=12)
    with pytest.raises(RankerError, match=message):
        train(network, ROWS, pairs, answers, config=on_rows(), seed=0)


def test_bad_settings_are_named() -> None:
    for changes, message in [
        ({"device": "abacus"}, "abacus"),
        ({"precision": "3-bit"}, "3-bit"),
        ({"log": "csv"}, "needs a folder"),
        ({"multitask": True}, "needs grades"),
    ]:
        with pytest.raises(RankerError, match=message):
            fitted(on_rows(**changes))


@pytest.mark.slow
def test_paper_preset_trains_and_scores_end_to_end(tmp_path: Path) -> None:
    """DenseNet-169 with everything of the paper, on pictures of 32 px."""
    images = np.repeat(np.repeat(IMAGES[:, :16, :16], 2, axis=1), 2, axis=2)
    config = ranker_preset(
        "paper",
        image_size=32,
        weights="none",
        epochs=2,
        learning_rate=1e-3,
        batch_size=8,
        multitask=True,
        **CPU,
    )
    network = build_network(config, seed=0)
    result = train(
        network,
        images,
        PAIRS[:24],
        ANSWERS[:24],
        grades=GRADES,
        config=config,
        seed=0,
        folder=tmp_path / "model",
    )
    assert len(result.history) == 2
    assert result.history[1].loss < result.history[0].loss
    scores = draw_scores(network, batches_of(images[:12], 6), draws=3, seed=0)
    assert scores.shape == (3, 12)
    assert scores.var(axis=0).min() > 0
    other = build_network(config, seed=9)
    checkpoint.fill(other, checkpoint.load(tmp_path / "model").weights, source="model")
    assert np.array_equal(draw_scores(other, batches_of(images[:12], 6), draws=3, seed=0), scores)
