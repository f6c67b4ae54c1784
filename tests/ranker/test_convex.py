"""ConvexHead and Reduction: against scikit-learn, choix, quadrature and numerical derivatives."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from scipy import integrate, optimize, stats
from sklearn.linear_model import LogisticRegression

from steelyard.errors import RankerError
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.convex_objective import ConvexObjective
from steelyard.ranker.likelihood import log_likelihood, sigmoid
from steelyard.ranker.reduction import Reduction
from steelyard.ranker.temper import tau_prior


def answered(
    rng: np.random.Generator, n: int = 60, d: int = 5, count: int = 150
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    features, truth = rng.standard_normal((n, d)), rng.standard_normal(d)
    first = rng.integers(n, size=count)
    pairs = np.stack([first, (first + 1 + rng.integers(n - 1, size=count)) % n], 1)
    gap = (features[pairs[:, 0]] - features[pairs[:, 1]]) @ truth
    answers = np.where(np.abs(gap) < 0.3, 0.5, sigmoid(gap) > rng.random(count))
    return features, pairs, answers, truth


def plain(features: np.ndarray, pairs: object, answers: object, **options: object) -> ConvexHead:
    """A head without a reduction in front."""
    return ConvexHead.fit(
        features, pairs, answers, reduction=Reduction.identity(features.shape[1]), **options
    )  # type: ignore[arg-type]


def test_weights_are_scikit_learns(rng: np.random.Generator) -> None:
    features, pairs, answers, _ = answered(rng)
    z = features[pairs[:, 0]] - features[pairs[:, 1]]
    # A half tie is half a win and half a loss; mirrored differences make both classes exist without an intercept.
    rows = np.concatenate([z, -z, z, -z])
    labels = np.repeat([1, 0, 0, 1], len(z))
    weights = np.concatenate([answers, answers, 1 - answers, 1 - answers]) / 2
    oracle = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-12, max_iter=10_000)
    oracle.fit(rows, labels, sample_weight=weights)
    head = plain(features, pairs, answers, precision=0.7)
    np.testing.assert_allclose(head.weights, oracle.coef_[0], atol=1e-6)


def test_one_hot_features_are_bradley_terry(rng: np.random.Generator) -> None:
    n = 8
    pairs = np.array([(i, j) for i in range(n) for j in range(n) if i != j])
    answers = (rng.random(len(pairs)) < sigmoid((pairs[:, 0] - pairs[:, 1]) / 3.0)).astype(float)
    won = [(int(i), int(j)) if a else (int(j), int(i)) for (i, j), a in zip(pairs, answers, strict=True)]
    oracle = choix.opt_pairwise(n, won, alpha=0.2, tol=1e-10)
    # choix penalises alpha·|w|² where this head has λ/2·|w|².
    head = plain(np.eye(n), pairs, answers, precision=0.4)
    np.testing.assert_allclose(head.weights - head.weights.mean(), oracle - oracle.mean(), atol=1e-4)


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
@pytest.mark.parametrize("graded", [False, True])
def test_derivatives_are_numerical(rng: np.random.Generator, ties: str, graded: bool) -> None:
    features, pairs, answers, _ = answered(rng, d=3, count=40)
    problem = ConvexObjective(
        z=features[pairs[:, 0]] - features[pairs[:, 1]],
        answers=answers,
        share=rng.random(len(pairs)) + 0.5,
        phi=features[:10] if graded else np.empty((0, 3)),
        grades=rng.standard_normal(10) if graded else np.empty(0),
        grade_weight=0.8,
        ties=ties,  # type: ignore[arg-type]
        size=3,
    )
    at = np.array([0.3, -0.5, 0.8, *([0.4] if graded else []), *([0.6] if ties == "rao_kupper" else [])])
    gradient, hessian = problem.derivatives(at, 0.9)
    steps = np.eye(len(at)) * 1e-5
    slopes = [(problem.value(at + s, 0.9) - problem.value(at - s, 0.9)) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    bends = [
        (problem.derivatives(at + s, 0.9)[0] - problem.derivatives(at - s, 0.9)[0]) / 2e-5 for s in steps
    ]
    np.testing.assert_allclose(hessian, bends, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tau", [0.05, 0.7, 3.0])
def testtau_prior_is_half_a_tie_and_half_a_decision(tau: float) -> None:
    def value(t: float) -> float:
        tie, win = (float(log_likelihood(0.0, a, t)) for a in (0.5, 1.0))
        return (tie + win) / 2

    step = 1e-4
    assert tau_prior(tau)[0] == pytest.approx(value(tau))
    assert tau_prior(tau)[1] == pytest.approx((value(tau + step) - value(tau - step)) / (2 * step), rel=1e-4)
    bend = (value(tau + step) - 2 * value(tau) + value(tau - step)) / step**2
    assert tau_prior(tau)[2] == pytest.approx(bend, rel=1e-3)


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
def test_the_gradient_vanishes_at_the_fit(rng: np.random.Generator, ties: str) -> None:
    features, pairs, answers, _ = answered(rng)
    head = plain(features, pairs, answers, ties=ties)
    z = features[pairs[:, 0]] - features[pairs[:, 1]]

    def objective(x: np.ndarray) -> float:
        tau = float(x[-1]) if ties == "rao_kupper" else 0.0
        if tau < 0:
            return 1e9
        prior = head.precision / 2 * x[:5] @ x[:5] - (tau_prior(tau)[0] if tau else 0.0)
        return float(prior - head.share * log_likelihood(z @ x[:5], answers, tau).sum())

    at = np.array([*head.weights, *([head.tau] if ties == "rao_kupper" else [])])
    slopes = optimize.approx_fprime(at, objective, 1e-7)
    np.testing.assert_allclose(slopes, 0.0, atol=2e-4)


def test_newton_ends_where_steps_drown_in_rounding(rng: np.random.Generator) -> None:
    # A fit that starts next to its optimum: every step changes the value by less than a float64 can tell.
    features, pairs, answers, _ = answered(rng, n=200, d=30, count=300)
    head = plain(features, pairs, answers, precision=10.0)
    for scale in (1e-5, 1e-7, 1e-9):
        near = dataclasses.replace(head, weights=head.weights + scale * rng.standard_normal(30))
        again = plain(features, pairs, answers, precision=10.0, start=near)
        np.testing.assert_allclose(again.weights, head.weights, atol=1e-7)


def test_evidence_is_the_integral_in_one_dimension(rng: np.random.Generator) -> None:
    features = rng.standard_normal((400, 1))
    pairs = rng.permutation(400).reshape(200, 2)
    z = (features[pairs[:, 0]] - features[pairs[:, 1]])[:, 0]
    answers = (sigmoid(1.3 * z) > rng.random(200)).astype(float)
    head = plain(features, pairs, answers, precision=0.5)

    def joint(w: float) -> float:
        return float(log_likelihood(z * w, answers).sum() + stats.norm.logpdf(w, scale=np.sqrt(2)))

    peak = joint(float(head.weights[0]))
    exact = np.log(integrate.quad(lambda w: np.exp(joint(w) - peak), -2, 5)[0]) + peak
    assert head.log_evidence == pytest.approx(exact, abs=0.02)
    assert head.covariance[0, 0] == pytest.approx(
        integrate.quad(lambda w: (w - head.weights[0]) ** 2 * np.exp(joint(w) - exact), -2, 5)[0], rel=0.1
    )


def test_evidence_with_grades_is_the_integral(rng: np.random.Generator) -> None:
    features = rng.standard_normal((60, 1))
    pairs = rng.permutation(60).reshape(30, 2)
    z = (features[pairs[:, 0]] - features[pairs[:, 1]])[:, 0]
    answers = (sigmoid(z) > rng.random(30)).astype(float)
    grades = np.where(np.arange(60) < 20, features[:, 0] + 1 + rng.standard_normal(60) / 2, np.nan)
    head = plain(features, pairs, answers, precision=0.5, grades=grades)

    def joint(b: float, w: float) -> float:
        known = stats.norm.logpdf(grades[:20], features[:20, 0] * w + b, np.sqrt(0.5)).sum()
        return float(known + log_likelihood(z * w, answers).sum() + stats.norm.logpdf(w, scale=np.sqrt(2)))

    peak = joint(head.bias, float(head.weights[0]))
    # The trapezium rule is exact to many digits for a smooth bump that ends inside the square.
    w, b = np.linspace(-1, 4, 81), np.linspace(-1, 3, 81)
    heights = [[np.exp(joint(float(y), float(x)) - peak) for y in b] for x in w]
    exact = np.log(np.sum(heights) * (w[1] - w[0]) * (b[1] - b[0])) + peak
    assert head.log_evidence == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
def test_the_chosen_precision_has_the_highest_evidence(rng: np.random.Generator, ties: str) -> None:
    features, pairs, answers, _ = answered(rng)
    best = plain(features, pairs, answers, ties=ties).precision
    evidence = [
        plain(features, pairs, answers, ties=ties, precision=best * factor).log_evidence
        for factor in (0.5, 0.8, 1.0, 1.25, 2.0)
    ]
    assert np.argmax(evidence) == 2


def test_covariance_is_the_inverse_hessian_and_posterior_agrees(rng: np.random.Generator) -> None:
    from steelyard.ranker.posterior import Posterior

    features, pairs, answers, _ = answered(rng)
    for ties in ("half", "rao_kupper"):
        head = plain(features, pairs, answers, ties=ties)
        again = Posterior.laplace(
            features, head.weights, pairs, answers, precision=head.precision, tau=head.tau,
            sample_weight=np.full(len(pairs), head.share),
        )  # fmt: skip
        np.testing.assert_allclose(head.covariance, again.covariance_D_D, atol=1e-9)
        np.testing.assert_allclose(head.posterior(features).mean, again.mean, atol=1e-5)


def test_it_learns_and_shrinks(rng: np.random.Generator) -> None:
    features, pairs, answers, truth = answered(rng, n=200, d=20, count=600)
    few, many = (ConvexHead.fit(features, pairs[:k], answers[:k]) for k in (60, 600))
    assert stats.spearmanr(many.posterior(features).mean, features @ truth).statistic > 0.9
    assert many.posterior(features).variance.mean() < few.posterior(features).variance.mean()


def test_rao_kupper_learns_tau_from_ties(rng: np.random.Generator) -> None:
    features, truth = rng.standard_normal((500, 3)), np.array([1.0, -1.0, 0.5])
    first = rng.integers(500, size=4000)
    pairs = np.stack([first, (first + 1 + rng.integers(499, size=4000)) % 500], 1)
    gap = (features[pairs[:, 0]] - features[pairs[:, 1]]) @ truth
    draw = rng.random(4000)
    answers = np.where(draw < sigmoid(gap - 0.8), 1.0, np.where(draw > 1 - sigmoid(-gap - 0.8), 0.0, 0.5))
    head = plain(features, pairs, answers, ties="rao_kupper")
    assert head.tau == pytest.approx(0.8, abs=0.1)
    np.testing.assert_allclose(head.weights, truth, atol=0.15)
    # Rao–Kupper with no ties at all is nearly RankNet.
    decided = answers != 0.5
    without = plain(features, pairs[decided], answers[decided], ties="rao_kupper")
    assert 0 < without.tau < 0.02


def test_grades_pull_the_scale(rng: np.random.Generator) -> None:
    features, pairs, _, truth = answered(rng, n=100, count=200)
    latent = features @ truth
    grades = np.clip(np.round(latent + 1.5), 0, 3)
    answers = (grades[pairs[:, 0]] > grades[pairs[:, 1]]) * 1.0 + 0.5 * (
        grades[pairs[:, 0]] == grades[pairs[:, 1]]
    )
    known = np.where(np.arange(100) % 2 == 0, grades, np.nan)
    mean = plain(features, pairs, answers, grades=known).posterior(features).mean
    unknown = np.isnan(known)
    assert np.abs(mean - grades)[unknown].mean() < 0.5
    alone = plain(features, np.empty((0, 2), dtype=int), [], grades=known, precision=1.0)
    design = np.column_stack([features, np.ones(100)])[~unknown]
    ridge = np.linalg.solve(
        2 * design.T @ design + np.diag([1.0] * 5 + [0.0]), 2 * design.T @ grades[~unknown]
    )
    np.testing.assert_allclose([*alone.weights, alone.bias], ridge, atol=1e-8)


def test_odd_data(rng: np.random.Generator) -> None:
    features, pairs, answers, _ = answered(rng)
    nothing = plain(features, np.empty((0, 2), dtype=int), [])
    assert (nothing.weights == 0).all()
    assert nothing.posterior(features).variance.min() > 0
    tied = plain(features, pairs, np.full(len(pairs), 0.5))
    np.testing.assert_allclose(tied.weights, 0.0, atol=1e-9)
    all_ties = plain(features, pairs, np.full(len(pairs), 0.5), ties="rao_kupper")
    assert np.isfinite(all_ties.tau)
    assert all_ties.tau > 2
    separable = plain(features, pairs, (features[pairs[:, 0], 0] > features[pairs[:, 1], 0]).astype(float))
    assert np.isfinite(separable.weights).all()
    assert separable.weights[0] > np.abs(separable.weights[1:]).max()
    both = plain(features, np.concatenate([pairs, pairs]), np.concatenate([answers, 1 - answers]))
    np.testing.assert_allclose(both.weights, 0.0, atol=1e-6)
    wide = ConvexHead.fit(rng.standard_normal((10, 300)), [[0, 1], [2, 3]], [1, 0])
    assert wide.reduction.size <= 10
    constant = ConvexHead.fit(np.ones((10, 4)), [[0, 1]], [1])
    np.testing.assert_allclose(constant.posterior(np.ones((10, 4))).mean, 0.0, atol=1e-6)


def test_the_scale_of_features_does_not_matter(rng: np.random.Generator) -> None:
    features, pairs, answers, _ = answered(rng)
    one = plain(features, pairs, answers).posterior(features)
    for factor in (1e-4, 1e6):
        other = plain(features * factor, pairs, answers).posterior(features * factor)
        np.testing.assert_allclose(other.mean, one.mean, rtol=0.02, atol=0.02)
        np.testing.assert_allclose(other.variance, one.variance, rtol=0.02)


def test_a_repeated_answer_counts_as_its_weight(rng: np.random.Generator) -> None:
    features, pairs, answers, _ = answered(rng)
    twice = plain(
        features, np.concatenate([pairs, pairs[:30]]), np.concatenate([answers, answers[:30]]), precision=1.0
    )
    weight = np.where(np.arange(len(pairs)) < 30, 2.0, 1.0)
    weighted = plain(features, pairs, answers, precision=1.0, sample_weight=weight)
    np.testing.assert_allclose(twice.weights, weighted.weights, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_mirrored_pairs_give_the_same_head(seed: int) -> None:
    features, pairs, answers, _ = answered(np.random.default_rng(seed), n=20, d=3, count=25)
    one, other = plain(features, pairs, answers), plain(features, pairs[:, ::-1], 1 - answers)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-7)
    assert one.precision == pytest.approx(other.precision)


def test_same_input_same_head_and_warm_start_agrees(rng: np.random.Generator) -> None:
    features, pairs, answers, _ = answered(rng)
    one, two = (ConvexHead.fit(features, pairs, answers) for _ in range(2))
    np.testing.assert_array_equal(one.weights, two.weights)
    early = ConvexHead.fit(features, pairs[:100], answers[:100], reduction=one.reduction)
    rows = one.transform(features)
    warm = ConvexHead.fit(features, pairs, answers, reduction=one.reduction, rows=rows, start=early)
    np.testing.assert_allclose(warm.weights, one.weights, rtol=0.02, atol=1e-3)
    assert warm.log_evidence == pytest.approx(one.log_evidence, abs=1e-3)


def test_arrays_go_through_safetensors(rng: np.random.Generator) -> None:
    features, pairs, answers, _ = answered(rng)
    for kernel in ("none", "rbf"):
        head = ConvexHead.fit(features, pairs, answers, kernel=kernel, ties="rao_kupper")
        back = ConvexHead.from_arrays(load(save(head.to_arrays())))
        np.testing.assert_array_equal(back.posterior(features).mean, head.posterior(features).mean)
        np.testing.assert_array_equal(back.posterior(features).variance, head.posterior(features).variance)
        assert (back.tau, back.precision, back.log_evidence) == (head.tau, head.precision, head.log_evidence)
    with pytest.raises(RankerError, match="weights"):
        ConvexHead.from_arrays({k: v for k, v in head.to_arrays().items() if k != "weights"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [[0, 99]]}, "rows 0 … 9"),
        ({"pairs": [[0, 0]]}, "itself"),
        ({"pairs": [[0.0, 1.0]]}, "whole numbers"),
        ({"answers": [1, 0]}, "2 answers"),
        ({"answers": [np.nan]}, "answer 0"),
        ({"answers": [0.3], "ties": "rao_kupper"}, "Rao–Kupper"),
        ({"precision": -1.0}, "above 0"),
        ({"sample_weight": [-1.0]}, "sample_weight"),
        ({"grades": [1, 2]}, "10 images"),
        ({"components": 0}, "components"),
    ],
)
def test_bad_input_is_named(rng: np.random.Generator, options: dict[str, object], message: str) -> None:
    with pytest.raises(RankerError, match=message):
        ConvexHead.fit(rng.standard_normal((10, 3)), **({"pairs": [[0, 1]], "answers": [1]} | options))  # type: ignore[arg-type]


def test_features_that_are_not_finite_are_named(rng: np.random.Generator) -> None:
    features = rng.standard_normal((10, 3))
    head = ConvexHead.fit(features, [[0, 1]], [1])
    features[6, 1] = np.nan
    for use in (lambda: Reduction.fit(features), lambda: head.posterior(features)):
        with pytest.raises(RankerError, match="image 6"):
            use()
    with pytest.raises(RankerError, match="3 features"):
        head.posterior(features[:, :2])
    with pytest.raises(RankerError, match="give features"):
        head.posterior()


def test_torch_is_not_needed() -> None:
    code = "import sys, steelyard.ranker.convex; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
