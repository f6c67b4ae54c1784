"""The rank-one machinery against inverting the precision anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.acquire import get_strategy
from steelyard.acquire.candidates import Candidates, draw_candidates, draw_pairs
from steelyard.acquire.dopt import gain
from steelyard.acquire.epig import Foresight, fall
from steelyard.acquire.greedy import Outlook, information, pick
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior


def everything(posterior: Posterior) -> Candidates:
    return draw_candidates(
        posterior,
        taken=PairSet(len(posterior)),
        rng=np.random.default_rng(0),
        images=10_000,
        candidates=10**6,
    )


def differences(posterior: Posterior, pairs: np.ndarray) -> np.ndarray:
    return np.asarray(posterior.features_N_D[pairs[:, 0]] - posterior.features_N_D[pairs[:, 1]])


def slope(posterior: Posterior, pairs: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-posterior.difference(pairs)[0]))
    return p * (1 - p)


@pytest.mark.parametrize("tau", [0.0, 0.7])
def test_the_covariance_after_picks_is_the_inverse_of_the_grown_precision(make_posterior, tau: float) -> None:
    posterior = make_posterior(tau=tau)
    outlook = Outlook(posterior, everything(posterior))
    pairs = outlook.candidates.pairs
    precision = np.linalg.inv(posterior.covariance_D_D)
    chained = posterior
    for k in (3, 200, 17, 3, 411):
        z = differences(posterior, pairs[[k]])[0]
        mean = posterior.difference(pairs[[k]])[0]
        precision = precision + information(mean, mean, tau=tau)[0] * np.outer(z, z)
        chained = chained.imagine(pairs[k])
        outlook.imagine(k)
    expected = np.linalg.inv(precision)
    assert np.allclose(outlook.covariance_D_D, expected, rtol=1e-9)
    assert np.allclose(chained.covariance_D_D, expected, rtol=1e-9)
    z = differences(posterior, pairs)
    assert np.allclose(outlook.variance_m, np.einsum("md,de,me->m", z, expected, z), rtol=1e-8)
    assert np.allclose(outlook.mean_m, posterior.difference(pairs)[0])


def test_information_is_the_curvature_of_the_log_likelihood_before_the_answer_is_known() -> None:
    # RankNet: −d²/dΔ² log σ(Δ) = σ̇; expected: the mean of σ̇ over the Gaussian, up to the probit approximation.
    mean, variance = np.array([0.0, 1.0, -3.0, 5.0]), np.array([0.5, 2.0, 4.0, 9.0])
    p = 1 / (1 + np.exp(-mean))
    assert np.allclose(information(mean, variance), p * (1 - p))
    draws = mean[:, None] + np.sqrt(variance)[:, None] * np.random.default_rng(0).standard_normal(
        (4, 200_000)
    )
    q = 1 / (1 + np.exp(-draws))
    assert np.allclose(
        information(mean, variance, curvature="expected"), (q * (1 - q)).mean(axis=1), atol=0.01
    )
    assert (information(mean, variance, tau=0.5) > 0).all()


def test_expected_curvature_sees_more_in_an_unsure_large_difference() -> None:
    mean, variance = np.array([6.0]), np.array([16.0])
    assert information(mean, variance, curvature="expected") > 10 * information(mean, variance)


@pytest.mark.parametrize("weight", ["slope", "square", "flat"])
def test_epig_is_the_fall_in_variance_of_the_targets_by_an_explicit_update(
    make_posterior, weight: str
) -> None:
    posterior = make_posterior(size=12, width=4)
    rng = np.random.default_rng(1)
    targets = np.array([(i, j) for i, j in rng.integers(12, size=(60, 2)) if i != j])
    z = differences(posterior, targets)
    share = {
        "slope": slope(posterior, targets),
        "square": slope(posterior, targets) ** 2,
        "flat": np.ones(len(z)),
    }[weight]
    matrix = (z * share[:, None]).T @ z / len(z)
    outlook = Foresight(posterior, everything(posterior), matrix, "mean")
    now = posterior
    for k in (5, 40, 5):
        scores = fall(outlook, slice(None))
        for c in (0, 7, 33, 65):
            pair = outlook.candidates.pairs[c]
            before, after = now.difference(targets)[1], now.imagine(pair).difference(targets)[1]
            assert scores[c] == pytest.approx(np.mean(share * (before - after)), rel=1e-8)
        now = now.imagine(outlook.candidates.pairs[k])
        outlook.imagine(k)


def test_updates_do_not_drift_over_a_thousand_picks(make_posterior) -> None:
    posterior = make_posterior(size=200, width=20)
    candidates = everything(posterior)
    matrix = candidates.features_P_D.T @ candidates.features_P_D / 200
    outlook = Foresight(posterior, candidates, matrix, "mean")
    for k in np.random.default_rng(0).integers(len(candidates), size=1000).tolist():
        outlook.imagine(k)
    covariance = outlook.covariance_D_D
    assert np.allclose(outlook.variance_m, outlook.quadratic(covariance), rtol=1e-6, atol=1e-12)
    assert np.allclose(
        outlook.explained_m, outlook.quadratic(covariance @ matrix @ covariance), rtol=1e-5, atol=1e-12
    )


@pytest.mark.parametrize("name", ["dopt", "guro", "entropy", "pair_bald"])
def test_greedy_picks_are_those_of_starting_anew_after_each(make_posterior, name: str) -> None:
    posterior = make_posterior(size=14, width=3)
    options = {"images": 100, "candidates": 10**6, "uncertainty": "posterior"}
    strategy = get_strategy(name)
    together = strategy(posterior, 12, taken=PairSet(14), rng=np.random.default_rng(0), **options)
    taken, now = PairSet(14), posterior
    for pair, score in zip(together.pairs, together.scores, strict=True):
        single = strategy(now, 1, taken=taken, rng=np.random.default_rng(0), **options)
        assert single.pairs[0].tolist() == pair.tolist()
        assert single.scores[0] == pytest.approx(score, rel=1e-7)
        taken.add([pair])
        now = now.imagine(pair)


def test_dopt_gains_add_up_to_the_growth_of_the_log_determinant(make_posterior) -> None:
    posterior = make_posterior()
    rng = np.random.default_rng(0)
    choice = get_strategy("dopt")(posterior, 20, taken=PairSet(30), rng=rng, uncertainty="posterior")
    after = posterior
    for pair in choice.pairs:
        after = after.imagine(pair)
    before_log = np.linalg.slogdet(posterior.covariance_D_D)[1]
    assert choice.scores.sum() == pytest.approx((before_log - np.linalg.slogdet(after.covariance_D_D)[1]) / 2)
    assert (np.diff(choice.scores) <= 1e-12).all()  # submodular: gains never rise


def test_lazy_greedy_picks_the_same(make_posterior) -> None:
    for noise, balance in ((0.0, 0.0), (0.5, 0.0), (0.0, 0.7), (0.5, 0.7)):
        results = []
        for lazy in (True, False):
            posterior = make_posterior(size=60, width=8)
            outlook = Outlook(posterior, everything(posterior))
            rng = np.random.default_rng(3)
            results.append(pick(outlook, gain, 80, rng=rng, noise=noise, balance=balance, lazy=lazy))
        assert (results[0][0] == results[1][0]).all()
        assert np.allclose(results[0][1], results[1][1])


def test_noise_draws_in_proportion_to_the_scores(make_posterior) -> None:
    """Gumbel noise of scale 1 on log scores makes the first pick a draw with probability score / sum."""
    posterior = make_posterior(size=4, width=2)
    candidates = everything(posterior)
    scores = gain(Outlook(posterior, candidates), slice(None))
    rng = np.random.default_rng(0)
    firsts = [pick(Outlook(posterior, candidates), gain, 1, rng=rng, noise=1.0)[0][0] for _ in range(4000)]
    measured = np.bincount(firsts, minlength=6) / 4000
    assert np.abs(measured - scores / scores.sum()).max() < 0.03


def test_balance_uses_images_more_evenly(make_posterior) -> None:
    posterior = make_posterior(size=60, width=3)
    most = []
    for balance in (0.0, 1.0, 1e6):
        choice = get_strategy("dopt")(
            posterior, 30, taken=PairSet(60), rng=np.random.default_rng(0), balance=balance
        )
        most.append(np.bincount(choice.pairs.ravel()).max())
    assert most[0] > most[1] > most[2] == 1


def test_balance_counts_earlier_pairs(make_posterior) -> None:
    posterior = make_posterior(size=20, width=3)
    taken = PairSet(20, [(i, j) for i in range(10) for j in range(i)])
    choice = get_strategy("epig")(posterior, 5, taken=taken, rng=np.random.default_rng(0), balance=1e6)
    assert choice.pairs.min() >= 10


@given(
    size=st.integers(2, 40),
    count=st.integers(1, 200),
    near=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_candidate_pairs_are_different_unordered_pairs(size: int, count: int, near: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = draw_pairs(rng.standard_normal(size), count, rng=rng, near=near)
    assert (first < second).all()
    assert first.min() >= 0
    assert second.max() < size
    assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == len(first) <= max(count, 1)
    if size * (size - 1) // 2 <= count:
        assert len(first) == size * (size - 1) // 2


def test_near_candidates_are_close_in_score() -> None:
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(500)
    gaps = [
        np.abs(mean[a] - mean[b]).mean()
        for a, b in (draw_pairs(mean, 2000, rng=rng, near=near) for near in (0.0, 1.0))
    ]
    assert gaps[1] < gaps[0] / 4


@pytest.mark.parametrize(
    ("options", "message"),
    [({"noise": -1}, "'noise' is a number of 0 or more, not -1"),
     ({"balance": float("nan")}, "'balance' is a number of 0 or more"),
     ({"near": 2}, "'near' is a share between 0 and 1, not 2"),
     ({"uncertainty": "own"}, "'uncertainty' is 'design' or 'posterior', not 'own'"),
     ({"images": 1}, "not 1 and"),
     ({"curvature": "flat"}, "'curvature' is 'mean' or 'expected', not 'flat'"),
     ({"candidate": 5}, "no option 'candidate' – did you mean 'candidates'?")],
)  # fmt: skip
def test_bad_options_are_refused_by_name(make_posterior, options: dict, message: str) -> None:
    with pytest.raises(AcquireError) as raised:
        get_strategy("dopt")(make_posterior(), 3, taken=PairSet(30), rng=np.random.default_rng(0), **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"targets": 0}, "'targets' is 1 or more, not 0"), ({"even": -0.1}, "'even' is a share"), ({"weight": "steep"}, "not 'steep'")],
)  # fmt: skip
def test_bad_targets_are_refused(make_posterior, options: dict, message: str) -> None:
    with pytest.raises(AcquireError) as raised:
        get_strategy("epig")(make_posterior(), 3, taken=PairSet(30), rng=np.random.default_rng(0), **options)
    assert message in str(raised.value)


def test_features_that_are_not_finite_are_refused() -> None:
    features = np.ones((5, 2))
    features[3, 1] = np.nan
    broken = Posterior(0.0, features, np.zeros(2), np.eye(2), "laplace")
    with pytest.raises(AcquireError, match="not finite"):
        get_strategy("epig")(broken, 2, taken=PairSet(5), rng=np.random.default_rng(0))
