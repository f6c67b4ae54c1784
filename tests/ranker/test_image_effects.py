"""Image effects against a dense fit with one column an image, refits without answers, and planted blind spots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.config import ConvexConfig
from steelyard.errors import ConfigError, RankerError
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.image_effects import ImageEffects
from steelyard.ranker.judges import Judging, Said
from steelyard.ranker.learner import Learner
from steelyard.ranker.left_out import forget, left_out
from steelyard.ranker.likelihood import outcomes, slope
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.ranker import load_ranker
from steelyard.ranker.reduction import Reduction
from steelyard.study.models import load_posterior, save_posterior
from steelyard.trust.without_groups import scores_without_groups

IMAGES, WIDTH = 40, 5
OWN = Reduction.identity(WIDTH)


def asked(
    seed: int = 0, n: int = 300, own: float = 1.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, true scores, pairs among the first 30 of 40 images, answers with ties."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((IMAGES, WIDTH)) / np.sqrt(WIDTH)
    scores = features @ rng.normal(0, 2, WIDTH) + rng.normal(0, own, IMAGES)
    pairs = np.array([rng.choice(30, 2, replace=False) for _ in range(n)])
    p = outcomes(scores[pairs[:, 0]] - scores[pairs[:, 1]], 0.0, 0.5)
    luck = rng.random(n)
    return features, scores, pairs, np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, :2].sum(1), 0.5, 0.0))


def fit(features: np.ndarray, pairs: np.ndarray, answers: np.ndarray, **options: object) -> ConvexHead:
    given = {"reduction": OWN, "ties": "rao_kupper", "image_effects": True, **options}
    return ConvexHead.fit(features, pairs, answers, **given)  # type: ignore[arg-type]


def of_all(head: ConvexHead, features: np.ndarray) -> Posterior:
    return head.posterior(rows=features, images=np.arange(len(features)))


def test_the_fit_is_the_dense_one_with_a_column_for_each_image() -> None:
    features, _, pairs, answers = asked()
    compared = np.unique(pairs)
    columns = np.zeros((IMAGES, len(compared)))
    columns[compared, np.arange(len(compared))] = 0.8
    wide = np.hstack([features, columns])
    rng = np.random.default_rng(1)
    judging = Judging(rng.uniform(0.5, 1.5, 300), rng.normal(0, 0.3, 300), np.ones(300), np.full(300, 0.02))
    for judges, digits in ((None, 1e-6), (judging, 1e-3)):  # with lapses the last digits come slowly
        options = {"precision": 0.7, "effect_spread": 0.8, "judging": judges}
        head = fit(features, pairs, answers, **options)
        dense = ConvexHead.fit(
            wide, pairs, answers, reduction=Reduction.identity(wide.shape[1]), rows=wide, ties="rao_kupper",
            precision=0.7, judging=judges,
        )  # fmt: skip
        ours, theirs = of_all(head, features), dense.posterior(rows=wide)
        assert head.effects is not None
        assert head.effects.deviation == pytest.approx(0.8 / np.sqrt(0.7))
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=digits)
        np.testing.assert_allclose(ours.covariance_of(compared), theirs.covariance_of(compared), atol=digits)
        np.testing.assert_allclose(ours.variance[compared], theirs.variance[compared], atol=digits)
        for a, b in zip(ours.difference(pairs), theirs.difference(pairs), strict=True):
            np.testing.assert_allclose(a, b, atol=digits)
        assert (head.tau, head.log_evidence) == pytest.approx((dense.tau, dense.log_evidence), abs=digits)


def test_what_answers_about_an_image_share_is_in_its_effect() -> None:
    """So that every answer counts, and probabilities get a factor of their own for deviations."""
    features, _, pairs, answers = asked(n=500)
    plain, head = (fit(features, pairs, answers, image_effects=on) for on in (False, True))
    assert plain.share < head.share == 1.0
    assert head.temper is not None
    assert head.temper.spread is not None
    again = ConvexHead.from_arrays(head.to_arrays())
    assert again.temper == head.temper


def test_the_gradient_of_the_joint_objective_is_zero() -> None:
    features, _, pairs, answers = asked()
    head = fit(features, pairs, answers, precision=0.7, effect_spread=0.8)
    assert head.effects is not None
    u = head.effects.offset_N
    score = features @ head.weights + u
    pulls = slope(score[pairs[:, 0]] - score[pairs[:, 1]], answers, head.tau)
    z = features[pairs[:, 0]] - features[pairs[:, 1]]
    ends = np.bincount(pairs[:, 0], pulls, IMAGES) - np.bincount(pairs[:, 1], pulls, IMAGES)
    np.testing.assert_allclose(z.T @ pulls, 0.7 * head.weights, atol=1e-6)
    np.testing.assert_allclose(ends, u / head.effects.deviation**2, atol=1e-6)


def test_answers_that_features_explain_leave_the_head_as_it_was() -> None:
    features, _, pairs, answers = asked(seed=3, own=0.0)
    plain, free = (fit(features, pairs, answers, image_effects=on) for on in (False, True))
    assert free.effects is None
    for name, value in plain.to_arrays().items():
        np.testing.assert_array_equal(free.to_arrays()[name], value)
    nobody = fit(features, np.empty((0, 2), dtype=np.int64), np.empty(0))
    assert nobody.effects is None


def test_effects_are_found_where_there_are_some() -> None:
    """And so is how large they are, as far as 300 answers about 30 images tell."""
    found = []
    for seed in range(4):
        features, scores, pairs, answers = asked(seed)
        plain, free = (fit(features, pairs, answers, image_effects=on) for on in (False, True))
        assert free.effects is not None
        found.append(free.effects.deviation)
        know = [np.corrcoef(of_all(one, features).mean[:30], scores[:30])[0, 1] for one in (plain, free)]
        assert know[1] > know[0]
    assert 0.8 < np.mean(found) < 2.2


def test_a_blind_spot_follows_its_answers_and_its_neighbours_do_not() -> None:
    rng = np.random.default_rng(5)
    features = rng.standard_normal((60, WIDTH)) / np.sqrt(WIDTH)
    weights = rng.normal(0, 3, WIDTH)
    features[1] = features[0]  # a twin that nobody is asked about
    scores = features @ weights
    scores[0] = scores.min() - 1.0
    features[0] = features[1] = 0.5 * weights / np.linalg.norm(weights)  # they look severe
    others = np.array([rng.choice(np.arange(2, 60), 2, replace=False) for _ in range(300)])
    about = np.stack([np.zeros(40, dtype=np.int64), rng.permutation(np.arange(2, 60))[:40]], axis=1)
    pairs = np.concatenate([others, about])
    answers = (scores[pairs[:, 0]] > scores[pairs[:, 1]]).astype(float)
    plain, free = (of_all(fit(features, pairs, answers, image_effects=on), features) for on in (False, True))
    rank = [np.mean(one.mean[0] > one.mean[2:]) for one in (plain, free)]
    assert rank[0] > 0.3 > 0.1 > rank[1]
    assert np.mean(free.mean[1] > free.mean[2:]) > 0.5  # its features still speak for the twin
    assert free.variance[1] > free.variance[0]


def test_strangers_have_the_prior_and_new_images_are_strangers(tmp_path: Path) -> None:
    features, _, pairs, answers = asked()
    head = fit(features, pairs, answers)
    assert head.effects is not None
    known, others = of_all(head, features), head.posterior(features)
    bare = known.with_effects(None)
    np.testing.assert_allclose(others.mean, bare.mean, atol=1e-6)  # reduced rows are float32
    np.testing.assert_allclose(others.variance, bare.variance + head.effects.deviation**2, atol=1e-6)
    np.testing.assert_allclose(known.mean[30:], bare.mean[30:], atol=1e-12)
    np.testing.assert_allclose(known.variance[30:], others.variance[30:], atol=1e-6)
    two = np.array([[35, 36], [35, 2], [35, 35]])
    v = known.covariance_of([35, 36, 2])
    np.testing.assert_allclose(
        known.difference(two)[1],
        [v[0, 0] + v[1, 1] - 2 * v[0, 1], v[0, 0] + v[2, 2] - 2 * v[0, 2], 0.0],
        atol=1e-10,
    )
    again = ConvexHead.from_arrays(head.to_arrays())
    np.testing.assert_array_equal(of_all(again, features).variance, known.variance)
    save_posterior(tmp_path, known)
    opened = load_posterior(tmp_path)
    np.testing.assert_allclose(opened.mean, known.mean, atol=1e-6)  # rows are kept in float32
    np.testing.assert_allclose(opened.difference(pairs)[1], known.difference(pairs)[1], atol=1e-6)
    joined = head.posterior(rows=features[:2], images=np.array([3, IMAGES + 5]))  # the second joined since
    np.testing.assert_allclose(joined.variance[1], others.variance[1], atol=1e-6)
    part = known.rows([36, 4, 2])
    np.testing.assert_allclose(part.variance, known.variance[[36, 4, 2]])
    np.testing.assert_allclose(part.covariance_of([1, 0]), known.covariance_of([4, 36]))


def test_draws_have_the_covariance_that_is_stated() -> None:
    features, _, pairs, answers = asked()
    posterior = of_all(fit(features, pairs, answers), features)
    some = [0, 1, 7, 35, 36]
    drawn = posterior.sample(40_000, np.random.default_rng(0))[:, some]
    np.testing.assert_allclose(np.cov(drawn.T), posterior.covariance_of(some), atol=0.06)
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.mean[some], atol=0.04)


def test_an_answer_observed_is_an_answer_fitted() -> None:
    """Compared images and strangers alike; what stays behind is what a belief leaves to the next fit."""
    features, _, pairs, answers = asked(n=330)
    pairs[320:, 1] = 30 + np.arange(10)
    same = {"precision": 0.7, "effect_spread": 0.8}
    posterior = of_all(fit(features, pairs[:300], answers[:300], **same), features)
    for k in range(300, 330):
        posterior = posterior.observe(pairs[k], answers[k])
    after = of_all(fit(features, pairs, answers, **same), features)
    assert np.corrcoef(posterior.mean, after.mean)[0, 1] > 0.999
    np.testing.assert_allclose(np.sqrt(posterior.variance), np.sqrt(after.variance), rtol=0.08)
    assert posterior.effects is not None
    np.testing.assert_allclose(
        posterior.offset_N, posterior.effects.offset_N, atol=1e-12
    )  # the offset holds the effects
    # Covariances stay whole: what is asked about a pair twice is what the joint Gaussian says.
    i, j = pairs[325]
    v = posterior.covariance_of([i, j])
    assert posterior.difference([[i, j]])[1][0] == pytest.approx(v[0, 0] + v[1, 1] - 2 * v[0, 1])


def test_imagined_answers_narrow_as_observed_ones_do() -> None:
    features, _, pairs, answers = asked()
    posterior = of_all(fit(features, pairs, answers), features)
    after = posterior.imagine([0, 35])
    np.testing.assert_array_equal(after.mean, posterior.mean)
    assert (after.variance <= posterior.variance + 1e-12).all()
    assert after.variance[35] < posterior.variance[35]


def test_a_pair_left_out_knows_nothing_of_its_answers() -> None:
    """Against refits without the pair, in which effects too have never heard of it."""
    features, _, pairs, answers = asked(n=120)
    same = {"precision": 0.7, "effect_spread": 1.2}
    posterior = of_all(fit(features, pairs, answers, **same), features)
    found = left_out(posterior, pairs, answers)
    kept, refits = [], []
    for number, pair in enumerate(found.pairs[:40]):
        rest = (np.sort(pairs, axis=1) != pair).any(axis=1)
        refit = of_all(fit(features, pairs[rest], answers[rest], **same), features)
        kept.append((found.mean[number], posterior.difference([pair])[0][0]))
        refits.append(refit.difference([pair])[0][0])
    ours, plain = np.array(kept).T
    assert np.corrcoef(ours, refits)[0, 1] > 0.99
    assert np.abs(ours - refits).mean() < 0.25 * np.abs(plain - refits).mean()


def test_stated_accuracy_does_not_profit_from_what_a_pair_taught_its_images() -> None:
    """Left-out predictions of answered pairs are right as often as predictions of pairs that nobody was asked about."""
    stated, naive, real = [], [], []
    for seed in range(12):
        features, scores, pairs, answers = asked(seed, n=150)
        posterior = of_all(fit(features, pairs, answers, effect_spread=1.0), features)
        found = left_out(posterior, pairs, answers)
        truth = np.sign(scores[found.pairs[:, 0]] - scores[found.pairs[:, 1]])
        stated.append(np.mean(np.sign(found.mean) == truth))
        naive.append(np.mean(np.sign(posterior.difference(found.pairs)[0]) == truth))
        every = np.stack(np.triu_indices(30, 1), axis=1)
        fresh = every[~(every[:, None] == found.pairs).all(axis=2).any(axis=1)]
        truth = np.sign(scores[fresh[:, 0]] - scores[fresh[:, 1]])
        real.append(np.mean(np.sign(posterior.difference(fresh)[0]) == truth))
    assert np.mean(stated) == pytest.approx(np.mean(real), abs=0.02)
    assert np.mean(naive) > np.mean(real) + 0.02


def test_answers_can_be_forgotten() -> None:
    features, _, pairs, answers = asked(n=200)
    same = {"precision": 0.7, "effect_spread": 0.8}
    posterior = of_all(fit(features, pairs, answers, **same), features)
    without = forget(posterior, pairs[190:], answers[190:])
    refit = of_all(fit(features, pairs[:190], answers[:190], **same), features)
    assert np.abs(without.mean - refit.mean).max() < 0.2 * np.abs(posterior.mean - refit.mean).max()
    mean, deviation = scores_without_groups(posterior, np.arange(5), np.arange(IMAGES), pairs, answers)
    for image in range(5):
        rest = (pairs != image).all(axis=1)
        refit = of_all(fit(features, pairs[rest], answers[rest], **same), features)
        assert mean[image] == pytest.approx(refit.mean[image], abs=0.15)
        assert deviation[image] == pytest.approx(np.sqrt(refit.variance[image]), rel=0.08)


def test_a_learner_knows_its_own_images_and_a_saved_ranker_takes_all_for_strangers(tmp_path: Path) -> None:
    features, _, pairs, answers = asked()
    config = ConvexConfig(backbone="none", image_effects=True)
    learner = Learner(config, features)
    said = Said(np.arange(300) % 2, ("one", "two"), np.arange(300) % 3 == 0)
    ranker = learner.fit(pairs, answers, said=said)
    own = learner.posterior(ranker)
    assert own.effects is not None
    assert ranker.metrics["image_effects"] == own.effects.deviation
    np.testing.assert_allclose(learner.posterior(ranker, rows=np.array([3, 35])).mean, own.mean[[3, 35]])
    ranker.save(tmp_path)
    again = load_ranker(tmp_path).posterior(features)
    np.testing.assert_allclose(again.mean, own.with_effects(None).mean, atol=1e-6)
    assert again.variance[0] > own.variance[0]


def test_what_does_not_go_together_is_said() -> None:
    with pytest.raises(ConfigError, match="image_effects"):
        ConvexConfig(image_effects=True, multitask=True)
    features, _, pairs, answers = asked(n=50)
    with pytest.raises(RankerError, match="grades"):
        fit(features, pairs, answers, grades=np.zeros(IMAGES))


def test_too_many_images_are_scored_by_features_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    features, _, pairs, answers = asked()
    monkeypatch.setattr("steelyard.ranker.convex._MOST_EFFECTS", 20)
    with caplog.at_level("WARNING"):
        head = fit(features, pairs, answers)
    assert head.effects is None
    assert "30 images were compared" in caplog.text


def test_effects_of_strangers_add_nothing_but_their_deviation() -> None:
    effects = ImageEffects.of_strangers(3, 2, 0.5).with_strangers(1)
    np.testing.assert_array_equal(effects.offset_N, np.zeros(4))
    np.testing.assert_allclose(effects.added_variance(np.ones((4, 2))), 0.25)
    assert ImageEffects.from_arrays({}) is None
