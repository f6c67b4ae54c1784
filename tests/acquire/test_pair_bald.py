from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import entr, expit

from steelyard.acquire import get_strategy
from steelyard.acquire.candidates import draw_candidates
from steelyard.acquire.greedy import Outlook
from steelyard.acquire.pair_bald import SharedDraws, among_draws, disagreement, gaussian
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior


def outlook_of(posterior: Posterior, kind: type[Outlook]) -> Outlook:
    rng = np.random.default_rng(0)
    return kind(
        posterior,
        draw_candidates(posterior, taken=PairSet(len(posterior)), rng=rng, images=100, candidates=10**6),
    )


def single(mean: float, deviation: float) -> float:
    features = np.array([[deviation], [0.0]])
    posterior = Posterior([mean, 0.0], features, [0.0], [[1.0]], "laplace")
    return float(gaussian(outlook_of(posterior, Outlook), slice(None))[0])


@pytest.mark.parametrize(("deviation", "digits"), [(0.1, 9), (1.0, 9), (2.0, 9), (4.0, 7), (8.0, 3)])
@pytest.mark.parametrize("mean", [0.0, -1.0, 4.0])
def test_the_gaussian_form_is_the_integral(mean: float, deviation: float, digits: int) -> None:
    def average(function) -> float:
        def weighted(u: float) -> float:
            return float(function(mean + deviation * u) * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi))

        return float(
            quad(
                weighted,
                -12,
                12,
                points=[-mean / deviation] if abs(mean) < 10 * deviation else None,
                limit=300,
            )[0]
        )

    p = average(expit)
    inside = average(lambda d: entr(expit(d)) + entr(expit(-d)))
    assert single(mean, deviation) == pytest.approx(entr(p) + entr(1 - p) - inside, abs=10.0**-digits)


@pytest.mark.parametrize("tau", [0.0, 0.8])
def test_the_gaussian_form_agrees_with_monte_carlo(make_posterior, tau: float) -> None:
    posterior = make_posterior(size=8, width=3, tau=tau)
    outlook = outlook_of(posterior, Outlook)
    scores = gaussian(outlook, slice(None))
    draws = posterior.sample(100_000, np.random.default_rng(1))
    first, second = outlook.candidates.pairs.T
    differences = (draws[:, first] - draws[:, second]).T
    assert np.allclose(scores, disagreement(differences, np.full(100_000, 1e-5), tau), atol=2e-3)


def test_it_never_rises_when_the_variance_falls() -> None:
    """What lazy greedy rests on."""
    deviations = np.linspace(0.05, 5.0, 60)
    for mean in np.linspace(0, 12, 25):
        assert (np.diff([single(float(mean), float(d)) for d in deviations]) > -1e-12).all()


def test_draws_disagree_as_drawn() -> None:
    rng = np.random.default_rng(2)
    scores_T_N = rng.standard_normal((30, 10)) * 2
    outlook = outlook_of(Posterior.from_draws(scores_T_N), SharedDraws)
    for k, (i, j) in enumerate(outlook.candidates.pairs.tolist()):
        p = expit(scores_T_N[:, i] - scores_T_N[:, j])
        expected = entr(p.mean()) + entr(1 - p.mean()) - np.mean(entr(p) + entr(1 - p))
        assert among_draws(outlook, slice(None))[k] == pytest.approx(expected, abs=1e-9)


def test_imagined_answers_shrink_the_draws_to_the_updated_covariance() -> None:
    rng = np.random.default_rng(3)
    posterior = Posterior.from_draws(rng.standard_normal((20, 12)) * 3)
    outlook = outlook_of(posterior, SharedDraws)
    assert isinstance(outlook, SharedDraws)
    for k in (0, 11, 40, 0):
        outlook.imagine(k)
        posterior = posterior.imagine(outlook.candidates.pairs[k])
    cov = outlook.draws_P_T @ outlook.draws_P_T.T / outlook.draws_P_T.shape[1]
    assert np.allclose(cov, posterior.covariance_of(np.arange(12)))


def test_doubt_without_disagreement_is_worth_nothing() -> None:
    """Two images surely alike: the answer cannot be foretold, and teaches nothing. Entropy falls for it, this does not."""
    features = np.array([[0.0, 0.0], [1e-6, 0.0], [0.0, 3.0], [2.0, 0.0]])
    posterior = Posterior([0.0, 0.0, 1.0, -1.0], features, np.zeros(2), np.eye(2), "laplace")
    options = {"taken": PairSet(4), "rng": np.random.default_rng(0)}
    assert get_strategy("entropy")(posterior, 1, **options).pairs[0].tolist() == [0, 1]
    bald = get_strategy("pair_bald")(posterior, 6, **options)
    assert bald.pairs[-1].tolist() == [0, 1]
    assert bald.scores[-1] < 1e-9


def test_bald_on_draws_chooses_pairs_and_says_why() -> None:
    posterior = Posterior.from_draws(np.random.default_rng(4).standard_normal((30, 25)))
    choice = get_strategy("pair_bald")(posterior, 7, taken=PairSet(25), rng=np.random.default_rng(0))
    assert len(choice) == 7
    assert all(reason.endswith("disagrees with itself about them.") for reason in choice.reasons)
