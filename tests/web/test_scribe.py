"""Answers written together are the same answers as written alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.errors import (
    ConflictError,
    DamagedError,
    NotHandedOutError,
    StoreError,
    UnavailableError,
)
from steelyard.store.records import NewComparison
from steelyard.study import Study
from steelyard.web.scribe import Scribe
from tests.waiting import until
from tests.web.actors import MakeStudy


def handed(study: Study, people: int, each: int) -> list[NewComparison]:
    study.propose(people * each, strategy="random")
    return [
        NewComparison(p.pair, f"p{k}", Answer.LEFT, p.left, p.right)
        for k in range(people)
        for p in study.store.pairs.lease(f"p{k}", each, seconds=60, rng=np.random.default_rng(k))
    ]


def test_a_crowd_is_recorded_exactly_once_in_few_transactions(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = handed(study, people=8, each=6)
    scribe = Scribe(study.store)
    transactions: list[int] = []
    plain = study.store.answers.add_all

    def counted(new, **how):  # type: ignore[no-untyped-def]
        transactions.append(len(new))
        return plain(new, **how)

    monkeypatch.setattr(study.store.answers, "add_all", counted)
    with ThreadPoolExecutor(16) as crowd:
        first = list(crowd.map(scribe.add, answers))
        again = list(crowd.map(scribe.add, answers))
    assert sum(r.created for r in first) == 48
    assert not any(r.created for r in again)
    assert [r.seq for r in first] == [r.seq for r in again]
    assert study.store.answers.count() == 48
    assert max(transactions) > 1
    assert study.store.check() == []


def attempt(scribe: Scribe, new: NewComparison) -> type[BaseException] | None:
    """What is wrong with an answer, if anything."""
    try:
        scribe.add(new)
    except StoreError as error:
        return type(error)
    return None


def test_a_bad_answer_fails_alone(study: Study) -> None:
    good = handed(study, people=4, each=3)
    stolen = NewComparison(good[0].pair, "thief", Answer.LEFT, good[0].left, good[0].right)
    twice = NewComparison(
        good[1].pair, good[1].annotator, Answer.RIGHT, good[1].left, good[1].right, id=good[1].id
    )
    wrong = NewComparison(good[2].pair, good[2].annotator, Answer.LEFT, good[2].left, good[3].left)
    scribe = Scribe(study.store)
    scribe.add(good[1])

    with ThreadPoolExecutor(15) as crowd:
        found = list(crowd.map(partial(attempt, scribe), [stolen, twice, wrong, *good]))
    assert found == [NotHandedOutError, ConflictError, StoreError, *[None] * 12]
    assert study.store.answers.count() == 12


def test_something_unforeseen_leaves_nobody_waiting(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study()
    [answer] = handed(study, people=1, each=1)

    def broken(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(study.store.answers, "add", broken)
    scribe = Scribe(study.store)
    for _ in range(2):
        with pytest.raises(DamagedError, match="no room"):  # never “yours”: a browser must keep the answer
            scribe.add(answer)
    monkeypatch.undo()
    assert scribe.add(answer).created


def test_when_the_database_is_away_everybody_hears_of_it_at_once(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attempt for all that wait, not one after the other with a time-out each; and all of it can be sent again."""
    study = make_study()
    answers = handed(study, people=6, each=2)
    scribe = Scribe(study.store)
    attempts: list[int] = []
    started, go_on = threading.Event(), threading.Event()

    def away(new, **_):  # type: ignore[no-untyped-def]
        attempts.append(1)
        started.set()
        go_on.wait(30)
        raise UnavailableError("the database is away")

    monkeypatch.setattr(study.store.answers, "add", away)
    monkeypatch.setattr(study.store.answers, "add_all", away)

    with ThreadPoolExecutor(12) as crowd:
        first = crowd.submit(attempt, scribe, answers[0])
        started.wait(30)
        others = [crowd.submit(attempt, scribe, answer) for answer in answers[1:]]
        until(lambda: len(scribe._waiting) == 11, "the others' waiting")
        go_on.set()
        assert {one.result() for one in [first, *others]} == {UnavailableError}
    assert len(attempts) == 2
    monkeypatch.undo()
    assert all(scribe.add(answer).created for answer in answers)
