"""Learner: fits on the pool, as often as wanted; a ranker is the same in a study, an experiment and the estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.config import ranker_preset
from steelyard.errors import RankerError
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.estimator import PairwiseRanker
from steelyard.ranker.learner import Learner
from steelyard.ranker.ranker import load_ranker

RNG = np.random.default_rng(1)
ROWS = (RNG.standard_normal((60, 5)) * [1.0, 1e-3, 1e3, 1.0, 1.0] + 4.0).astype(np.float32)
LATENT = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0) @ np.array([1.0, 2.0, -1.5, 0.5, 0.0])
PAIRS = np.stack([np.arange(48), (np.arange(48) * 7 + 3) % 48], 1)
PAIRS = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]
ANSWERS = (LATENT[PAIRS[:, 0]] > LATENT[PAIRS[:, 1]]).astype(float)
POOL = np.arange(48)


def mlp(**changes: Any) -> Any:
    draws = {} if "posterior" in changes else {"draws": 4}
    return ranker_preset("features", **{"kind": "network", "hidden": 8, "epochs": 12} | draws | changes)


def test_whatever_is_fitted_is_fitted_on_the_pool() -> None:
    other = ROWS.copy()
    other[48:] = RNG.standard_normal((12, 5)) * 1e6
    for config in (ranker_preset("features", components=3), mlp()):
        first = Learner(config, ROWS, pool=POOL, seed=3)
        second = Learner(config, other, pool=POOL, seed=3)
        a, b = (learner.fit(PAIRS, ANSWERS) for learner in (first, second))
        assert np.array_equal(first.posterior(a, rows=POOL).mean, second.posterior(b, rows=POOL).mean), (
            config.kind
        )


def test_the_convex_ranker_is_the_head_on_the_pool() -> None:
    learner = Learner(ranker_preset("features"), ROWS, pool=POOL)
    ranker = learner.fit(PAIRS, ANSWERS)
    head = ConvexHead.fit(ROWS[:48], PAIRS, ANSWERS, ties="rao_kupper")
    assert np.allclose(ranker.posterior(ROWS).mean, head.posterior(ROWS).mean, atol=1e-6)
    assert learner.learns_reserved
    assert ranker.learns_reserved
    assert np.array_equal(learner.posterior(ranker).mean, ranker.posterior(ROWS).mean)
    rows = np.array([50, 3, 7])
    assert np.array_equal(learner.posterior(ranker, rows=rows).mean, ranker.posterior(ROWS, rows=rows).mean)


def test_reduced_rows_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.ranker.reduction import Reduction

    calls = []
    monkeypatch.setattr(Reduction, "fit", classmethod(_counted(Reduction.fit.__func__, calls, "fit")))  # type: ignore[attr-defined]
    monkeypatch.setattr(Reduction, "transform", _counted(Reduction.transform, calls, "transform"))
    learner = Learner(ranker_preset("features"), ROWS, pool=POOL)
    for n in (20, 30, 40):
        learner.posterior(learner.fit(PAIRS[:n], ANSWERS[:n])).mean  # noqa: B018
    assert calls == ["fit", "transform"]


def _counted(function: Any, calls: list[str], name: str) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return function(*args, **kwargs)

    return wrapped


def test_a_network_on_features_is_the_same_for_learner_and_estimator_whatever_the_units() -> None:
    config = mlp()
    learner = Learner(config, ROWS, seed=2)
    found = learner.posterior(learner.fit(PAIRS, ANSWERS))
    estimator = PairwiseRanker(head="mlp", options={"hidden": 8, "epochs": 12, "draws": 4}, random_state=2)
    assert np.array_equal(estimator.fit(ROWS, PAIRS, ANSWERS).predict(ROWS), found.mean)
    # Features in other units are the same features.
    units = Learner(config, ROWS.astype(np.float64) * [1, 1024, 1 / 1024, 2, 4] - 8, seed=2)
    again = units.posterior(units.fit(PAIRS, ANSWERS))
    assert np.allclose(again.mean, found.mean, atol=1e-3)


def test_scaling_is_saved_with_the_network(tmp_path: Path) -> None:
    learner = Learner(mlp(), ROWS, pool=POOL, seed=2)
    ranker = learner.fit(PAIRS, ANSWERS)
    ranker.save(tmp_path)
    again = load_ranker(tmp_path)
    assert np.array_equal(again.posterior(ROWS[50:]).mean, ranker.posterior(ROWS[50:]).mean)
    assert np.allclose(again.posterior(ROWS[50:]).mean, learner.posterior(ranker).mean[50:], atol=1e-6)


@pytest.mark.parametrize("hidden", [0, 8])
def test_laplace_of_a_network_knows_its_covariance_for_any_images(tmp_path: Path, hidden: int) -> None:
    learner = Learner(mlp(posterior="laplace", hidden=hidden, ties="rao_kupper"), ROWS, pool=POOL, seed=2)
    ranker = learner.fit(PAIRS, ANSWERS)
    whole = learner.posterior(ranker)
    assert whole.kind == "laplace"
    assert whole.tau > 0
    ranker.save(tmp_path)
    # Three images are fewer than the training pairs name, and their order is their own.
    few = load_ranker(tmp_path).posterior(ROWS[[55, 2, 30]])
    assert np.allclose(few.mean, whole.mean[[55, 2, 30]], atol=1e-6)
    assert np.allclose(few.variance, whole.variance[[55, 2, 30]], rtol=1e-5)


def test_a_start_is_continued_also_when_the_pool_has_changed() -> None:
    config = mlp(epochs=1, learning_rate=1e-12, dropout=0.0, posterior="laplace")
    first = Learner(config, ROWS, pool=POOL, seed=2)
    ranker = first.fit(PAIRS, ANSWERS)
    for learner in (first, Learner(config, ROWS, pool=np.arange(55), seed=5)):
        warm = learner.fit(PAIRS, ANSWERS, start=ranker)  # which learns nothing: it is still what it was
        assert np.allclose(warm.posterior(ROWS).mean, ranker.posterior(ROWS).mean, atol=1e-4)
    cold = Learner(config, ROWS, pool=POOL, seed=5).fit(PAIRS, ANSWERS)
    assert not np.allclose(cold.posterior(ROWS).mean, ranker.posterior(ROWS).mean, atol=1e-2)


def test_threads_are_kept_to_while_scoring_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.ranker import network_ranker

    config = mlp(threads=torch.get_num_threads() + 1)
    ranker = Learner(config, ROWS, seed=2).fit(PAIRS, ANSWERS)
    seen: list[int] = []
    before = torch.get_num_threads()
    made = network_ranker.Posterior.from_draws
    monkeypatch.setattr(
        network_ranker.Posterior,
        "from_draws",
        lambda scores: seen.append(torch.get_num_threads()) or made(scores),
    )
    ranker.posterior(ROWS)
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


def test_what_cannot_be_learnt_from_is_named() -> None:
    convex, network = Learner(ranker_preset("features"), ROWS, pool=POOL), Learner(mlp(), ROWS)
    with pytest.raises(RankerError, match="image 50 was compared, but is not in the pool"):
        convex.fit([[50, 1]], [1.0])
    grades = np.full(60, np.nan)
    grades[59] = 1.0
    with pytest.raises(RankerError, match="grades of images that are not in the pool"):
        convex.fit(PAIRS, ANSWERS, grades=grades)
    with pytest.raises(RankerError, match="rows 0 … 59"):
        convex.fit([[1, 60]], [1.0])
    with pytest.raises(RankerError, match="starts from a network"):
        network.fit(PAIRS, ANSWERS, start=convex.fit(PAIRS, ANSWERS))
    for learner in (convex, network):
        graded = Learner(learner.config.with_changes(multitask=True), ROWS)
        with pytest.raises(RankerError, match="needs grades"):
            graded.fit(PAIRS, ANSWERS)
    with pytest.raises(RankerError, match="takes pixels"):
        Learner(ranker_preset("small"), ROWS)


@pytest.mark.parametrize("precision", ["bf16-true", "bf16-mixed", "64-true"])
def test_whatever_precision_it_was_trained_in_it_scores_saves_and_loads(
    tmp_path: Path, precision: str
) -> None:
    config = mlp(precision=precision, epochs=2, device="cpu")
    ranker = Learner(config, ROWS).fit(PAIRS, ANSWERS, folder=tmp_path)
    ranker.save(tmp_path)
    assert np.array_equal(load_ranker(tmp_path).posterior(ROWS).mean, ranker.posterior(ROWS).mean)
