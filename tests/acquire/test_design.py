from __future__ import annotations

import numpy as np
import pytest

from steelyard.acquire import get_strategy
from steelyard.acquire.candidates import draw_candidates
from steelyard.acquire.design import design_covariance
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.posterior import Posterior


def covariance_of(posterior: Posterior, taken: PairSet) -> np.ndarray:
    pool = draw_candidates(posterior, taken=taken, rng=np.random.default_rng(0), images=10_000, candidates=10)
    return design_covariance(posterior, pool, taken)


def test_it_is_the_inverse_of_a_wide_prior_and_a_quarter_for_each_asked_pair(make_posterior) -> None:
    posterior = make_posterior(size=40, width=4)
    pairs = random_pairs(25, 40, taken=PairSet(40), rng=np.random.default_rng(0))
    x = posterior.features_N_D
    z = x[pairs[:, 0]] - x[pairs[:, 1]]
    every = x[:, None] - x[None]
    typical = np.mean(np.sum(every**2, axis=2))  # squared length of a difference, over all ordered pairs
    expected = np.linalg.inv(np.eye(4) * typical / 8.0 + 0.25 * z.T @ z)
    assert np.allclose(covariance_of(posterior, PairSet(40, pairs)), expected)


def test_before_the_first_question_a_typical_difference_has_the_prior_variance(make_posterior) -> None:
    posterior = make_posterior(size=40, width=4)
    scaled = Posterior(0.0, posterior.features_N_D * 1000, posterior.weights_D, np.eye(4), "laplace")
    for each in (posterior, scaled):
        covariance = covariance_of(each, PairSet(40))
        z = (each.features_N_D[:, None] - each.features_N_D[None]).reshape(-1, 4)
        assert np.mean(np.einsum("nd,de,ne->n", z, covariance, z)) == pytest.approx(8.0)


def test_answers_do_not_matter_to_it_but_to_the_choice(make_posterior) -> None:
    """Two models that were asked the same and told otherwise: the same covariance, other open questions."""
    one = make_posterior(size=40, width=4)
    other = Posterior(0.0, one.features_N_D, -3 * one.weights_D[::-1], one.covariance_D_D / 7, "laplace")
    taken = PairSet(40, [(0, 1), (2, 3)])
    assert np.allclose(covariance_of(one, taken), covariance_of(other, taken))
    choices = [get_strategy("epig")(p, 10, taken=taken, rng=np.random.default_rng(0)) for p in (one, other)]
    assert choices[0].pairs.tolist() != choices[1].pairs.tolist()
    tight = Posterior(one.offset_N, one.features_N_D, one.weights_D, one.covariance_D_D / 7, "laplace")
    same = get_strategy("epig")(tight, 10, taken=taken, rng=np.random.default_rng(0))
    assert same.pairs.tolist() == choices[0].pairs.tolist()


def test_posteriors_of_draws_keep_their_own_covariance() -> None:
    posterior = Posterior.from_draws(np.random.default_rng(0).standard_normal((8, 30)))
    taken, request = PairSet(30, [(0, 1), (2, 3)]), {"n": 6}
    by = [
        get_strategy("dopt")(
            posterior, request["n"], taken=taken, rng=np.random.default_rng(0), uncertainty=how
        )
        for how in ("design", "posterior")
    ]
    assert by[0].pairs.tolist() == by[1].pairs.tolist()


def test_a_confident_answer_is_not_asked_for_again() -> None:
    """One long direction, of which the model is sure: its own curvature there is 0, as if nothing had been asked."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((100, 6)) * np.array([3.0, 1, 1, 1, 1, 1])
    weights = np.array([6.0, 0, 0, 0, 0, 0])
    order = np.argsort(features[:, 0])
    asked = np.stack([order[:40], order[::-1][:40]], axis=1)
    posterior = Posterior.laplace(features, weights, asked, np.zeros(40), precision=0.01)
    taken = PairSet(100, asked)
    lengths = {}
    for how in ("design", "posterior"):
        z = np.linalg.inv(covariance_of(posterior, taken) if how == "design" else posterior.covariance_D_D)
        lengths[how] = z[0, 0] / z[1, 1]
    assert lengths["posterior"] < 3 < 20 < lengths["design"]


def test_a_sample_stands_for_many_pairs() -> None:
    pairs = random_pairs(20_000, 3000, taken=PairSet(3000), rng=np.random.default_rng(0))
    posterior = Posterior(
        0.0, np.random.default_rng(1).standard_normal((3000, 5)), np.zeros(5), np.eye(5), "laplace"
    )
    full = posterior.features_N_D[pairs[:, 0]] - posterior.features_N_D[pairs[:, 1]]
    assert np.allclose(
        np.linalg.inv(covariance_of(posterior, PairSet(3000, pairs))),
        np.eye(5) * 10 / 8 + full.T @ full / 4,
        rtol=0.1,
        atol=600,
    )


def test_a_choice_depends_on_the_pairs_that_were_asked_not_on_earlier_choices() -> None:
    """A sample kept in the process served until the set had grown by 2%, so a long run and a fresh one chose differently."""
    rng = np.random.default_rng(0)
    posterior = Posterior(0.0, rng.standard_normal((600, 5)), rng.standard_normal(5), np.eye(5), "laplace")
    pairs = random_pairs(6000, 600, taken=PairSet(600), rng=rng)

    def choose(taken: PairSet) -> tuple[list[list[int]], list[float]]:
        choice = get_strategy("epig")(posterior, 8, taken=taken, rng=np.random.default_rng(1))
        return choice.pairs.tolist(), choice.scores.tolist()  # the scores tell the smallest difference

    used = PairSet(600, pairs[:5960])
    for pair in pairs[5960:]:
        choose(used)
        used.add([pair])
    assert choose(used) == choose(PairSet(600, pairs[::-1])) == choose(used.copy())
