"""PostgreSQL answers in another process, perhaps on another machine: what people wait for takes one way there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.store.errors import ConflictError, NotHandedOutError, StoreError, UnknownRecordError
from steelyard.store.records import Leased, NewComparison, NewImage, NewPair
from steelyard.store.store import Store

from .conftest import image_id
from .wire import Wire, wired

pytestmark = pytest.mark.postgres


@pytest.fixture
def wire(postgres_reused: Callable[[], str]) -> Iterator[Wire]:
    with wired(postgres_reused()) as laid:
        yield laid


@pytest.fixture
def far(wire: Wire) -> Iterator[Store]:
    """A store at the other end of a wire, with 40 open pairs and everything asked once."""
    with Store.open(wire.url, create=False) as store:
        store.images.add_all([NewImage(row, image_id(row)) for row in range(41)])
        store.pairs.add_all([NewPair(row, row + 1) for row in range(40)])
        store.people.add("kt")
        store.people.sessions.add("s", "kt", "c", expires=4e9)
        for _ in range(6):  # psycopg prepares a statement when it comes for the sixth time
            [one] = lease(store, 1)
            store.answers.add(said(one), require_lease=True)
            store.people.sessions.find("s")
            store.answers.count()
        yield store
        assert store.check() == []


def lease(store: Store, n: int, who: str = "kt") -> list[Leased]:
    return store.pairs.lease(who, n, seconds=900, rng=np.random.default_rng(0))


def said(one: Leased, answer: Answer = Answer.LEFT, **more: Any) -> NewComparison:
    return NewComparison(one.pair, one.annotator, answer, one.left, one.right, **more)


def trips(wire: Wire, act: Callable[[], object]) -> int:
    before = wire.trips
    act()
    return wire.trips - before


def test_what_a_person_waits_for_is_one_round_trip(far: Store, wire: Wire) -> None:
    held: list[Leased] = []
    assert trips(wire, lambda: held.extend(lease(far, 6))) == 1
    assert len(held) == 6
    assert trips(wire, lambda: lease(far, 6)) == 1
    assert trips(wire, lambda: far.answers.add(said(held[0]), require_lease=True)) == 1
    batch = [said(one) for one in held[1:]]
    assert trips(wire, lambda: far.answers.add_all(batch, require_lease=True)) == 1
    assert trips(wire, lambda: far.people.sessions.find("s")) == 1
    assert trips(wire, lambda: far.answers.count()) == 1


def test_whoever_answered_hears_the_count_without_asking(far: Store, wire: Wire) -> None:
    [one] = lease(far, 1)
    recorded = far.answers.add(said(one), require_lease=True)
    assert trips(wire, lambda: far.answers.count(since=recorded.seq)) == 0
    assert far.answers.count(since=recorded.seq) == far.answers.count() == 7
    with Store.open(
        wire.url
    ) as other:  # another server writes and takes back: what is kept is read on from there
        [two, three] = lease(other, 2, "sam")
        other.answers.add(said(two, id="x"), require_lease=True)
        other.answers.undo("x", "sam", id="u")
        again = far.answers.add(said(three), require_lease=True)
        assert far.answers.count(since=again.seq) == far.answers.count() == other.answers.count() == 8


def test_the_server_hashes_as_we_do(far: Store) -> None:
    """What the function in the database writes is what the general way writes; `check` computes the chain here."""
    held = lease(far, 5)
    odd = [
        said(held[0], note="Größe → 3 🩺", shown_at=-0.0, answered_at=1e-300),
        said(held[1], Answer.CANNOT_JUDGE, note="", shown_at=None, answered_at=1.7e9 + 1 / 3),
        said(held[2], Answer.EQUAL, note='"\\\n\t', source="api", answered_at=1e11),
    ]
    far.answers.add_all(odd, require_lease=True, now=1.7e9 + 0.1)
    far.answers.add(said(held[3]), require_lease=True)
    far.answers.add(said(held[4]))
    assert far.check(far.audit.heads()) == []
    rows = far.answers.log()[-5:]
    assert [row.seq for row in rows] == [7, 8, 9, 10, 11]
    assert [row.note for row in rows[:3]] == [one.note for one in odd]
    assert (rows[1].shown_at, rows[1].answered_at, rows[1].received_at) == (None, 1.7e9 + 1 / 3, 1.7e9 + 0.1)


def test_what_is_not_ordinary_is_decided_in_one_place(far: Store) -> None:
    held = lease(far, 5)
    far.answers.add(said(held[0], id="a"), require_lease=True)
    before = far.audit.heads()
    assert not far.answers.add(said(held[0], id="a"), require_lease=True).created
    stranger = NewComparison(held[1].pair, "sam", Answer.LEFT, held[1].left, held[1].right)
    wrong_sides = NewComparison(held[1].pair, "kt", Answer.LEFT, held[1].left, held[2].left)
    for error, bad, words in (
        (ConflictError, said(held[0], Answer.RIGHT, id="a"), "other content"),
        (ConflictError, said(held[0]), "already judged"),
        (NotHandedOutError, stranger, "was not handed"),
        (StoreError, wrong_sides, "handed out with"),
        (
            UnknownRecordError,
            NewComparison(999, "kt", Answer.LEFT, held[1].left, held[1].right),
            "number 999",
        ),
        (UnknownRecordError, said(held[1], supersedes="nothing"), "no answer nothing"),
        (StoreError, NewComparison(held[1].pair, "kt", Answer.LEFT, "\x00", "é"), "handed out with"),
    ):
        with pytest.raises(error, match=words):
            far.answers.add(bad, require_lease=True)
        with pytest.raises(error, match=words):  # nor does it take good ones with it half-way
            far.answers.add_all([said(held[2]), bad], require_lease=True)
    with pytest.raises(ConflictError):
        far.answers.add_all([said(held[3]), said(held[3])], require_lease=True)
    assert far.audit.heads() == before
    twice = far.answers.add_all([said(held[3], id="b"), said(held[3], id="b")], require_lease=True)
    assert [one.created for one in twice] == [True, False]
    changed = far.answers.add(said(held[0], Answer.RIGHT, supersedes="a"), require_lease=True)
    assert changed.created
    far.answers.undo("b", "kt", id="u")
    assert far.answers.add(said(held[3], Answer.EQUAL), require_lease=True).created


def test_an_answer_closes_its_pair_when_everybody_who_was_wanted_has_spoken(far: Store) -> None:
    [pair] = [one.pair for one in lease(far, 1)]
    with far.database.writing() as connection:
        connection.execute(sa.text("UPDATE pairs SET raters = 2 WHERE id = :id"), {"id": pair})
    [mine] = lease(far, 1)
    [yours] = lease(far, 1, "sam")
    assert mine.pair == yours.pair == pair
    far.answers.add(said(mine), require_lease=True)
    assert far.pairs.get(pair).open
    far.answers.add(said(yours), require_lease=True)
    assert not far.pairs.get(pair).open
    [held] = lease(far, 1)
    far.images.exclude(held.left, "kt")
    far.answers.add(said(held), require_lease=True)  # it waited for the network; it stays closed
    assert not far.pairs.get(held.pair).open


def test_a_line_that_broke_is_noticed_before_an_answer_meets_it(far: Store, wire: Wire) -> None:
    held = lease(far, 2)
    wire.cut()
    assert far.answers.add(said(held[0]), require_lease=True).created
    wire.cut()
    assert [one.pair for one in lease(far, 1)] == [held[1].pair]
