"""Core-set and the map of a run see what the network sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from steelyard.config import ranker_preset
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.experiment.cell import Cell
from steelyard.ranker.network import build_network


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for grade in range(3):
        place = tmp_path / "pictures" / f"{grade}"
        place.mkdir(parents=True)
        for k in range(14):
            pixels = rng.integers(0, 60, (32, 32, 3)) + np.array([40 + 60 * grade, 60, 60])
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{k}.png")
    return tmp_path / "pictures"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What core-set is given in each round."""
    from steelyard.acquire import coreset

    found: list[np.ndarray] = []
    plain = coreset.features_of

    def note(posterior: Any, features: Any, *rest: Any, **options: Any) -> Any:
        found.append(np.array(features))
        return plain(posterior, features, *rest, **options)

    monkeypatch.setattr(coreset, "features_of", note)
    return found


def config_for(pictures: Path, preset: str, **ranker: Any) -> ExperimentConfig:
    return ExperimentConfig(
        images=str(pictures), preset=preset, methods=("coreset",), seeds=1, rounds=2, s=20.0, only_folds=(0,), jobs=1, draws=2,
        test_pairs=20, near_duplicates=False, classify=False, ranker={"image_size": 32, "epochs": 1, **ranker},
    )  # fmt: skip


def test_the_paper_s_core_set_has_1664_features_and_so_has_its_map(
    pictures: Path, tmp_path: Path, seen: list[np.ndarray]
) -> None:
    weights = tmp_path / "densenet169.pth"
    made = build_network(ranker_preset("paper", image_size=32, weights="none"), seed=7)  # type: ignore[arg-type]
    torch.save({f"features.{name}": value for name, value in made.backbone.state_dict().items()}, weights)
    run = run_experiment(config_for(pictures, "paper", weights=str(weights)), tmp_path / "RUN")
    assert [rows.shape for rows in seen] == [seen[0].shape] * 2
    assert seen[0].shape[1] == 1664
    assert np.array_equal(seen[0], seen[1])  # ImageNet's, the same in every round
    embedding = run.embedding(Cell("coreset", 0, 0))
    assert embedding is not None
    pool = np.unique(run.table("scores").query("set == 'pool'")["image"])
    distances = np.linalg.norm(embedding[pool][:, None] - embedding[pool][None], axis=2)
    own = np.linalg.norm(seen[0][:, None] - seen[0][None], axis=2)
    assert np.corrcoef(distances.ravel(), own.ravel())[0, 1] > 0.8


def test_a_network_from_random_weights_brings_its_own_features(
    pictures: Path, tmp_path: Path, seen: list[np.ndarray]
) -> None:
    run = run_experiment(config_for(pictures, "small"), tmp_path / "RUN")
    assert [rows.shape[1] for rows in seen] == [128, 128]
    assert not np.array_equal(seen[0], seen[1])  # each model has its own
    assert (run.cells / "coreset-f0-s0" / "embedding.npy").exists()
    embedding = run.embedding(Cell("coreset", 0, 0))
    assert embedding is not None
    assert not np.array_equal(embedding, np.load(run.path / "embedding.npy"))
    assert len(embedding) == 42
