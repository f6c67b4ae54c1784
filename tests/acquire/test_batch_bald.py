"""Joint information of several answers, against its definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import entr

from steelyard.acquire import choose
from steelyard.acquire.batch_bald import Joint
from steelyard.acquire.candidates import draw_candidates
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet
from tests.acquire.conftest import Make


def joint(make_posterior: Make, tau: float, sets: int, draws: int = 40) -> Joint:
    posterior, rng = make_posterior(12, 4, tau=tau), np.random.default_rng(0)
    candidates = draw_candidates(posterior, taken=PairSet(12), rng=rng, images=12, candidates=66)
    return Joint(posterior, candidates, "mean", draws=draws, sets=sets, rng=rng)


def by_definition(told_A_T_m: np.ndarray, picks: list[int]) -> float:
    """I(answers; draw) = H(answers) − H(answers | draw), over every combination of answers."""
    kinds, _, _ = told_A_T_m.shape
    together = 0.0
    for answers in product(range(kinds), repeat=len(picks)):
        each = np.prod([told_A_T_m[a, :, k] for a, k in zip(answers, picks, strict=True)], axis=0)
        together += entr(each.mean())
    return float(together - sum(entr(told_A_T_m[:, :, k]).sum(axis=0).mean() for k in picks))


@pytest.mark.parametrize("tau", [0.0, 0.7])
def test_gains_add_up_to_the_joint_information(make_posterior: Make, tau: float) -> None:
    outlook = joint(make_posterior, tau, sets=10**5)
    picks, total = [3, 40, 12, 3 + 20], 0.0
    for number, k in enumerate(picks):
        total += float(outlook.gain(np.array([k]))[0])
        assert total == pytest.approx(by_definition(outlook.answers_A_T_m, picks[: number + 1]), abs=2e-5)
        outlook.imagine(k)


def test_a_sample_of_answers_comes_close_to_all_of_them(make_posterior: Make) -> None:
    exact, sampled = joint(make_posterior, 0.7, sets=10**5), joint(make_posterior, 0.7, sets=2000)
    for k in (1, 9, 30, 44, 60, 17, 5, 8):
        exact.imagine(k)
        sampled.imagine(k)
    assert len(exact.chance_S) == 3**8
    assert len(sampled.chance_S) == 2000
    some = np.arange(66)
    assert np.abs(sampled.gain(some) - exact.gain(some)).max() < 0.05 * exact.gain(some).max()


def test_a_pair_that_tells_nothing_new_is_not_picked_again(make_posterior: Make) -> None:
    """Two candidates with the same difference: after one of them the other is worth less than it was."""
    outlook = joint(make_posterior, 0.0, sets=64)
    before = float(outlook.gain(np.array([7]))[0])
    outlook.imagine(7)
    assert float(outlook.gain(np.array([7]))[0]) < before


def test_out_of_range_is_named(make_posterior: Make) -> None:
    with pytest.raises(AcquireError, match="'draws' is 2 or more"):
        choose("batch_bald", make_posterior(), 2, taken=PairSet(30), rng=np.random.default_rng(0), options={"draws": 1})  # fmt: skip
