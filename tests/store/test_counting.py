from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.errors import StoreError
from steelyard.store.store import Store


def test_what_everybody_did(store: Store, pair_ids: list[int], say: Any) -> None:
    said = [Answer.LEFT, Answer.EQUAL, Answer.CANNOT_JUDGE, Answer.RIGHT]
    for k, answer in enumerate(said):
        store.answers.add(
            say.on(
                store, pair_ids[k], "a", answer, id=f"x{k}", shown_at=100.0 * k, answered_at=100.0 * k + k + 1
            )
        )
    store.answers.undo("x3", "a", id="u")
    store.answers.add(say.on(store, pair_ids[0], "b", id="y", answered_at=7.0))
    store.answers.add(say.on(store, pair_ids[0], "b", Answer.EQUAL, id="z", supersedes="y", answered_at=9.0))
    a, b = store.answers.by_annotator()
    assert (a.annotator, a.answers, a.equal, a.cannot_judge, a.undone) == ("a", 3, 1, 1, 1)
    assert (a.first_at, a.last_at, a.seconds) == (1.0, 203.0, 2.5)  # the median of 1, 2, 3 and 4 s
    assert (b.annotator, b.answers, b.equal, b.undone) == ("b", 1, 1, 1)
    assert (b.first_at, b.last_at, b.seconds) == (9.0, 9.0, None)
    assert (store.answers.count(), store.answers.count("a"), store.answers.count("nobody")) == (4, 3, 0)


def test_what_a_transaction_took_back_is_not_counted(store: Store, pair_ids: list[int], say: Any) -> None:
    assert store.answers.count() == 0
    [leased] = store.pairs.lease("kt", 1, seconds=60, rng=np.random.default_rng(0))

    def fail() -> None:
        with store.change(None, "kt", "answer"):
            store.pairs.lease("new", 1, seconds=60, rng=np.random.default_rng(0))
            recorded = store.answers.add(say.about(leased), require_lease=True)
            assert store.answers.count(since=recorded.seq) == store.answers.count() == 1
            raise StoreError("the light went out")

    with pytest.raises(StoreError, match="light"):
        fail()
    assert store.answers.count() == 0
    assert store.pairs.lease("new", 2, seconds=60, rng=np.random.default_rng(0))
    recorded = store.answers.add(say.about(leased), require_lease=True)
    assert (recorded.seq, store.answers.count(since=1), store.answers.count()) == (1, 1, 1)
