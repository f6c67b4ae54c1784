"""A ranker of one configuration: every head and posterior fits, saves and loads as the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.config import ranker_preset
from steelyard.errors import RankerError
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.model import fit_ranker, load_ranker, picture_inputs, ranker_inputs


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
    ranker = fit_ranker(rows, pairs, answers, config=config, seed=3)
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
    inputs = picture_inputs(pictures, config)
    assert inputs.shape == (24, 32, 32, 3)
    first = fit_ranker(inputs, pairs, answers, config=config, seed=0)
    first.save(tmp_path)
    warm = fit_ranker(inputs, pairs, answers, config=config, seed=0, start=tmp_path)
    assert not np.array_equal(warm.posterior(inputs).mean, first.posterior(inputs).mean)
    grades = np.where(light > 200, 1.0, np.nan)
    both = fit_ranker(
        inputs,
        pairs,
        answers,
        config=ranker_preset("small", image_size=32, epochs=1, draws=2, multitask=True),
        seed=0,
        grades=grades,
    )
    assert np.isfinite(both.posterior(inputs).mean).all()


def test_pictures_and_rows_are_not_confused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 4), dtype=np.float32))
    rows = sy.Catalog.from_features(tmp_path / "x.npy")
    with pytest.raises(RankerError, match="use the features preset"):
        ranker_inputs(rows, ranker_preset("quick"))
    pictures = sy.Catalog.from_arrays(
        np.random.default_rng(0).integers(0, 255, size=(3, 8, 8, 3), dtype=np.uint8)
    )
    with pytest.raises(RankerError, match="takes features"):
        ranker_inputs(pictures, ranker_preset("features"))
    with pytest.raises(RankerError, match="no place among them"):
        picture_inputs(np.zeros((1, 4, 4, 3), dtype=np.uint8), ranker_preset("features"))
    pixels = ranker_inputs(pictures, ranker_preset("small", image_size=16), cache=tmp_path / "cache")
    assert np.array_equal(pixels, ranker_inputs(pictures, ranker_preset("small", image_size=16)))
