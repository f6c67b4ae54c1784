from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.errors import NotHandedOutError, StoreError
from steelyard.store.records import Leased, NewPair
from steelyard.store.store import Store

RNG = np.random.default_rng(0)


def ask(store: Store, annotator: str, n: int = 1, now: float = 1000.0, seconds: float = 60.0) -> list[Leased]:
    return store.pairs.lease(annotator, n, seconds=seconds, rng=RNG, now=now)


def numbers(leases: list[Leased]) -> list[int]:
    return [leased.pair for leased in leases]


def test_two_people_never_hold_the_same_pair(store: Store, pair_ids: list[int]) -> None:
    assert numbers(ask(store, "a", 2)) == pair_ids[:2]
    assert numbers(ask(store, "b", 2)) == pair_ids[2:4]
    assert numbers(ask(store, "c", 2)) == pair_ids[4:]
    assert ask(store, "d", 2) == []


def test_a_lease_says_what_to_show(store: Store, pair_ids: list[int]) -> None:
    [leased] = ask(store, "a", seconds=60, now=1000)
    assert {leased.left, leased.right} == {f"{0:032x}", f"{1:032x}"}
    assert {leased.left_row, leased.right_row} == {0, 1}
    assert leased.left == f"{leased.left_row:032x}"
    assert (leased.reason, leased.strategy, leased.expires) == ("drawn at random", "random", 1060.0)
    shown = leased.shown()
    assert (shown.left, shown.right, shown.id, shown.reason) == (
        leased.left,
        leased.right,
        leased.pair,
        leased.reason,
    )


def test_reloading_shows_the_same_pairs_with_the_same_sides(store: Store, pair_ids: list[int]) -> None:
    before = ask(store, "a", 3, now=1000)
    assert ask(store, "a", 3, now=1010) == before
    assert ask(store, "a", 5, now=1020)[:3] == before
    assert ask(store, "a", 1, now=1020) == before[:1]


def test_asking_extends_what_is_held_when_half_the_time_is_over(store: Store, pair_ids: list[int]) -> None:
    ask(store, "a", now=1000, seconds=60)
    assert ask(store, "a", now=1029, seconds=60)[0].expires == 1060
    assert ask(store, "a", now=1031, seconds=60)[0].expires == 1091
    assert pair_ids[0] not in numbers(ask(store, "b", 5, now=1090))


def test_leases_expire(store: Store, pair_ids: list[int]) -> None:
    mine = ask(store, "a", 5, now=1000, seconds=60)
    assert ask(store, "b", 5, now=1059.9) == []
    assert numbers(ask(store, "b", 2, now=1060)) == numbers(mine)[:2]
    # Back at the desk: what nobody took is still there, on the same sides.
    again = ask(store, "a", 5, now=1061)
    assert [(one.pair, one.left) for one in again] == [(one.pair, one.left) for one in mine[2:]]


def test_sides_are_decided_by_the_given_chance(store: Store) -> None:
    store.pairs.add_all([NewPair(i, j) for i in range(12) for j in range(i)])
    leases = store.pairs.lease("a", 66, seconds=60, rng=np.random.default_rng(3))
    expected = np.random.default_rng(3).integers(2, size=66)
    assert [int(one.left_row > one.right_row) for one in leases] == expected.tolist()


def test_an_answered_pair_is_not_handed_out_again(store: Store, pair_ids: list[int], say: Any) -> None:
    [leased] = ask(store, "a")
    store.answers.add(say.about(leased), require_lease=True, now=1001)
    assert numbers(ask(store, "a", 5, now=1002)) == pair_ids[1:]
    assert ask(store, "b", 5, now=5000)[0].pair == pair_ids[1]
    assert not store.pairs.get(leased.pair).open


@pytest.mark.parametrize("raters", [2, 3])
def test_k_raters_are_k_different_people(store: Store, raters: int, say: Any) -> None:
    [pair] = store.pairs.add_all([NewPair(0, 1, raters=raters)])
    people = [f"p{k}" for k in range(raters + 2)]
    handed = [who for who in people if ask(store, who)]
    assert handed == people[:raters]
    for who in handed:
        store.answers.add(say.on(store, pair, who), now=1001)
        assert ask(store, who, now=1002) == []
    assert not store.pairs.get(pair).open
    assert [c.annotator for c in store.answers.log()] == handed


def test_answers_and_leases_together_fill_the_seats(store: Store, say: Any) -> None:
    [pair] = store.pairs.add_all([NewPair(0, 1, raters=2)])
    store.answers.add(say.on(store, pair, "a"))
    assert numbers(ask(store, "b")) == [pair]
    assert ask(store, "c") == []
    assert numbers(ask(store, "c", now=1060)) == [pair]


