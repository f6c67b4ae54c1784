"""What people take away, a block of the log at a time, is what the log says when the first block is read."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.pairs import Answer
from steelyard.store import told
from steelyard.store.records import NewKnown, NewPair
from steelyard.store.store import Store


def ids(blocks: Any) -> list[str]:
    return [id for block in blocks for id in block["id"]]


@pytest.fixture
def answered(store: Store, say: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Five pairs, six answers, one of them undone, a decision, one to a further question, one to a known pair."""
    monkeypatch.setattr(told, "BLOCK", 2)
    pairs = store.pairs.add_all([NewPair(row, row + 1, raters=9) for row in range(5)])
    for at, pair in enumerate(pairs):
        store.answers.add(say.on(store, pair, "ann", Answer.LEFT, id=f"a{at:07d}"))
    store.answers.undo("a0000001", "ann", id="undo0001")
    store.answers.add(say.on(store, pairs[0], "bea", Answer.EQUAL, id="b0000000"))
    store.decisions.add(say.on(store, pairs[0], "lead", Answer.RIGHT, id="d0000000"))
    store.answers.add(say.on(store, pairs[0], "ann", Answer.LEFT, id="f0000000", question="pain"))
    [known] = store.known.add_all([NewKnown(0, 3, "gold")])
    store.answers.add(say.on(store, known, "ann", Answer.LEFT, id="k0000000"))
    return pairs


def test_blocks_together_are_what_counts_in_the_order_of_the_log(store: Store, answered: list[int]) -> None:
    blocks = list(store.answers.told())
    assert all(len(block["id"]) <= 2 for block in blocks)
    counted = [c for c in store.answers.log() if c.effective and c.answer is not None and c.id != "k0000000"]
    assert ids(blocks) == [c.id for c in counted]
    for name in ("left", "right", "annotator", "shown_at", "answered_at", "note", "hash", "question", "role"):
        assert [value for block in blocks for value in block[name]] == [getattr(c, name) for c in counted]
    rows = {image.id: image.row for image in store.images.all()}
    assert [row for block in blocks for row in block["left_row"]] == [rows[c.left] for c in counted]


def test_some_columns_are_the_same_rows(store: Store, answered: list[int]) -> None:
    some = list(store.answers.told("seq", "question"))
    assert [*some[0]] == ["seq", "question"]
    assert [s for block in some for s in block["seq"]] == [s for b in store.answers.told() for s in b["seq"]]


def test_what_is_written_between_two_blocks_changes_nothing(
    store: Store, say: Any, answered: list[int]
) -> None:
    before = ids(store.answers.told())
    reading = store.answers.told()
    first = next(reading)
    store.answers.undo("a0000004", "ann", id="undo0004")
    store.answers.add(say.on(store, answered[1], "zoe", Answer.LEFT, id="z0000000"))
    assert [*first["id"], *ids(reading)] == before
    after = ids(store.answers.told())
    assert "z0000000" in after
    assert "a0000004" not in after


def test_an_empty_log_has_no_blocks(store: Store) -> None:
    assert list(store.answers.told()) == []
