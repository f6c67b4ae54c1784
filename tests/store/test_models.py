from __future__ import annotations

import pytest

from steelyard.store.errors import ConflictError, StoreError
from steelyard.store.records import NewModel
from steelyard.store.store import Store


def test_models_in_the_order_they_were_announced(store: Store) -> None:
    assert store.models.newest() is None
    ids = [
        store.models.add(
            NewModel(k, f"models/round-{k:03d}", "f" * 8, 10 * k, k, {"accuracy": 0.5 + k}, {"p": [1]}),
            now=float(k),
        )
        for k in range(3)
    ]
    newest = store.models.newest()
    assert newest is not None
    assert (newest.id, newest.round, newest.path, newest.fingerprint) == (
        ids[2],
        2,
        "models/round-002",
        "f" * 8,
    )
    assert (newest.comparisons_seq, newest.grades_seq, newest.created) == (20, 2, 2.0)
    assert (newest.metrics, newest.config) == ({"accuracy": 2.5}, {"p": [1]})
    assert [m.id for m in store.models.all()] == ids
    assert [m.id for m in store.models.all(after_id=ids[0], limit=1)] == ids[1:2]


def test_figures_that_are_no_numbers_are_refused(store: Store) -> None:
    for metrics in ({"loss": float("nan")}, {"loss": object()}):
        with pytest.raises(StoreError, match="the metrics of a model"):
            store.models.add(NewModel(0, "m", "f", 0, metrics=metrics))
    assert store.models.all() == []


def test_one_trainer_at_a_time(store: Store) -> None:
    assert store.models.trainer.state().owner is None
    assert store.models.trainer.claim("a", 10, now=100)
    assert store.models.trainer.claim("a", 10, now=101)
    assert not store.models.trainer.claim("b", 10, now=110.9)
    state = store.models.trainer.state(now=105)
    assert (state.owner, state.expires, state.heartbeat) == ("a", 111.0, 101.0)


def test_a_living_trainer_keeps_the_lease_and_says_how_far_it_is(store: Store) -> None:
    store.models.trainer.claim("a", 10, now=100)
    progress = {"stage": "fit", "done": 3, "total": 9, "text": "epoch 3", "log": ["one", "two"]}
    assert store.models.trainer.heartbeat("a", progress, seconds=10, now=109)
    assert not store.models.trainer.claim("b", 10, now=118)
    assert store.models.trainer.state(now=118).progress == progress
    assert not store.models.trainer.heartbeat("b", {}, seconds=10, now=118)


def test_a_dead_trainer_is_replaced_and_cannot_announce_any_more(store: Store) -> None:
    store.models.trainer.claim("a", 10, now=100)
    state = store.models.trainer.state(now=110)
    assert (state.owner, state.last_owner) == (None, "a")
    assert store.models.trainer.claim("b", 10, now=110)
    assert not store.models.trainer.heartbeat("a", {"done": 1}, seconds=10, now=111)
    assert not store.models.trainer.release("a", now=111)
    with pytest.raises(ConflictError, match="'a' does not hold the trainer's lease"):
        store.models.add(NewModel(0, "m", "f", 0), trainer="a")
    assert store.models.add(NewModel(0, "m", "f", 0), trainer="b")
    assert store.models.trainer.state(now=112).owner == "b"


def test_a_trainer_that_stops_leaves_a_last_word(store: Store) -> None:
    store.models.trainer.claim("a", 10, now=100)
    assert store.models.trainer.release("a", {"text": "done"}, now=101)
    assert store.models.trainer.state(now=101).owner is None
    assert store.models.trainer.state(now=101).progress == {"text": "done"}
    assert not store.models.trainer.release("a", now=102)
    assert store.models.trainer.claim("b", 10, now=101)


@pytest.mark.parametrize("seconds", [0, -1, float("inf")])
def test_a_lease_has_an_end(store: Store, seconds: float) -> None:
    with pytest.raises(StoreError, match="number of seconds above 0"):
        store.models.trainer.claim("a", seconds)
