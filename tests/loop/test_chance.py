"""Randomness comes from seed, fold and purpose, in the streams that published runs were made with."""

from __future__ import annotations

import numpy as np

from steelyard.loop.chance import Chance, Purpose


def first(rng: np.random.Generator) -> list[int]:
    return rng.integers(2**31, size=4).tolist()


def test_the_streams_of_published_runs_are_kept() -> None:
    """As written down in the cells of 0.1: (seed, fold, purpose, numbers), purposes counted from 0."""
    chance = Chance(3, fold=2)
    for number, purpose in enumerate(("START", "VALIDATION", "TEST", "ANSWERS", "SELECT", "WEIGHTS")):
        assert Purpose[purpose] == number
        assert first(chance.rng(Purpose[purpose], 5)) == first(np.random.default_rng([3, 2, number, 5]))
    assert first(chance.choice(0)) == first(np.random.default_rng([3, 2, 0]))
    assert first(chance.choice(4)) == first(np.random.default_rng([3, 2, 4, 4]))
    assert chance.weights() == int(np.random.default_rng([3, 2, 5]).integers(2**31))


def test_every_choice_has_luck_of_its_own() -> None:
    chance = Chance(0)
    seen = {tuple(first(chance.choice(round, since))) for round in range(4) for since in range(40)}
    assert len(seen) == 160
    assert first(chance.choice(1, 0)) == first(chance.choice(1))


def test_folds_and_purposes_do_not_share_their_luck() -> None:
    seen = {tuple(first(Chance(seed, fold).rng(p))) for seed in (0, 1) for fold in (0, 1) for p in Purpose}
    assert len(seen) == 4 * len(Purpose)
