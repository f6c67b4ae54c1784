"""Pairs whose answer is known: handed out once to everybody, in the log like any other, and never counted."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import Leased, NewKnown, NewPair
from steelyard.store.store import Store

from .conftest import Say, image_id


def ask(store: Store, who: str, kind: str, n: int, seed: int = 0, **more: object) -> list[Leased]:
    rng = np.random.default_rng(seed)
    return store.known.lease(who, kind, n, seconds=900, rng=rng, **more)  # type: ignore[arg-type]


@pytest.fixture
def gold(store: Store) -> list[int]:
    """Four gold pairs, of which image 11, 3, 2 is the worse one and the last is a tie."""
    rows = [(11, 0), (3, 8), (2, 9)]
    return store.known.add_all(
        [*(NewKnown(worse, other, "gold") for worse, other in rows), NewKnown(4, 5, "gold", equal=True)]
    )


def test_what_is_known_is_kept_about_the_smaller_row(store: Store, gold: list[int]) -> None:
    found = store.known.all()
    assert [pair.id for pair in found] == gold
    assert [pair.expected for pair in found] == ["second", "first", "first", "equal"]
    assert (found[0].first, found[0].second, found[0].kind) == (image_id(0), image_id(11), "gold")
    again = store.known.add_all([NewKnown(0, 11, "gold")])
    assert again == gold[:1]
    assert store.known.all()[0].expected == "first", "a lead may correct it"


def test_nobody_gets_one_by_asking_for_pairs(store: Store, gold: list[int], pair_ids: list[int]) -> None:
    rng = np.random.default_rng(0)
    assert [one.pair for one in store.pairs.lease("kt", 50, seconds=900, rng=rng)] == pair_ids
    assert store.pairs.open_count() == len(pair_ids)
    assert store.pairs.free_count("kt") == len(pair_ids)
    columns = store.pairs.columns()
    assert columns.known.tolist() == [id in gold for id in columns.id.tolist()]


def test_the_same_images_can_be_asked_about_as_well(store: Store, gold: list[int]) -> None:
    [id] = store.pairs.add_all([NewPair(0, 11)])
    assert id not in gold
    assert store.pairs.get(id).expected is None
    assert store.pairs.get(id).open


def test_everybody_gets_each_once_and_keeps_the_sides(store: Store, gold: list[int], say: Say) -> None:
    first = ask(store, "kt", "gold", 2)
    assert len(first) == 2
    again = ask(store, "kt", "gold", 2, seed=9, now=4e9)
    assert {*again} == {*first}, "also long after the lease has run out"
    store.answers.add_all([say.about(one) for one in first], require_lease=True)
    rest = ask(store, "kt", "gold", 10)
    assert {one.pair for one in (*first, *rest)} == set(gold)
    store.answers.add_all([say.about(one) for one in rest], require_lease=True)
    assert ask(store, "kt", "gold", 10) == []
    assert len(ask(store, "mo", "gold", 10)) == 4, "others get them too, whoever has answered"
    orders = {tuple(one.pair for one in ask(store, f"p{k}", "gold", 4, seed=k)) for k in range(8)}
    assert len(orders) > 2, "in an order of their own"


def test_an_answer_is_in_the_log_and_counts_nowhere(
    store: Store, gold: list[int], pair_ids: list[int], say: Say
) -> None:
    rng = np.random.default_rng(0)
    ordinary = store.pairs.lease("kt", 2, seconds=900, rng=rng)
    hidden = ask(store, "kt", "gold", 2)
    for k, one in enumerate((ordinary[0], hidden[0], ordinary[1], hidden[1])):
        recorded = store.answers.add(say.about(one, id=f"a{k}"), require_lease=True)
        assert store.answers.count(since=recorded.seq) == store.answers.count() == k // 2 + 1
    assert len(store.answers.log()) == 4
    assert store.answers.arrays().pair.tolist() == [one.pair for one in ordinary]
    assert store.answers.count("kt") == 2
    assert [c.answers for c in store.answers.by_annotator()] == [2]
    assert [c.answers for c in store.answers.by_annotator(gold=True)] == [4]
    assert store.known.count() == store.known.count("kt", "gold") == 2
    assert (store.known.count("mo"), store.known.count(kind="warm-up")) == (0, 0)
    assert store.answers.of_image(image_id(11)) == [
        c for c in store.answers.of_image(image_id(11)) if c.pair not in gold
    ]
    store.answers.undo("a1", "kt", id="u1")
    assert (store.known.count(), store.answers.count(), store.answers.count("kt")) == (1, 2, 2)
    assert [one.pair for one in ask(store, "kt", "gold", 1)] == [hidden[0].pair], "an undo brings it back"
    with Store.open(store.database.engine.url.render_as_string(hide_password=False)) as other:
        assert other.answers.count() == 2


def test_what_was_said_stands_beside_what_is_known(store: Store, gold: list[int], say: Say) -> None:
    for one in ask(store, "kt", "gold", 4):
        worse = {gold[0]: 11, gold[1]: 3, gold[2]: 9}.get(one.pair)  # the third is wrong
        said = Answer.EQUAL if worse is None else Answer.LEFT if one.left == image_id(worse) else Answer.RIGHT
        store.answers.add(say.about(one, said, id=f"a{one.pair}"), require_lease=True)
        beside = store.known.answer(f"a{one.pair}")
        assert beside is not None
        assert (beside.pair.id, beside.said) == (one.pair, said)
        assert (beside.expected is said) == (one.pair != gold[2])
    found = store.known.answers("kt")
    right = dict(zip(found.pair.tolist(), (found.labels == found.expected).tolist(), strict=True))
    assert right == {gold[0]: True, gold[1]: True, gold[2]: False, gold[3]: True}
    assert len(store.known.answers("mo")) == 0
    assert not found.warmup.any()
    assert store.known.answer("nothing") is None


def test_what_is_taken_out_is_handed_out_no_more(store: Store, gold: list[int], say: Say) -> None:
    [held] = ask(store, "kt", "gold", 1)
    store.known.remove([held.pair])
    assert held.pair not in [one.pair for one in ask(store, "kt", "gold", 9)]
    store.answers.add(say.about(held), require_lease=True)  # never lost
    assert (store.answers.count(), store.known.count()) == (0, 1)
    assert [pair.retired for pair in store.known.all(retired=True)].count(True) == 1
    with pytest.raises(UnknownRecordError, match="known answer has the number 999"):
        store.known.remove([999])
    store.images.exclude(image_id(8), "lea", "blurred")
    assert gold[1] not in [one.pair for one in ask(store, "mo", "gold", 9)]
    store.images.include(image_id(8), "lea")
    assert gold[1] in [one.pair for one in ask(store, "mo", "gold", 9)]


def test_warming_up_is_the_same_for_everybody(store: Store, gold: list[int], say: Say) -> None:
    ids = store.known.add_all([NewKnown(k, k + 1, "warm-up") for k in range(4)])
    assert [one.pair for one in ask(store, "kt", "warm-up", 3)] == ids[:3]
    assert [one.pair for one in ask(store, "mo", "warm-up", 3, seed=5)] == ids[:3]
    with pytest.raises(ConflictError, match="for warm-up already"):
        store.known.add_all([NewKnown(0, 1, "gold")])
    with pytest.raises(StoreError, match="warm-up or gold, not 'silver'"):
        store.known.add_all([NewKnown(0, 1, "silver")])  # type: ignore[arg-type]


def test_what_is_given_is_counted_by_our_clock_without_warm_ups(
    store: Store, gold: list[int], pair_ids: list[int], say: Say
) -> None:
    store.known.add_all([NewKnown(6, 7, "warm-up")])
    rng = np.random.default_rng(0)
    held = store.pairs.lease("kt", 2, seconds=900, rng=rng)
    [hidden], [warm] = ask(store, "kt", "gold", 1), ask(store, "kt", "warm-up", 1)
    for at, one in ((1e9, held[0]), (1e9 + 100, hidden), (1e9 + 200, warm), (1e9 + 300, held[1])):
        store.answers.add(say.about(one, answered_at=5.0), require_lease=True, now=at)
    assert [store.answers.given("kt", since) for since in (0, 1e9 + 50, 1e9 + 150, 1e9 + 400)] == [3, 2, 1, 0]
    assert store.answers.given("mo") == 0


def test_nothing_about_a_lease_stands_out(store: Store, gold: list[int], pair_ids: list[int]) -> None:
    rng = np.random.default_rng(0)
    ordinary = store.pairs.lease("kt", 3, seconds=900, rng=rng, now=1e9)
    [hidden] = ask(store, "kt", "gold", 1, beside=ordinary[1].pair, now=1e9 + 7)
    times = store.known.handed_at("kt", [*(one.pair for one in ordinary), hidden.pair])
    assert set(times.values()) == {1e9}
    assert hidden.expires == ordinary[1].expires
    assert store.known.holding("kt", now=1e9 + 8) == (3, 1, 3)
