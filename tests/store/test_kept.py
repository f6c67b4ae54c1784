"""Answers that are kept say at every moment what a reading of the whole log says, whoever wrote it."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import fields
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.pairs import Answer
from steelyard.store import columns
from steelyard.store.columns import answer_arrays, lesson_arrays
from steelyard.store.records import AnswerArrays, NewImage, NewKnown, NewPair, new_id
from steelyard.store.store import Store
from tests.conftest import run_sql

_repeats = count(1_000)


def same(kept: AnswerArrays, read: AnswerArrays) -> None:
    for field in fields(AnswerArrays):
        mine, theirs = getattr(kept, field.name), getattr(read, field.name)
        if isinstance(theirs, np.ndarray):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
        else:
            assert mine == theirs, field.name


def kept_is_read(store: Store) -> None:
    for question in ("", "pain"):
        same(store.answers.arrays(question=question), answer_arrays(store.database, 0, None, question))
        same(store.answers.lessons(question=question), lesson_arrays(store.database, 0, None, question))


STEP = st.tuples(
    st.sampled_from(["answer", "answer", "change", "undo", "decide", "take back", "further", "look"]),
    st.integers(0, 2),  # which pair
    st.sampled_from(["ann", "bea", "zoe"]),
    st.sampled_from(list(Answer)),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=14))
def test_whatever_is_written_kept_answers_are_those_of_the_log(
    store: Store, say: Any, steps: list[tuple[str, int, str, Answer]]
) -> None:
    repeat = next(_repeats)
    pairs = store.pairs.add_all([NewPair(row, row + 1, raters=9, repeat=repeat) for row in range(3)])
    standing: dict[tuple[int, str], str] = {}
    decided: dict[int, str] = {}
    for what, at, who, answer in steps:
        pair, id = pairs[at], new_id()
        before = standing.get((pair, who))
        if what == "answer" and before is None:
            store.answers.add(say.on(store, pair, who, answer, id=id))
            standing[pair, who] = id
        elif what == "change" and before is not None:
            store.answers.add(say.on(store, pair, who, answer, id=id, supersedes=before))
            standing[pair, who] = id
        elif what == "undo" and before is not None:
            store.answers.undo(standing.pop((pair, who)), who, id=id)
        elif what == "decide" and pair not in decided and answer is not Answer.CANNOT_JUDGE:
            store.decisions.add(say.on(store, pair, "lead", answer, id=id))
            decided[pair] = id
        elif what == "take back" and pair in decided:
            store.decisions.undo(decided.pop(pair), "lead", id=id)
        elif what == "further" and (pair, f"{who} further") not in standing:
            store.answers.add(say.on(store, pair, who, answer, id=id, question="pain"))
            standing[pair, f"{who} further"] = id
        elif what == "look":
            kept_is_read(store)
    kept_is_read(store)


def test_what_others_wrote_is_read_and_kept_arrays_cannot_be_changed(
    store: Store, url: str, pair_ids: list[int], say: Any
) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    kept = store.answers.arrays()
    with Store.open(url, create=False) as other:
        other.answers.add(say.on(other, pair_ids[1], "aaron", Answer.EQUAL))
    assert store.answers.arrays().annotators == ("aaron", "ann")
    kept_is_read(store)
    with pytest.raises(ValueError, match="read-only"):
        kept.labels[0] = 0.5
    assert store.answers.arrays().labels.tolist() == [1.0, 0.5]


def test_what_is_not_committed_is_not_kept(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    assert len(store.answers.arrays()) == 1

    def fails() -> None:
        with store.database.together():
            store.answers.add(say.on(store, pair_ids[1], "ann"))
            assert len(store.answers.arrays()) == 2  # it sees what it wrote itself
            raise RuntimeError("nothing of this stays")

    with pytest.raises(RuntimeError, match="nothing of this"):
        fails()
    kept_is_read(store)
    store.answers.add(say.on(store, pair_ids[2], "bea", Answer.RIGHT))  # gets the number that was given back
    kept_is_read(store)


def test_threads_that_read_while_others_write_miss_nothing(store: Store, say: Any) -> None:
    pairs = store.pairs.add_all([NewPair(i, j) for i in range(12) for j in range(i + 1, 12)][:48])
    over, wrong = threading.Event(), []

    def look() -> None:
        seen = 0
        while not over.is_set():
            found = store.answers.arrays()
            if len(found) < seen or len(np.unique(found.seq)) != len(found):
                wrong.append(len(found))
            seen = len(found)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for k, pair in enumerate(pairs):
            store.answers.add(say.on(store, pair, f"p{k % 3}"))
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert len(store.answers.arrays()) == 48
    kept_is_read(store)


def test_known_answers_stay_apart(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    assert len(store.answers.arrays()) == 1
    [gold] = store.known.add_all([NewKnown(7, 8, "gold")])
    store.answers.add(say.on(store, gold, "ann", Answer.EQUAL))
    assert len(store.answers.arrays()) == 1
    [plain], [with_gold] = store.answers.by_annotator(), store.answers.by_annotator(gold=True)
    assert (plain.answers, plain.equal, with_gold.answers, with_gold.equal) == (1, 0, 2, 1)
    kept_is_read(store)


def test_a_long_log_is_read_in_blocks_and_says_the_same(
    store: Store, pair_ids: list[int], say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, pair in enumerate(pair_ids):
        store.answers.add(say.on(store, pair, f"p{at % 3}", id=f"a{at:07d}"))
    store.answers.undo("a0000001", "p1", id="undo0001")
    store.decisions.add(say.on(store, pair_ids[0], "lead", Answer.RIGHT, id="d0000000"))
    readings = [(read, question) for read in (answer_arrays, lesson_arrays) for question in ("", "pain")]
    whole = [read(store.database, 0, None, question) for read, question in readings]
    assert [len(found) > 2 for found in whole] == [True, False, True, False]
    monkeypatch.setattr(columns, "BLOCK", 2)
    for (read, question), found in zip(readings, whole, strict=True):
        same(read(store.database, 0, None, question), found)
    with store.database.together():  # a cursor of the transaction that is under way
        same(answer_arrays(store.database, 0, None, ""), whole[0])


@pytest.mark.postgres
def test_after_a_server_that_lost_its_last_answers_took_over_the_log_is_read_anew(
    postgres_server: Any, postgres_url: str, say: Any
) -> None:
    """Numbers are given again: what is remembered of 3 and 4 must not be taken for the beginning of what comes."""
    with Store.open(postgres_url) as store:
        store.images.add_all([NewImage(row, f"{row:032x}", f"{row}.png") for row in range(12)])
        ids = store.pairs.add_all([NewPair(row, row + 1, raters=9) for row in range(5)])
        for pair, who in zip(ids[:4], ("ann", "bea", "lost", "lost"), strict=True):
            store.answers.add(say.on(store, pair, who))
        assert store.answers.arrays().seq.tolist() == [1, 2, 3, 4]
        assert len(store.answers.lessons()) == store.answers.count() == 4
        run_sql(
            postgres_server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "SET session_replication_role = replica",
            "DELETE FROM comparisons WHERE seq > 2",
            "UPDATE pairs SET answers = 0, open = true WHERE id > (SELECT max(pair) FROM comparisons)",
            database=store.database.engine.url.database,
        )  # fmt: skip
        assert store.answers.arrays().seq.tolist() == [1, 2]
        for pair in ids[2:]:
            store.answers.add(say.on(store, pair, "cat", Answer.RIGHT))
        kept_is_read(store)
        assert store.answers.arrays().annotators == ("ann", "bea", "cat")
        assert store.answers.count() == 5


def test_a_child_of_a_fork_is_not_kept_waiting(store: Store, pair_ids: list[int], say: Any) -> None:
    """A thread of the parent was reading when the child was made; nobody will give its lock back there."""
    store.answers.add(say.on(store, pair_ids[0], "ann"))
    with store.answers._said._lock:
        child = os.fork()
        if not child:
            os._exit(0 if len(store.answers.arrays()) == 1 else 1)
        end, done, status = time.monotonic() + 30, 0, 0
        while not done and time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not done:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert (done, status) == (child, 0)
    assert len(store.answers.arrays()) == 1
