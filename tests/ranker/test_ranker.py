"""A fitted ranker: what is saved scores like what was fitted, today's and 0.1's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.config import ranker_preset
from steelyard.errors import RankerError
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.inputs import read_inputs
from steelyard.ranker.learner import Learner
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.ranker import load_ranker
from steelyard.ranker.scoring import batches_of, last_layer


def answered(values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = random_pairs(n, len(values), taken=PairSet(len(values)), rng=np.random.default_rng(1))
    gap = values[pairs[:, 0]] - values[pairs[:, 1]]
    return pairs, np.where(np.abs(gap) < 0.1, 0.5, (gap > 0).astype(float))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ties": "rao_kupper"},
        {"kernel": "rbf"},
        {"kind": "network", "hidden": 16, "epochs": 20, "learning_rate": 0.02},
        {"kind": "network", "hidden": 16, "epochs": 20, "learning_rate": 0.02, "posterior": "closed_form"},
        {
            "kind": "network",
            "hidden": 16,
            "epochs": 20,
            "learning_rate": 0.02,
            "posterior": "laplace",
            "ties": "rao_kupper",
        },
        {"kind": "network", "hidden": 16, "epochs": 20, "learning_rate": 0.02, "screening": 0.3},
    ],
)
def test_what_is_saved_scores_like_what_was_fitted(tmp_path: Path, changes: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 6)).astype(np.float32)
    pairs, answers = answered(rows[:, 0], 150)
    config = ranker_preset("features", **changes)
    ranker = Learner(config, rows, seed=3).fit(pairs, answers)
    posterior = ranker.posterior(rows)
    assert np.corrcoef(posterior.mean, rows[:, 0])[0, 1] > (0.9 if config.kind == "convex" else 0.3)
    assert (posterior.variance > 0).all()
    ranker.save(tmp_path)
    again = load_ranker(tmp_path)
    assert again.config == config
    assert np.array_equal(again.posterior(rows).mean, posterior.mean)
    assert again.metrics.keys() == ranker.metrics.keys()


def test_a_network_learns_pixels_and_starts_from_earlier_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    light = rng.integers(0, 255, size=24)
    pictures = np.broadcast_to(light[:, None, None, None], (24, 32, 32, 3)).astype(np.uint8)
    pairs, answers = answered(light / 50, 60)
    config = ranker_preset("small", image_size=32, epochs=2, draws=4)
    inputs = read_inputs(pictures, config)
    assert inputs.shape == (24, 32, 32, 3)
    learner = Learner(config, inputs)
    first = learner.fit(pairs, answers)
    first.save(tmp_path)
    warm = learner.fit(pairs, answers, start=load_ranker(tmp_path))
    assert not np.array_equal(warm.posterior(inputs).mean, first.posterior(inputs).mean)
    grades = np.where(light > 200, 1.0, np.nan)
    graded = Learner(ranker_preset("small", image_size=32, epochs=1, draws=2, multitask=True), inputs)
    both = graded.fit(pairs, answers, grades=grades)
    assert np.isfinite(both.posterior(inputs).mean).all()


FILES = Path(__file__).parents[1] / "files"


def network_of_0_1(folder: Path, **settings: Any) -> Path:
    """A copy of the network that 0.1 saved, with some settings changed."""
    shutil.copytree(FILES / "network-0.1", folder)
    manifest = json.loads((folder / "checkpoint.json").read_text())
    manifest["extra"]["ranker"] |= settings
    (folder / "checkpoint.json").write_text(json.dumps(manifest))
    return folder


def test_a_setting_that_is_gone_does_not_keep_a_model_from_loading(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    expected = load_ranker(FILES / "network-0.1").posterior(rows)
    found = load_ranker(network_of_0_1(tmp_path / "model", color_of_the_sky="blue")).posterior(rows)
    assert np.array_equal(found.mean, expected.mean)


def test_a_network_of_0_1_is_not_scaled_and_can_be_trained_on_from(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32) * 50 + 7
    old = load_ranker(FILES / "network-0.1")
    assert old.scaling is None  # type: ignore[attr-defined]
    pairs, answers = answered(rows[:, 0], 40)
    config = old.config.with_changes(epochs=1, learning_rate=1e-12)
    warm = Learner(config, rows).fit(pairs, answers, start=old)
    # New rankers are scaled; the weights to start from are put into these terms, so that the scores are what they were.
    assert warm.scaling is not None  # type: ignore[attr-defined]
    assert np.allclose(warm.posterior(rows).mean, old.posterior(rows).mean, rtol=1e-3, atol=1e-3)


def test_laplace_of_0_1_has_the_covariance_that_lies_beside_it_or_says_that_there_is_none(
    tmp_path: Path,
) -> None:
    from safetensors.numpy import load, save_file

    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    folder = network_of_0_1(tmp_path / "model", posterior="laplace")
    alone = load_ranker(folder)
    with pytest.raises(RankerError, match=r"saved by Steelyard 0\.1 without the covariance"):
        alone.posterior(rows)
    # As 0.1 computed it, from the pool and the answers about it, for the study's `posterior.safetensors`.
    trained = load(next(folder.glob("*.safetensors")).read_bytes())
    layer = last_layer(alone.network, batches_of(rows, 64))  # type: ignore[attr-defined]
    pool = Posterior.laplace(
        layer.features_N_D, layer.weights_D, trained["trained.pairs"], trained["trained.answers"], bias=layer.bias,
        precision=2e-4 * len(trained["trained.pairs"]), tau=alone.network.tau.item(),  # type: ignore[attr-defined]
    )  # fmt: skip
    save_file({"covariance": pool.covariance_D_D}, folder / "posterior.safetensors")
    few = load_ranker(folder).posterior(rows[[7, 3]])
    assert np.allclose(few.mean, pool.mean[[7, 3]], atol=1e-5)
    assert np.allclose(few.variance, pool.variance[[7, 3]], rtol=1e-4)


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    pairs, answers = answered(rows[:, 0], 20)

    def stop(done: int, total: int, text: str) -> None:
        raise KeyboardInterrupt

    learner = Learner(ranker_preset("features", kind="network", epochs=2), rows)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(pairs, answers, folder=tmp_path / "killed", progress=stop)
    with pytest.raises(RankerError, match="was not finished; train again"):
        load_ranker(tmp_path / "killed")
    with pytest.raises(RankerError, match="holds no model"):
        load_ranker(tmp_path / "nothing")
    with pytest.raises(RankerError, match=r"cannot be read.*train again"):
        load_ranker(network_of_0_1(tmp_path / "strange", ties="sometimes"))
    with pytest.raises(RankerError, match=r"feature rows of shape \(B, 4\)"):
        load_ranker(FILES / "network-0.1").posterior(rows[:, :3])
