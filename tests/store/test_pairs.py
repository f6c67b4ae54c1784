from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.pairs import PairSet
from steelyard.store.errors import StoreError, UnknownRecordError
from steelyard.store.records import NewPair
from steelyard.store.store import Store


def test_a_pair_comes_back_with_its_reason(store: Store) -> None:
    [id] = store.pairs.add_all(
        [NewPair(7, 3, 2, "epig", "these two look equally severe", 0.25, True, 3)], now=9.0
    )
    pair = store.pairs.get(id)
    assert (pair.first_row, pair.second_row) == (3, 7)
    assert (pair.first, pair.second) == (f"{3:032x}", f"{7:032x}")
    assert (pair.round, pair.strategy, pair.reason) == (2, "epig", "these two look equally severe")
    assert (pair.score, pair.reserved, pair.raters, pair.repeat) == (0.25, True, 3, 0)
    assert (pair.open, pair.created) == (True, 9.0)
    assert store.pairs.find(pair.second, pair.first) == pair
    assert store.pairs.find(pair.first, pair.second, repeat=1) is None
    assert store.pairs.find(pair.first, "nothing") is None


def test_no_pair_is_there_twice(store: Store) -> None:
    first, second, again = store.pairs.add_all(
        [NewPair(0, 1, strategy="a"), NewPair(2, 1), NewPair(1, 0, strategy="b")]
    )
    assert first == again != second
    assert store.pairs.add_all([NewPair(3, 4), NewPair(1, 0, strategy="c", raters=5), NewPair(1, 2)])[1:] == [
        first,
        second,
    ]
    assert store.pairs.get(first).strategy == "a"
    assert len(store.pairs.all()) == 3
    assert store.pairs.add_all([]) == []


def test_asking_again_is_another_question(store: Store) -> None:
    first, repeated = store.pairs.add_all([NewPair(0, 1), NewPair(0, 1, repeat=1)])
    assert first != repeated
    assert store.pairs.add_all([NewPair(1, 0, repeat=1)]) == [repeated]


def test_ids_follow_the_given_order(store: Store) -> None:
    chosen = [NewPair(9, 0), NewPair(4, 3), NewPair(0, 1)]
    ids = store.pairs.add_all(chosen)
    assert ids == sorted(ids)
    assert store.pairs.columns().rows.tolist() == [[0, 9], [3, 4], [0, 1]]


def test_columns_can_be_read_on(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt"))
    columns = store.pairs.columns()
    assert columns.id.tolist() == pair_ids
    assert columns.rows.tolist() == [[k, k + 1] for k in range(5)]
    assert columns.open.tolist() == [False, True, True, True, True]
    assert columns.rows.dtype == np.int64
    assert len(PairSet(12, columns.rows)) == 5
    assert len(store.pairs.columns(after_id=pair_ids[-1])) == 0
    store.pairs.add_all([NewPair(0, 11, 4, reserved=True)])
    more = store.pairs.columns(after_id=pair_ids[-1])
    assert (more.rows.tolist(), more.round.tolist(), more.reserved.tolist()) == ([[0, 11]], [4], [True])


def test_an_empty_store_has_empty_columns(store: Store) -> None:
    assert store.pairs.columns().rows.shape == (0, 2)


def test_pairs_come_in_pages(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[1], "kt"))
    assert [pair.id for pair in store.pairs.all(after_id=pair_ids[0], limit=2)] == pair_ids[1:3]
    assert [pair.id for pair in store.pairs.all(open=False)] == [pair_ids[1]]
    assert len(store.pairs.all(open=True)) == store.pairs.open_count() == 4


@pytest.mark.parametrize(
    ("pair", "error", "message"),
    [
        (NewPair(3, 3), StoreError, "image 3 cannot be paired with itself"),
        (NewPair(0, 12), UnknownRecordError, "no image of this study has the row 12"),
        (NewPair(-1, 2), StoreError, "a catalog row"),
        (NewPair(0, 1, score=float("nan")), StoreError, "is finite or None, not nan"),
        (NewPair(0, 1, raters=0), StoreError, "the number of raters"),
        (NewPair(0, 1, repeat=-1), StoreError, "the repetition"),
    ],
)
def test_bad_pairs_are_refused_with_all_others(
    store: Store, pair: NewPair, error: type[StoreError], message: str
) -> None:
    with pytest.raises(error, match=message):
        store.pairs.add_all([NewPair(4, 5), pair])
    assert store.pairs.all() == []


@pytest.mark.parametrize("id", [0, -1, 999, 2**63, 10**30])
def test_unknown_pairs_are_unknown(store: Store, id: int) -> None:
    with pytest.raises(UnknownRecordError, match=f"number {id}"):
        store.pairs.get(id)
