"""A network states probabilities that come true on pairs it was not taught, and ranks as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.config import ranker_preset
from steelyard.evaluate.calibration import calibration
from steelyard.ranker.learner import Learner
from steelyard.ranker.likelihood import outcomes
from steelyard.ranker.network_ranker import NetworkRanker
from steelyard.ranker.ranker import load_ranker
from steelyard.ranker.temper import Temper


def answered(rng: np.random.Generator, images: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, pairs, and Rao–Kupper's answers."""
    features = rng.standard_normal((images, 8)).astype(np.float32)
    scores = features @ rng.normal(0, 0.7, 8)
    pairs = rng.integers(images, size=(2 * count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:count]
    p, luck = outcomes(scores[pairs[:, 0]] - scores[pairs[:, 1]], 0.0, 0.6), rng.random(len(pairs))
    return features, pairs, np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, :2].sum(1), 0.5, 0.0))


def error(p: np.ndarray, said: np.ndarray) -> float:
    """Expected calibration error of the three probabilities together."""
    happened = np.stack([said == 1, said == 0.5, said == 0], axis=1)
    return calibration(p.ravel(), happened.ravel().astype(float)).ece


@pytest.mark.parametrize("posterior", ["draws", "closed_form", "laplace"])
def test_probabilities_come_true_and_no_order_changes(posterior: str, tmp_path: Path) -> None:
    stated: dict[str, list[np.ndarray]] = {"plain": [], "tempered": []}
    happened = []
    for seed in range(2):
        features, pairs, answers = answered(np.random.default_rng(seed), 300, 1500)
        taught = (pairs < 150).all(axis=1)  # a quarter, about 375
        new = (pairs >= 150).all(axis=1)
        config = ranker_preset(
            "features", kind="network", posterior=posterior, epochs=25, validation_share=0.25
        )
        learner = Learner(config, features, pool=np.arange(150), seed=seed)
        ranker = learner.fit(pairs[taught], answers[taught])
        assert isinstance(ranker, NetworkRanker)
        assert ranker.metrics["temper_answers"] == round(0.25 * taught.sum())
        found = ranker.posterior(features)
        mean, variance = found.difference(pairs[new])
        stated["plain"].append(Temper(1.0, found.tau).outcomes(mean, variance))
        stated["tempered"].append(found.outcomes(pairs[new]))
        happened.append(answers[new])
        p = stated["tempered"][-1]
        np.testing.assert_array_equal(np.sign(p[:, 0] - p[:, 2]), np.sign(mean))
        if seed == 0:  # saved with it
            ranker.save(tmp_path / posterior)
            np.testing.assert_allclose(load_ranker(tmp_path / posterior).posterior(features).outcomes(pairs[new]), p, atol=1e-5)  # fmt: skip
    errors = {key: error(np.concatenate(p), np.concatenate(happened)) for key, p in stated.items()}
    # Laplace's deviations of images never compared are far above those of compared ones: less is won.
    assert errors["tempered"] < {"draws": 0.05, "closed_form": 0.05, "laplace": 0.07}[posterior], errors
    assert (
        errors["tempered"] < {"draws": 0.7, "closed_form": 0.7, "laplace": 0.9}[posterior] * errors["plain"]
    ), errors


def test_with_few_answers_held_back_nothing_is_fitted() -> None:
    features, pairs, answers = answered(np.random.default_rng(0), 60, 60)
    config = ranker_preset("features", kind="network", posterior="closed_form", epochs=2)
    ranker = Learner(config, features).fit(pairs, answers)
    assert (ranker.metrics["temper"], ranker.metrics["temper_answers"]) == (None, 0)
    assert ranker.posterior(features).temper is None
