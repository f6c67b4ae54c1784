from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair
from steelyard.store.store import Store


@pytest.mark.parametrize("flipped", [False, True])
def test_labels_are_about_first_and_second_whatever_the_sides(
    store: Store, pair_ids: list[int], say: Any, flipped: bool
) -> None:
    for pair, answer in zip(pair_ids, Answer, strict=False):
        said = say.on(store, pair, "kt", answer)
        if flipped:
            said = replace(said, left=said.right, right=said.left, answer=answer.mirrored())
        store.answers.add(said)
    arrays = store.answers.arrays()
    np.testing.assert_array_equal(arrays.labels, [1.0, 0.0, 0.5, np.nan])  # P1
    assert arrays.left_first.tolist() == [not flipped] * 4
    assert arrays.pairs.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert arrays.pair.tolist() == pair_ids[:4]


def test_the_other_columns(store: Store, pair_ids: list[int], say: Any) -> None:
    [held, again] = store.pairs.add_all([NewPair(8, 9, reserved=True), NewPair(0, 1, repeat=1)])
    store.answers.add(say.on(store, held, "b", shown_at=1.0, answered_at=3.0))
    store.answers.add(say.on(store, again, "a", answered_at=4.0))
    store.answers.add(say.on(store, pair_ids[0], "b", answered_at=5.0))
    arrays = store.answers.arrays()
    assert arrays.reserved.tolist() == [True, False, False]
    assert arrays.repeat.tolist() == [0, 1, 0]
    assert [arrays.annotators[k] for k in arrays.annotator] == ["b", "a", "b"]
    assert arrays.answered_at.tolist() == [3.0, 4.0, 5.0]
    np.testing.assert_array_equal(arrays.shown_at, [1.0, np.nan, np.nan])
    assert arrays.last_seq == store.answers.last_seq() == arrays.seq[-1]
    assert len(arrays) == 3


def test_an_empty_log_has_empty_columns(store: Store) -> None:
    arrays = store.answers.arrays()
    assert arrays.pairs.shape == (0, 2)
    assert (len(arrays), arrays.last_seq, arrays.annotators) == (0, 0, ())
    assert store.answers.by_annotator() == []


def test_reading_on_tells_what_came_and_what_went(store: Store, pair_ids: list[int], say: Any) -> None:
    for k in range(3):
        store.answers.add(say.on(store, pair_ids[k], "kt", id=f"x{k}"))
    before = store.answers.arrays()
    assert before.superseded.tolist() == []
    store.answers.undo("x0", "kt", id="u")
    store.answers.add(say.on(store, pair_ids[1], "kt", Answer.RIGHT, id="y", supersedes="x1"))
    store.answers.add(say.on(store, pair_ids[3], "kt", id="x3"))
    store.answers.undo("x3", "kt", id="u3")
    since = store.answers.arrays(after=before.last_seq)
    assert since.pair.tolist() == [pair_ids[1]]
    assert since.labels.tolist() == [0.0]
    assert since.superseded.tolist() == before.seq[:2].tolist()
    # Old without what went, and new: the same as reading everything.
    kept = ~np.isin(before.seq, since.superseded)
    everything = store.answers.arrays()
    assert np.concatenate([before.seq[kept], since.seq]).tolist() == everything.seq.tolist()


def test_the_past_can_be_read_again(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt", id="x"))
    then = store.answers.arrays()
    store.answers.add(say.on(store, pair_ids[1], "kt"))
    store.answers.undo("x", "kt", id="u")
    again = store.answers.arrays(upto=then.last_seq)
    assert again.seq.tolist() == then.seq.tolist()
    assert again.last_seq == then.last_seq
    assert store.answers.arrays().pair.tolist() == [pair_ids[1]]
    assert store.answers.arrays(upto=10**9).last_seq == store.answers.last_seq()


def test_a_repeated_question_has_its_own_answers(store: Store) -> None:
    ids = store.pairs.add_all([NewPair(0, 1), NewPair(0, 1, repeat=1)])
    a, b = f"{0:032x}", f"{1:032x}"
    store.answers.add(NewComparison(ids[0], "kt", Answer.LEFT, a, b))
    store.answers.add(NewComparison(ids[1], "kt", Answer.LEFT, b, a))
    assert store.answers.arrays().labels.tolist() == [1.0, 0.0]
