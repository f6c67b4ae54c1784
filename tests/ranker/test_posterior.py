"""Posterior: against draws, dense linear algebra and refits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from steelyard.errors import RankerError
from steelyard.ranker import likelihood
from steelyard.ranker.posterior import Posterior


def gaussian(rng: np.random.Generator, n: int = 40, d: int = 6, tau: float = 0.0) -> Posterior:
    root = rng.standard_normal((d, d))
    return Posterior(
        rng.standard_normal(n),
        rng.standard_normal((n, d)),
        rng.standard_normal(d),
        root @ root.T / d,
        "laplace",
        tau,
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_draws_are_p4_and_p5(rng: np.random.Generator) -> None:
    scores = rng.standard_normal((30, 50)) * 3 + 1
    posterior = Posterior.from_draws(scores)
    np.testing.assert_allclose(posterior.mean, scores.sum(0) / 30)  # P4
    np.testing.assert_allclose(posterior.variance, (scores**2).mean(0) - scores.mean(0) ** 2)  # P5
    pairs = rng.permutation(50)[:20].reshape(10, 2)
    mean, variance = posterior.difference(pairs)
    gaps = scores[:, pairs[:, 0]] - scores[:, pairs[:, 1]]
    np.testing.assert_allclose(mean, gaps.mean(0))
    np.testing.assert_allclose(variance, gaps.var(0))
    np.testing.assert_allclose(posterior.covariance_of(range(5)), np.cov(scores[:, :5].T, bias=True))


def test_closed_form_is_what_dropout_draws(rng: np.random.Generator) -> None:
    inputs, weights, p = rng.standard_normal((12, 20)), rng.standard_normal(20), 0.3
    posterior = Posterior.closed_form(inputs, weights, p, bias=0.5)
    masks = (rng.random((200_000, 20)) >= p) / (1 - p)
    scores = (masks * weights) @ inputs.T + 0.5
    np.testing.assert_allclose(posterior.mean, inputs @ weights + 0.5)
    np.testing.assert_allclose(posterior.variance, scores.var(0), rtol=0.02)
    pairs = np.array([[0, 1], [2, 3], [4, 11]])
    np.testing.assert_allclose(
        posterior.difference(pairs)[1], np.diff(scores[:, pairs], axis=2).var(0)[:, 0], rtol=0.02
    )


def test_laplace_is_the_inverse_hessian(rng: np.random.Generator) -> None:
    inputs, weights = rng.standard_normal((30, 4)), rng.standard_normal(4)
    pairs = np.stack([rng.permutation(30)[:15], rng.permutation(30)[15:]], 1)
    for tau in (0.0, 0.7):
        answers = rng.choice([0.0, 0.5, 1.0], size=15)

        def objective(w: np.ndarray, tau: float = tau, answers: np.ndarray = answers) -> float:
            z = inputs[pairs[:, 0]] - inputs[pairs[:, 1]]
            return float(0.3 * w @ w / 2 - likelihood.log_likelihood(z @ w, answers, tau).sum())

        hessian = numerical_hessian(objective, weights)
        posterior = Posterior.laplace(inputs, weights, pairs, answers, precision=0.3, tau=tau)
        np.testing.assert_allclose(posterior.covariance_D_D, np.linalg.inv(hessian), rtol=1e-4)


@pytest.mark.parametrize("tau", [0.0, 0.4])
@pytest.mark.parametrize("answer", [1.0, 0.5, 0.0])
def test_likelihood_derivatives(tau: float, answer: float) -> None:
    for d in (-3.0, -0.2, 0.0, 1.7):
        step = 1e-5
        f = [float(likelihood.log_likelihood(d + k * step, answer, tau)) for k in (-1, 0, 1)]
        assert float(likelihood.slope(d, answer, tau)) == pytest.approx((f[2] - f[0]) / (2 * step), abs=1e-8)
        assert float(likelihood.curvature(d, answer, tau)) == pytest.approx(
            -(f[2] - 2 * f[1] + f[0]) / step**2, abs=1e-4
        )


def test_outcomes_add_up_and_rao_kupper_ties_are_the_rest() -> None:
    d = np.linspace(-4, 4, 9)
    for answer, column in ((1.0, 0), (0.5, 1), (0.0, 2)):
        np.testing.assert_allclose(
            np.exp(likelihood.log_likelihood(d, answer, 0.6)),
            likelihood.outcomes(d, 0.0, 0.6)[:, column],
            rtol=1e-12,
        )
    np.testing.assert_allclose(likelihood.outcomes(d, 2.0, 0.6).sum(1), 1.0)


def test_expected_curvature_is_the_mean_over_answers() -> None:
    d, tau = np.linspace(-3, 3, 7), 0.5
    shares = likelihood.outcomes(d, 0.0, tau)
    mean = sum(shares[:, k] * likelihood.curvature(d, a, tau) for k, a in enumerate((1.0, 0.5, 0.0)))
    np.testing.assert_allclose(likelihood.expected_curvature(d, tau), mean)
    np.testing.assert_allclose(likelihood.expected_curvature(d), likelihood.curvature(d, 1.0))


def test_likelihood_stays_finite_far_out() -> None:
    for tau in (0.0, 2.0):
        for answer in (0.0, 0.5, 1.0):
            assert np.isfinite(likelihood.log_likelihood([-1e6, 1e6], answer, tau)).all()
            assert np.isfinite(likelihood.curvature([-1e6, 1e6], answer, tau)).all()


def test_probability_against_quadrature(rng: np.random.Generator) -> None:
    for tau in (0.0, 0.5):
        posterior = gaussian(rng, tau=tau)
        pairs = np.array([[0, 1], [2, 3], [4, 5]])
        means, variances = posterior.difference(pairs)
        for m, v, p in zip(means, variances, posterior.probability(pairs), strict=True):
            exact = integrate.quad(
                lambda x, m=m, v=v, tau=tau: likelihood.sigmoid(np.asarray(x - tau)) * stats.norm.pdf(x, m, np.sqrt(v)),
                m - 12 * np.sqrt(v), m + 12 * np.sqrt(v),
            )[0]  # fmt: skip
            assert p == pytest.approx(exact, abs=0.02)
    back = posterior.outcomes(pairs[:, ::-1])
    np.testing.assert_allclose(posterior.outcomes(pairs), back[:, ::-1])


def test_sample_has_the_stated_moments(rng: np.random.Generator) -> None:
    posterior = gaussian(rng, n=8)
    scores = posterior.sample(100_000, rng)
    assert scores.shape == (100_000, 8)
    np.testing.assert_allclose(scores.mean(0), posterior.mean, atol=0.05)
    np.testing.assert_allclose(np.cov(scores.T), posterior.covariance_of(range(8)), atol=0.15)
    again = [posterior.sample(3, np.random.default_rng(1)) for _ in range(2)]
    np.testing.assert_array_equal(again[0], again[1])


@pytest.mark.parametrize("tau", [0.0, 0.6])
@pytest.mark.parametrize("answer", [1.0, 0.5, 0.0])
def test_observe_finds_the_mode_and_its_curvature(
    rng: np.random.Generator, tau: float, answer: float
) -> None:
    posterior = gaussian(rng, d=4, tau=tau)
    z = posterior.features_N_D[3] - posterior.features_N_D[9]
    gap = posterior.offset_N[3] - posterior.offset_N[9]
    inverse = np.linalg.inv(posterior.covariance_D_D)

    def objective(w: np.ndarray) -> float:
        step = w - posterior.weights_D
        return float(step @ inverse @ step / 2 - likelihood.log_likelihood(z @ w + gap, answer, tau))

    best = optimize.minimize(objective, posterior.weights_D, method="BFGS", options={"gtol": 1e-9}).x
    after = posterior.observe((3, 9), answer)
    np.testing.assert_allclose(after.weights_D, best, atol=1e-5)
    bend = likelihood.curvature(z @ best + gap, answer, tau)
    np.testing.assert_allclose(
        after.covariance_D_D, np.linalg.inv(inverse + bend * np.outer(z, z)), atol=1e-6
    )
    np.testing.assert_allclose(after.mean, after.features_N_D @ best + after.offset_N, atol=1e-4)


def test_many_answers_one_by_one_stay_near_the_refit(rng: np.random.Generator) -> None:
    n, d = 300, 10
    rows, truth = rng.standard_normal((n, d)), rng.standard_normal(d)
    pairs = rng.integers(0, n, size=(160, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    z = rows[pairs[:, 0]] - rows[pairs[:, 1]]
    answers = (likelihood.sigmoid(z @ truth) > rng.random(len(pairs))).astype(float)

    def mode(k: int) -> np.ndarray:
        def objective(w: np.ndarray) -> float:
            return float(w @ w / 2 - likelihood.log_likelihood(z[:k] @ w, answers[:k]).sum())

        return np.asarray(optimize.minimize(objective, np.zeros(d), method="BFGS").x)

    k = 100
    posterior = Posterior.laplace(rows, mode(k), pairs[:k], answers[:k], precision=1.0)
    for pair, answer in zip(pairs[k:], answers[k:], strict=True):
        posterior = posterior.observe(pair, answer)
    refit = Posterior.laplace(rows, mode(len(pairs)), pairs, answers, precision=1.0)
    assert np.corrcoef(posterior.mean, refit.mean)[0, 1] > 0.99
    assert stats.spearmanr(posterior.variance, refit.variance).statistic > 0.98
    assert np.abs(posterior.variance / refit.variance - 1).mean() < 0.1


def test_thousands_of_answers_do_not_wear_the_covariance_out(rng: np.random.Generator) -> None:
    posterior = gaussian(rng, d=12)
    inverse = np.linalg.inv(posterior.covariance_D_D)
    for _ in range(2000):
        i, j = rng.choice(40, 2, replace=False)
        z = posterior.features_N_D[i] - posterior.features_N_D[j]
        bend = likelihood.expected_curvature(posterior.difference([[i, j]])[0])
        inverse += bend * np.outer(z, z)
        posterior = posterior.imagine((i, j))
    np.testing.assert_allclose(posterior.covariance_D_D @ inverse, np.eye(12), atol=1e-8)
    assert (posterior.variance > 0).all()


def test_variance_after_answers_is_updated_not_recomputed_wrongly(rng: np.random.Generator) -> None:
    posterior = gaussian(rng)
    assert (posterior.variance > 0).all()  # fills the cache that later posteriors build on
    after = posterior
    for k in range(10):  # more answers than weights: the cache is dropped on the way
        after = after.observe((k, k + 1), float(k % 2))
        after = after.imagine((k, k + 5))
        expected = np.einsum("nd,de,ne->n", after.features_N_D, after.covariance_D_D, after.features_N_D)
        if k in (0, 1, 4, 9):
            np.testing.assert_allclose(after.variance, expected, rtol=1e-6)
    assert (after.variance <= posterior.variance + 1e-12).all()


def test_imagine_keeps_the_mean_and_shrinks_the_pair(rng: np.random.Generator) -> None:
    posterior = gaussian(rng)
    after = posterior.imagine((1, 2))
    np.testing.assert_array_equal(after.mean, posterior.mean)
    before, later = posterior.difference([[1, 2]])[1], after.difference([[1, 2]])[1]
    bend = likelihood.expected_curvature(posterior.difference([[1, 2]])[0])
    np.testing.assert_allclose(later, before / (1 + bend * before))


def test_observe_leaves_the_old_one_alone(rng: np.random.Generator) -> None:
    posterior = gaussian(rng)
    mean, variance = posterior.mean.copy(), posterior.variance.copy()
    posterior.observe((0, 1), 1.0).variance  # noqa: B018
    np.testing.assert_array_equal(posterior.mean, mean)
    np.testing.assert_array_equal(posterior.variance, variance)


def test_rows_are_the_same_images(rng: np.random.Generator) -> None:
    posterior = gaussian(rng)
    for warm in (False, True):
        if warm:
            _ = posterior.mean, posterior.variance
        part = posterior.observe((1, 2), 1.0).rows([5, 2, 2])
        whole = posterior.observe((1, 2), 1.0)
        np.testing.assert_allclose(part.mean, whole.mean[[5, 2, 2]])
        np.testing.assert_allclose(part.variance, whole.variance[[5, 2, 2]])
    assert len(posterior.rows(np.arange(len(posterior)) < 3)) == 3


def test_a_memory_map_is_read_in_blocks(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.ranker.posterior._BLOCK", 64)
    rows = rng.standard_normal((500, 6)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    weights, covariance = rng.standard_normal(6), np.eye(6) + 0.1
    lazy = Posterior(0.0, np.load(tmp_path / "rows.npy", mmap_mode="r"), weights, covariance, "laplace")
    assert isinstance(lazy.features_N_D, np.memmap)
    exact = rows.astype(float)
    np.testing.assert_allclose(lazy.mean, exact @ weights, atol=1e-5)
    np.testing.assert_allclose(lazy.variance, np.einsum("nd,de,ne->n", exact, covariance, exact), rtol=1e-6)
    pairs = rng.integers(0, 500, size=(100, 2))
    z = exact[pairs[:, 0]] - exact[pairs[:, 1]]
    np.testing.assert_allclose(lazy.difference(pairs)[0], z @ weights, atol=1e-12)
    assert lazy.sample(2, rng).shape == (2, 500)


def test_no_pairs_are_no_differences(rng: np.random.Generator) -> None:
    mean, variance = gaussian(rng).difference(np.empty((0, 2), dtype=int))
    assert mean.shape == variance.shape == (0,)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda p: Posterior(0.0, np.ones(3), [1], [[1]], "laplace"), "shape"),
        (lambda p: Posterior(0.0, np.ones((3, 2)), [1], [[1]], "laplace"), "2 columns"),
        (lambda p: Posterior(np.ones(2), np.ones((3, 1)), [1], [[1]], "laplace"), "3 images"),
        (lambda p: Posterior(0.0, np.ones((3, 1)), [np.nan], [[1]], "laplace"), "diverged"),
        (lambda p: Posterior(0.0, np.ones((3, 1)), [1], [[1]], "laplace", tau=-1.0), "tau"),
        (lambda p: Posterior(0.0, np.full((3, 1), np.inf), [1], [[1]], "laplace").mean, "not finite"),
        (lambda p: Posterior.from_draws(np.full((2, 3), np.nan)), "image 0"),
        (lambda p: Posterior.from_draws(np.ones(3)), r"\(T, N\)"),
        (lambda p: Posterior.closed_form(np.ones((3, 1)), [1], 1.0), "below 1"),
        (lambda p: Posterior.laplace(np.ones((3, 1)), [1], [[0, 1]], [1], precision=0.0), "above 0"),
        (lambda p: Posterior.laplace(np.ones((3, 1)), [1], [[0, 1]], [1, 0], precision=1.0), "2 answers"),
        (lambda p: p.difference([[0, 40]]), "rows 0 … 39"),
        (lambda p: p.difference([[0.5, 1.0]]), "whole numbers"),
        (lambda p: p.observe((0, 1), 2.0), "answer 0 is 2.0"),
        (lambda p: p.observe((0, 1), np.nan), "nan"),
    ],
)
def test_bad_input_is_named(rng: np.random.Generator, break_it: object, message: str) -> None:
    with pytest.raises(RankerError, match=message):
        break_it(gaussian(rng))  # type: ignore[operator]


def test_rao_kupper_knows_three_answers(rng: np.random.Generator) -> None:
    with pytest.raises(RankerError, match="Rao–Kupper"):
        gaussian(rng, tau=0.5).observe((0, 1), 0.7)


def test_numpy_is_enough() -> None:
    code = (
        "import sys, steelyard.ranker.posterior; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def numerical_hessian(function: object, at: np.ndarray, step: float = 1e-4) -> np.ndarray:
    d = len(at)
    eye = np.eye(d) * step
    f = function
    return np.array(
        [
            [
                (f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)) / (4 * step**2)  # type: ignore[operator]
                for b in eye
            ]
            for a in eye
        ]
    )


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_rows_of_a_memory_map_are_gathered_and_what_was_written_to_it_stays(
    tmp_path: Path, mode: str
) -> None:
    from steelyard.ranker.blocks import blocks, gather

    plain = np.random.default_rng(0).normal(size=(3000, 7)).astype(np.float32)
    np.save(tmp_path / "rows.npy", plain)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)
    if mode != "r":
        mapped[5] = plain[5] = 42.0
    index = np.random.default_rng(1).integers(0, 3000, 1000)
    assert np.array_equal(gather(mapped, index), plain[index])
    assert np.array_equal(gather(plain, index), plain[index])
    assert np.array_equal(np.concatenate([mapped[part] for part in blocks(mapped, 700)]), plain)
    assert len(gather(mapped, index[:0])) == 0
