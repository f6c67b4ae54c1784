"""The next pairs depend on the state, the policy and chance – and on nothing that happened before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.config import AskConfig
from steelyard.errors import AcquireError
from steelyard.loop.chance import Chance
from steelyard.loop.choose import next_pairs
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.ranker.posterior import Posterior

N, D = 40, 5


def nothing() -> tuple[np.ndarray, np.ndarray]:
    raise AssertionError("features were computed although nobody needs them")


def rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D))


def posterior() -> Posterior:
    return Posterior(0.0, rows(), np.arange(D, dtype=float), np.eye(D), "laplace")


def choose(state: State, n: int, **more: Any) -> list[list[int]]:
    ask = more.pop("ask", {"random_share": 0.0})
    request = {"policy": Policy(AskConfig(**ask), N), "chance": Chance(1), "features": nothing, **more}
    return next_pairs(state, n, **request).pairs.tolist()


def believing() -> State:
    state = State(N)
    state.put_up(np.array([(0, 1), (2, 3)]))
    state.believe(posterior())
    return state


def test_rounds_are_counted_and_so_are_their_pairs() -> None:
    state = believing()
    assert (state.round, state.since, state.asked) == (1, 0, 2)
    state.put_up(np.array([(0, 2)]))
    assert (state.round, state.since, state.asked) == (1, 1, 3)
    other = State(N)
    other.put_up(np.array([(0, 1), (2, 3), (0, 2)]), [0, 0, 1])
    other.believe(posterior(), round=1)
    assert (other.round, other.since) == (1, 1)


def test_the_same_state_gives_the_same_choice_whatever_was_chosen_before() -> None:
    fresh = choose(believing(), 6)
    used = believing()
    for n in (1, 3, 9):
        choose(used, n)
    assert choose(used, 6) == fresh
    used.put_up(np.array(fresh))
    assert not {tuple(p) for p in choose(used, 6)} & {tuple(p) for p in fresh}


def test_pairs_put_up_meanwhile_change_the_luck() -> None:
    ask = {"strategy": "random", "random_share": 0.0}
    state = believing()
    before = choose(state, 6, ask=ask)
    state.put_up(np.array([(38, 39)]))
    assert choose(state, 6, ask=ask) != before


def test_images_left_out_are_not_asked_about() -> None:
    out = np.arange(0, 36)
    assert {i for pair in choose(believing(), 4, left_out=out) for i in pair} <= {36, 37, 38, 39}
    assert choose(believing(), 4, left_out=np.arange(39)) == []


def test_features_are_computed_for_those_who_need_them_and_what_they_lack_is_left_out() -> None:
    def features() -> tuple[np.ndarray, np.ndarray]:
        return rows(), np.arange(30)

    pairs = choose(State(N), 5, features=features)
    assert len(pairs) == 5
    assert min(i for pair in pairs for i in pair) >= 30


def test_a_strategy_without_its_model_says_so() -> None:
    with pytest.raises(AcquireError, match="'epig' needs a fitted model"):
        choose(State(N), 5, strategy="epig")


def test_options_of_a_method_go_over_those_of_the_policy() -> None:
    with pytest.raises(AcquireError, match="'targets' is 1 or more, not 0"):
        choose(believing(), 5, options={"targets": 0})
