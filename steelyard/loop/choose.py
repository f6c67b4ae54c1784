"""The next pairs: what is known and the policy in, a choice out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.choice import Choice
from steelyard.acquire.mixing import choose
from steelyard.arrays import Floats, Pairs, Rows
from steelyard.loop.chance import Chance
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

__all__ = ["Answered", "Features", "next_pairs"]

Features = Callable[[], tuple[NDArray[Any], Rows]]
"""Gives a row for each image, and which of them mean nothing because the image could not be read."""

Answered = Callable[[], tuple[Pairs, Floats]]
"""Gives the pairs that were answered so far, and what was said (P1)."""


def next_pairs(
    state: State,
    n: int,
    *,
    policy: Policy,
    chance: Chance,
    features: Features,
    answered: Answered | None = None,
    strategy: str | None = None,
    left_out: Rows | None = None,
    options: Mapping[str, Any] | None = None,
) -> Choice:
    """Choose n pairs; the state stays as it is until they are put up.

    Args:
        state: what is known.
        n: pairs wanted.
        policy: by which strategy, with which shares.
        chance: where randomness comes from; the round and what it has put up say which.
        features: computes features, for strategies that need them.
        answered: looks up the answers, for strategies that need those.
        strategy: another than the policy's.
        left_out: images that may not be asked about.
        options: of the strategy, over those of the policy.

    Raises:
        AcquireError: an unknown strategy or option, or one that needs a model and there is none.
    """
    name = strategy or policy.strategy(state.posterior is not None)
    out = np.empty(0, dtype=np.int64) if left_out is None else left_out
    given = {**policy.options(name, n), **(options or {})}
    if policy.needs_features(name):
        given["features"], absent = features()
        out = np.union1d(out, absent).astype(np.int64)
    if policy.needs_answers(name) and answered is not None:
        given["answered"] = answered()
    if policy.images - len(out) < 2:
        return Choice.empty()
    posterior, taken = state.posterior, state.taken
    heard = None if state.opinions is None else state.opinions.heard
    pool: Rows | None = None
    if len(out):
        pool = np.setdiff1d(np.arange(policy.images), out)
        posterior, taken = _among(pool, posterior, taken)
        if "features" in given:
            given["features"] = given["features"][pool]
        if "answered" in given:
            given["answered"] = _answers_among(pool, policy.images, *given["answered"])
        heard = None if heard is None else heard.among(pool)
    if heard is not None and posterior is not None:
        given["heard"] = heard
    choice = choose(
        name, posterior, n, taken=taken, rng=chance.choice(state.round, state.since), options=given,
        **policy.shares(state.asked, name),
    )  # fmt: skip
    if pool is None:
        return choice
    return Choice(pool[choice.pairs], choice.scores, choice.reasons, choice.roles)


def _among(pool: Rows, posterior: Posterior | None, taken: PairSet) -> tuple[Posterior | None, PairSet]:
    """The belief and the taken pairs, about these images only and numbered among them."""
    old = _places(pool, taken.size)[taken.to_array()]
    kept = PairSet(len(pool), old[(old >= 0).all(axis=1)])
    return None if posterior is None else posterior.rows(pool), kept


def _answers_among(pool: Rows, images: int, pairs: Pairs, answers: Floats) -> tuple[Pairs, Floats]:
    """The answers about these images only, numbered among them."""
    local = _places(pool, images)[pairs]
    known = (local >= 0).all(axis=1)
    return local[known], answers[known]


def _places(pool: Rows, images: int) -> Rows:
    """Where each image is in the pool, −1 where it is not."""
    place = np.full(images, -1, dtype=np.int64)
    place[pool] = np.arange(len(pool))
    return place
