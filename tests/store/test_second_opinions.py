"""A pair with its answers is opened for one person more, and waits for the one whose opinion is wanted first."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.records import NewPair
from steelyard.store.store import Store
from tests.store.conftest import Say

RNG = np.random.default_rng(0)


def held(store: Store, who: str, n: int = 10) -> list[int]:
    return [one.pair for one in store.pairs.lease(who, n, seconds=60, rng=RNG)]


def again(store: Store, first: int, second: int, who: str = "bo") -> None:
    store.pairs.add_all([NewPair(first, second, 1, "epig", "", asked_of=who)])


def test_it_is_opened_for_one_person_more_and_never_for_whoever_answered(
    store: Store, pair_ids: list[int], say: type[Say]
) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    assert not store.pairs.get(pair_ids[0]).open
    again(store, 1, 0)
    opened = store.pairs.get(pair_ids[0])
    assert (opened.open, opened.raters, opened.round, opened.strategy) == (True, 2, 0, "random")
    assert pair_ids[0] not in held(store, "ann")
    assert pair_ids[0] in held(store, "bo")
    store.answers.add(say.on(store, pair_ids[0], "bo", Answer.RIGHT))
    assert not store.pairs.get(pair_ids[0]).open
    again(store, 0, 1, "cy")
    assert store.pairs.get(pair_ids[0]).raters == 3


def test_it_waits_for_the_one_who_is_wanted_while_there_is_anything_else(
    store: Store, pair_ids: list[int], say: type[Say]
) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    again(store, 0, 1, "bo")
    assert pair_ids[0] not in held(store, "cy", 2), "others are handed what is new"
    assert held(store, "bo", 1) == [pair_ids[0]], "the one who is wanted gets it first, by its number"


def test_when_nothing_else_is_left_others_are_asked_too(
    store: Store, pair_ids: list[int], say: type[Say]
) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    again(store, 0, 1, "bo")
    assert held(store, "cy", 4) == pair_ids[1:]
    assert set(held(store, "cy")) == set(pair_ids)
    assert held(store, "bo") == [], "somebody holds it"


def test_twice_opens_it_once(store: Store, pair_ids: list[int], say: type[Say]) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    again(store, 0, 1)
    again(store, 0, 1, "cy")
    assert store.pairs.get(pair_ids[0]).raters == 2


def test_what_is_settled_or_measures_accuracy_is_left_alone(store: Store, say: type[Say]) -> None:
    [measured, empty, out] = store.pairs.add_all([NewPair(0, 1, reserved=True), NewPair(2, 3), NewPair(4, 5)])
    store.answers.add(say.on(store, measured, "ann"))
    store.answers.add(say.on(store, out, "ann"))
    store.images.exclude(f"{5:032x}", "ann", "blurred")
    for first in (0, 2, 4):
        again(store, first, first + 1)
    assert not store.pairs.get(measured).open
    assert store.pairs.get(empty).raters == 1, "it has no answer yet"
    assert not store.pairs.get(out).open
    assert store.pairs.open_rows().tolist() == [[2, 3]]


@pytest.mark.parametrize("first", [True, False])
def test_an_answer_taken_back_counts_no_more(
    store: Store, pair_ids: list[int], say: type[Say], first: bool
) -> None:
    """Opened before or after an answer is taken back, a pair wants as many as its raters."""
    store.answers.add(say.on(store, pair_ids[0], "ann", id="a"))
    again(store, 0, 1)
    store.answers.add(say.on(store, pair_ids[0], "bo", id="b"))
    store.answers.undo("a" if first else "b", "ann" if first else "bo", id="u")
    opened = store.pairs.get(pair_ids[0])
    assert (opened.open, opened.raters) == (True, 2)
