"""PairwiseRanker: scikit-learn's own checks, and what it learns."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import steelyard as sy
from steelyard.errors import ConfigError, RankerError
from steelyard.pairs import PairSet, form_pairs
from steelyard.ranker.estimator import PairwiseRanker


class OnTargets(PairwiseRanker):  # type: ignore[misc]
    """The ranker behind the `fit(X, y)` that scikit-learn's checks call: pairs are formed and answered from y."""

    def fit(self, X: Any, y: Any) -> OnTargets:  # type: ignore[override]
        from sklearn.utils.validation import check_X_y

        _, values = check_X_y(X, y, y_numeric=True)
        pairs = form_pairs(np.arange(len(values)), taken=PairSet(len(values)), rng=np.random.default_rng(0))
        answers = (np.sign(values[pairs[:, 0]] - values[pairs[:, 1]]) + 1) / 2
        super().fit(X, pairs, answers)
        return self

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        pairs = form_pairs(np.arange(len(y)), taken=PairSet(len(y)), rng=np.random.default_rng(1))
        return super().score(
            X, pairs, (np.sign(np.asarray(y)[pairs[:, 0]] - np.asarray(y)[pairs[:, 1]]) + 1) / 2
        )


# fit(X, y) does not apply (answers about pairs are what is learnt from), hence the adapter. One check is about array namespaces
# other than numpy's, which the convex head does not support; it would skip itself.
NOT_APPLICABLE = {"check_array_api_input"}


def checks() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            pytest.param(estimator, check, id=_name(check))
            for estimator, check in estimator_checks_generator(OnTargets(), legacy=True)
            if _name(check) not in NOT_APPLICABLE
        ]


def _name(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def data(
    seed: int = 0, n: int = 80, d: int = 6, count: int = 200
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    latent = X @ rng.standard_normal(d)
    first = rng.integers(n, size=count)
    pairs = np.stack([first, (first + 1 + rng.integers(n - 1, size=count)) % n], 1)
    return X, pairs, (latent[pairs[:, 0]] > latent[pairs[:, 1]]).astype(float), latent


def test_it_learns_to_rank_and_knows_how_well() -> None:
    X, pairs, answers, latent = data()
    ranker = sy.PairwiseRanker(preset="features").fit(X, pairs[:150], answers[:150])
    scores, std = ranker.predict(X, return_std=True)
    np.testing.assert_array_equal(scores, ranker.predict(X))
    assert scores.shape == std.shape == (80,)
    assert (std > 0).all()
    assert np.corrcoef(scores, latent)[0, 1] > 0.9
    assert ranker.score(X, pairs[150:], answers[150:]) > 0.85
    few = PairwiseRanker().fit(X, pairs[:20], answers[:20])
    assert few.predict(X, return_std=True)[1].mean() > 0
    chance = ranker.predict_posterior(X).probability(pairs)
    assert chance[answers == 1].mean() > 0.7 > 0.3 > chance[answers == 0].mean()


def test_score_leaves_ties_out_and_halves_equal_scores() -> None:
    X = np.array([[0.0], [1.0], [1.0]])
    ranker = PairwiseRanker().fit(X, [[1, 0]], [1])
    assert ranker.score(X, [[1, 0], [1, 2]], [1, 0.5]) == 1.0
    assert ranker.score(X, [[0, 1], [1, 2]], [1, 1]) == 0.25
    with pytest.raises(RankerError, match="decided"):
        ranker.score(X, [[0, 1]], [0.5])


def test_grades_set_the_scale() -> None:
    X, pairs, answers, latent = data()
    grades = np.clip(np.round(latent + 2), 0, 4)
    known = np.where(np.arange(80) < 40, grades, -1)
    ranker = PairwiseRanker().fit(X, pairs, answers, grades=known)
    assert ranker.config_.multitask
    assert np.abs(ranker.predict(X) - grades)[40:].mean() < 0.7


def test_parameters_choose_and_survive_cloning() -> None:
    X, pairs, answers, _ = data()
    ranker = PairwiseRanker(components=2, kernel="rbf", ties="rao_kupper", options={"whitening": 0.5})
    copy = clone(ranker).set_params(components=3)
    assert copy.get_params()["components"] == 3
    assert ranker.get_params()["components"] == 2
    copy.fit(X, pairs, answers)
    assert (copy.config_.kernel, copy.config_.ties, copy.config_.whitening) == ("rbf", "rao_kupper", 0.5)
    again = pickle.loads(pickle.dumps(copy))
    np.testing.assert_array_equal(again.predict(X), copy.predict(X))


@pytest.mark.slow
def test_a_network_head_is_one_setting_away() -> None:
    X, pairs, answers, latent = data(count=300)
    X = X * [1.0, 1e-4, 1e4, 1.0, 1.0, 1.0] + 5.0  # no network likes such features; the ranker sees to it
    ranker = PairwiseRanker(head="mlp", options={"epochs": 30, "hidden": 16}, random_state=1).fit(
        X, pairs, answers
    )
    scores, std = ranker.predict(X, return_std=True)
    assert np.corrcoef(scores, latent)[0, 1] > 0.8
    assert np.allclose(ranker.center_, X.mean(axis=0))
    assert np.allclose(ranker.scale_, X.std(axis=0))
    assert (std > 0).all()


def test_pictures_go_through_the_backbone(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    red = np.linspace(0, 255, 12)
    X = rng.integers(0, 60, size=(12, 32, 32, 3), dtype=np.uint8)
    X[..., 0] = red[:, None, None].astype(np.uint8)
    pairs = np.array([(i, j) for i in range(12) for j in range(i)])
    ranker = PairwiseRanker("quick", options={"backbone": "lite0", "image_size": 32}, cache=tmp_path)
    ranker.fit(X, pairs[::2], np.ones(len(pairs[::2])))
    assert ranker.score(X, pairs[1::2], np.ones(len(pairs[1::2]))) > 0.9


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda X, p, a: PairwiseRanker().predict(X), NotFittedError, "not fitted"),
        (lambda X, p, a: PairwiseRanker().predict(X), RankerError, "not fitted"),
        (lambda X, p, a: PairwiseRanker().fit(X, p, a[:-1]), ValueError, "answers"),
        (lambda X, p, a: PairwiseRanker().fit(X, p + 1000, a), RankerError, "rows 0"),
        (lambda X, p, a: PairwiseRanker().fit(X, p * 1.0, a), ValueError, "whole numbers"),
        (lambda X, p, a: PairwiseRanker().fit(X * np.nan, p, a), RankerError, "NaN"),
        (lambda X, p, a: PairwiseRanker("quick").fit(X, p, a), RankerError, "uint8"),
        (lambda X, p, a: PairwiseRanker("quik").fit(X, p, a), ConfigError, "quick"),
        (lambda X, p, a: PairwiseRanker(options={"epoch": 1}).fit(X, p, a), ConfigError, "epochs"),
        (lambda X, p, a: PairwiseRanker().fit(X, p, a).score(X, p, a[:-1]), ValueError, "answers"),
    ],
)
def test_bad_input_is_named(use: Any, error: type[Exception], message: str) -> None:
    X, pairs, answers, _ = data()
    with pytest.raises(error, match=message):
        use(X, pairs, answers)


def test_a_setting_about_rounds_is_refused() -> None:
    X, pairs, answers, _ = data()
    with pytest.raises(ConfigError, match="'warm_start' is about rounds"):
        PairwiseRanker(head="mlp", options={"warm_start": "scratch"}).fit(X, pairs, answers)