def test_an_answer_takes_one_seat_and_never_two_of_the_same_person(store: Store, say: Any) -> None:
    [pair] = store.pairs.add_all([NewPair(0, 1, raters=2)])
    [leased] = ask(store, "a")
    store.answers.add(say.about(leased), require_lease=True, now=1001)
    assert ask(store, "a", now=1002) == []
    assert ask(store, "a", now=9000) == []
    assert store.pairs.free_count("a", now=1002) == 0
    assert numbers(ask(store, "b", now=1002)) == [pair]


def test_how_much_is_left(store: Store, pair_ids: list[int], say: Any) -> None:
    ask(store, "a", 2)
    assert store.pairs.free_count("a", now=1001) == 5
    assert store.pairs.free_count("b", now=1001) == 3
    assert store.pairs.free_count("b", now=2000) == 5
    store.answers.add(say.on(store, pair_ids[0], "a"))
    assert store.pairs.free_count("a", now=1001) == 4


def test_only_what_was_handed_out_can_be_answered(store: Store, pair_ids: list[int], say: Any) -> None:
    [leased] = ask(store, "a")
    stolen = say.on(store, leased.pair, "b")
    with pytest.raises(NotHandedOutError, match=f"pair {leased.pair} was not handed to 'b'"):
        store.answers.add(stolen, require_lease=True, now=1001)
    with pytest.raises(NotHandedOutError):
        store.answers.add(say.on(store, pair_ids[4], "a"), require_lease=True)
    assert store.answers.log() == []


def test_an_answer_that_waited_for_the_network_counts_although_the_lease_ran_out(
    store: Store, pair_ids: list[int], say: Any
) -> None:
    [mine] = ask(store, "a", now=1000)
    [other] = ask(store, "b", now=2000)
    assert mine.pair == other.pair
    store.answers.add(say.about(other), require_lease=True, now=2001)
    store.answers.add(say.about(mine, Answer.EQUAL, answered_at=1010.0), require_lease=True, now=3000)
    assert store.answers.count() == 2


def test_undo_hands_the_pair_back_with_the_same_sides(store: Store, pair_ids: list[int], say: Any) -> None:
    first, second = ask(store, "a", 2)
    store.answers.add(say.about(first, id="x"), require_lease=True, now=1001)
    store.answers.undo("x", "a", id="u", lease_seconds=60, now=1002)
    assert first.pair not in numbers(ask(store, "b", 5, now=1003))
    again = ask(store, "a", 2, now=1003)
    assert {(one.pair, one.left) for one in again} == {(first.pair, first.left), (second.pair, second.left)}
    store.answers.add(say.about(first, Answer.RIGHT, id="y"), require_lease=True, now=1004)
    assert [c.answer for c in store.answers.log() if c.effective] == [Answer.RIGHT]


@pytest.mark.parametrize(
    "bad",
    [
        {"annotator": ""},
        {"annotator": " a"},
        {"annotator": "a\x00"},
        {"n": -1},
        {"seconds": 0},
        {"seconds": float("nan")},
    ],
)
def test_bad_requests_are_refused(store: Store, bad: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        ask(store, **{"annotator": "a", **bad})


def test_answers_written_together_end_their_own_leases_only(store: Store, say: Any) -> None:
    """Two raters hold both pairs, and each has answered another one: the crossed leases go on."""
    first, second = store.pairs.add_all([NewPair(0, 1, raters=2), NewPair(2, 3, raters=2)])
    held = {who: {leased.pair: leased for leased in ask(store, who, 2)} for who in ("a", "b")}
    store.answers.add_all(
        [say.about(held["a"][first]), say.about(held["b"][second])], require_lease=True, now=1001
    )
    assert numbers(ask(store, "a", 2, now=1002)) == [second]
    assert numbers(ask(store, "b", 2, now=1002)) == [first]
    assert ask(store, "c", 2, now=1002) == []  # nobody else is wanted


def test_one_of_many_that_was_not_handed_out_is_named(store: Store, pair_ids: list[int], say: Any) -> None:
    [leased] = ask(store, "a")
    stranger = say.on(store, pair_ids[1], "b")
    with pytest.raises(NotHandedOutError, match=rf"pair {pair_ids[1]} was not handed to 'b'"):
        store.answers.add_all([say.about(leased), stranger], require_lease=True)
    assert store.answers.count() == 0
