"""What a lead decides about a pair: a row of the log like an answer, and yet none."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.pairs import Answer
from steelyard.store.chain import encode, genesis, link
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.logfile import verify_log
from steelyard.store.records import NewKnown, NewPair, new_id
from steelyard.store.store import Store

_repeats = count(100)


@pytest.fixture
def disputed(store: Store, say: Any) -> int:
    """A pair on which two people disagree."""
    [pair] = store.pairs.add_all([NewPair(0, 1, raters=3)])
    store.answers.add(say.on(store, pair, "a", Answer.LEFT, id="a"))
    store.answers.add(say.on(store, pair, "b", Answer.RIGHT, id="b"))
    return pair


def taught(store: Store) -> list[tuple[int, float]]:
    found = store.answers.lessons()
    return list(zip(found.seq.tolist(), found.labels.tolist(), strict=True))


def test_a_decision_stands_in_place_of_the_answers(store: Store, disputed: int, say: Any) -> None:
    assert taught(store) == [(1, 1.0), (2, 0.0)]
    done = store.decisions.add(say.on(store, disputed, "lead", Answer.RIGHT, id="d", note="bleeding"))
    assert done.created
    assert taught(store) == [(3, 0.0)]
    # What people said stays what they said.
    assert store.answers.arrays().labels.tolist() == [1.0, 0.0]
    assert store.answers.count() == 2
    assert [c.annotator for c in store.answers.by_annotator()] == ["a", "b"]
    assert (store.answers.count("lead"), store.answers.count("a")) == (0, 1)
    [decision] = store.decisions.all()
    assert (decision.role, decision.annotator, decision.note) == ("decision", "lead", "bleeding")
    assert store.decisions.of_pairs([disputed]) == {disputed: decision}
    assert [row.role for row in store.answers.log()] == ["answer", "answer", "decision"]


def test_a_decided_pair_is_asked_no_more_until_the_decision_is_taken_back(
    store: Store, disputed: int, say: Any
) -> None:
    rng = np.random.default_rng(1)
    store.decisions.add(say.on(store, disputed, "lead", id="d"))
    assert not store.pairs.get(disputed).open
    assert store.pairs.lease("c", 5, seconds=60, rng=rng) == []
    store.decisions.undo("d", "lead", id="u")
    assert [one.pair for one in store.pairs.lease("c", 5, seconds=60, rng=rng)] == [disputed]
    assert taught(store) == [(1, 1.0), (2, 0.0)]
    assert store.decisions.all() == []
    # Who decided once may be asked, and decide once more.
    assert [one.pair for one in store.pairs.lease("lead", 5, seconds=60, rng=rng)] == []  # "c" holds the seat
    assert store.decisions.add(say.on(store, disputed, "lead", Answer.EQUAL, id="d2")).created


def test_whoever_answered_may_decide_and_whoever_decided_may_answer(
    store: Store, disputed: int, say: Any
) -> None:
    store.decisions.add(say.on(store, disputed, "a", Answer.RIGHT, id="d"))
    assert store.answers.arrays().labels.tolist() == [1.0, 0.0]
    store.answers.add(say.on(store, disputed, "c", id="late"))  # it had waited for the network
    assert taught(store) == [(3, 0.0)]
    [other] = store.pairs.add_all([NewPair(4, 5)])
    store.decisions.add(say.on(store, other, "lead", id="d2"))
    store.answers.add(say.on(store, other, "lead", id="mine"))
    assert store.answers.count("lead") == 1


def test_there_is_one_decision_a_pair_whoever_makes_it(store: Store, disputed: int, say: Any) -> None:
    store.decisions.add(say.on(store, disputed, "lead", Answer.LEFT, id="d"))
    with pytest.raises(ConflictError, match="somebody has decided this pair"):
        store.decisions.add(say.on(store, disputed, "other", Answer.RIGHT, id="e"))
    assert store.decisions.add(
        say.on(store, disputed, "other", Answer.RIGHT, id="e", supersedes="d")
    ).created  # another lead thinks better of it
    with pytest.raises(ConflictError, match="undone or replaced before"):
        store.decisions.undo("d", "lead", id="u")
    assert store.decisions.undo("e", "lead", id="u").created
    assert store.decisions.all() == []


def test_what_is_sent_twice_is_one_decision(store: Store, disputed: int, say: Any) -> None:
    said = say.on(store, disputed, "lead", Answer.LEFT, id="d")
    assert [store.decisions.add(said).created for _ in range(2)] == [True, False]
    with pytest.raises(ConflictError, match="sent before with other content"):
        store.decisions.add(say.on(store, disputed, "lead", Answer.RIGHT, id="d"))
    with pytest.raises(ConflictError, match="sent before with other content"):
        store.answers.add(say.on(store, disputed, "lead", Answer.LEFT, id="d"))  # the id of a decision
    with pytest.raises(ConflictError, match="sent before with other content"):
        store.decisions.add(say.on(store, disputed, "a", Answer.LEFT, id="a"))  # the id of an answer
    assert [store.decisions.undo("d", "lead", id="u").created for _ in range(2)] == [True, False]


def test_answers_and_decisions_do_not_undo_each_other(store: Store, disputed: int, say: Any) -> None:
    store.decisions.add(say.on(store, disputed, "a", id="d"))
    for wrong in (
        lambda: store.answers.undo("d", "a", id="u"),
        lambda: store.decisions.undo("a", "a", id="u"),
        lambda: store.answers.add(say.on(store, disputed, "a", Answer.EQUAL, id="x", supersedes="d")),
        lambda: store.decisions.add(say.on(store, disputed, "a", Answer.EQUAL, id="x", supersedes="a")),
        lambda: store.decisions.undo("nothing", "a", id="u"),
    ):
        with pytest.raises(UnknownRecordError):
            wrong()
    with pytest.raises(StoreError, match="not of those that were sent"):
        store.decisions.add(say.on(store, store.pairs.add_all([NewPair(2, 3)])[0], "a").__class__(
            disputed, "a", Answer.LEFT, f"{2:032x}", f"{3:032x}"
        ))  # fmt: skip
    with pytest.raises(UnknownRecordError, match="no pair"):
        store.decisions.add(say.on(store, disputed, "a").__class__(
            999, "a", Answer.LEFT, f"{2:032x}", f"{3:032x}"
        ))  # fmt: skip


def test_a_decision_is_about_two_images_however_often_they_were_asked_about(store: Store, say: Any) -> None:
    first, again = store.pairs.add_all([NewPair(0, 1), NewPair(0, 1, repeat=1)])
    store.answers.add(say.on(store, first, "a", Answer.LEFT))
    store.answers.add(say.on(store, again, "a", Answer.RIGHT))
    store.decisions.add(say.on(store, first, "lead", Answer.EQUAL, id="d"))
    assert taught(store) == [(3, 0.5)]


def test_a_pair_that_cannot_be_judged_teaches_nothing(store: Store, disputed: int, say: Any) -> None:
    store.decisions.add(say.on(store, disputed, "lead", Answer.CANNOT_JUDGE, id="d"))
    [(_, label)] = taught(store)
    assert np.isnan(label)


def test_what_was_learnt_can_be_read_again(store: Store, disputed: int, say: Any) -> None:
    before = store.answers.lessons()
    store.decisions.add(say.on(store, disputed, "lead", id="d"))
    decided = store.answers.lessons()
    store.decisions.undo("d", "lead", id="u")
    for then in (before, decided):
        again = store.answers.lessons(upto=then.last_seq)
        assert (again.seq.tolist(), again.last_decision) == (then.seq.tolist(), then.last_decision)
    assert (before.last_decision, decided.last_decision, store.answers.lessons().last_decision) == (0, 3, 4)
    assert decided.annotators == ("lead",)


def test_reading_on_tells_which_answers_teach_no_more(store: Store, disputed: int, say: Any) -> None:
    before = store.answers.lessons()
    store.decisions.add(say.on(store, disputed, "lead", id="d"))
    since = store.answers.lessons(after=before.last_seq)
    assert (since.seq.tolist(), since.superseded.tolist()) == ([3], [1, 2])
    store.decisions.add(say.on(store, disputed, "lead", Answer.RIGHT, id="e", supersedes="d"))
    later = store.answers.lessons(after=since.last_seq)
    assert later.seq.tolist() == [4]
    assert 3 in later.superseded.tolist()


def test_the_chain_vouches_for_the_role_and_leaves_other_rows_as_they_were(
    store: Store, disputed: int, say: Any, tmp_path: Path
) -> None:
    store.decisions.add(say.on(store, disputed, "lead", id="d"), now=5.0)
    rows = list(store.audit.rows("comparisons"))
    assert [row.get("role") for row in rows] == [None, None, "decision"]
    last = rows[2]
    plain = encode("comparisons", [*(last[name] for name in list(last)[:15]), "", "answer"])
    word = b"t\x00\x00\x00\x04role" + b"t\x00\x00\x00\x08decision"
    assert last["hash"] == hashlib.sha256(rows[1]["hash"].encode() + plain + word).hexdigest()
    # A row with the usual role is what it was before there were roles.
    assert rows[0]["hash"] == link("comparisons", genesis("comparisons"), rows[0])
    file = tmp_path / "log.jsonl"
    store.audit.export(file)
    assert verify_log(file).problems == []
    lines = file.read_text(encoding="utf-8").splitlines()
    decision = json.loads(lines[3])
    assert decision["role"] == "decision"
    for changed in ({**decision, "role": "answer"}, {k: v for k, v in decision.items() if k != "role"}):
        file.write_text("\n".join([*lines[:3], json.dumps(changed), *lines[4:]]), encoding="utf-8")
        assert verify_log(file).problems[0].startswith("comparisons: row 3 changed")
    file.write_text(
        "\n".join([*lines[:3], json.dumps({**decision, "role": 1}), *lines[4:]]), encoding="utf-8"
    )
    assert verify_log(file).problems[0] == "line 4 is no row of a log"


def test_there_is_nothing_to_decide_where_the_answer_is_known(store: Store, say: Any) -> None:
    [pair] = store.known.add_all([NewKnown(0, 1, "gold")])
    with pytest.raises(ConflictError, match="is known; there is nothing to decide"):
        store.decisions.add(say.on(store, pair, "lead"))


def test_an_acknowledged_decision_survives_a_kill(store: Store, disputed: int, say: Any) -> None:
    said = say.on(store, disputed, "lead", Answer.RIGHT, id="d")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        store.decisions.add(said)
        os.write(writing, b"kept\n")
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    with os.fdopen(reading) as heard:
        assert heard.readline() == "kept\n"
    os.waitpid(child, 0)
    assert [one.id for one in store.decisions.all()] == ["d"]
    assert not store.pairs.get(disputed).open


def test_a_study_of_before_there_were_decisions_gets_them(empty_url: str, say: Any) -> None:
    from .test_opening import make_old_study

    make_old_study(empty_url)
    with Store.open(empty_url) as store:
        [row] = store.answers.log()
        assert (row.role, row.hash) == (
            "answer",
            link("comparisons", genesis("comparisons"), next(store.audit.rows("comparisons"))),
        )
        store.decisions.add(say.on(store, 1, "lead", Answer.RIGHT, id="d"))
        assert store.answers.lessons().labels.tolist() == [0.0]
        assert store.answers.arrays().labels.tolist() == [1.0]
        assert store.check() == []


@pytest.mark.parametrize("lease", [False, True])
def test_a_third_person_is_asked_where_two_differ(store: Store, say: Any, lease: bool) -> None:
    rng = np.random.default_rng(0)
    store.answers.third_reader = True
    same, other, alone = store.pairs.add_all(
        [NewPair(0, 1, raters=2), NewPair(2, 3, raters=2), NewPair(4, 5)]
    )

    def tell(pair: int, who: str, answer: Answer, flipped: bool = False, **more: Any) -> None:
        said = say.on(store, pair, who, answer, **more)
        if flipped:
            said = replace(said, left=said.right, right=said.left, answer=answer.mirrored())
        if lease:
            store.pairs.lease(who, 5, seconds=60, rng=rng)
        store.answers.add(said, require_lease=lease)

    tell(same, "a", Answer.LEFT)
    tell(same, "b", Answer.LEFT, flipped=True)  # the same image, on the other side
    tell(other, "a", Answer.LEFT, id="a")
    tell(other, "b", Answer.RIGHT, id="b")
    tell(alone, "a", Answer.LEFT)
    assert [store.pairs.get(id).open for id in (same, other, alone)] == [False, True, False]
    assert [one.pair for one in store.pairs.lease("c", 5, seconds=60, rng=rng)] == [other]
    assert store.pairs.lease("d", 5, seconds=60, rng=rng) == []  # one third is enough
    store.answers.undo("b", "b", id="u")
    assert store.pairs.get(other).raters == 2
    tell(other, "b", Answer.CANNOT_JUDGE, id="b2")
    assert store.pairs.get(other).open  # whether it can be judged is a question, too
    tell(other, "c", Answer.LEFT, id="c")
    assert not store.pairs.get(other).open
    tell(other, "b", Answer.LEFT, id="b3", supersedes="b2")
    assert (store.pairs.get(other).raters, store.pairs.get(other).open) == (2, False)


def test_a_decision_ends_the_search_for_a_third(store: Store, say: Any) -> None:
    store.answers.third_reader = True
    [pair] = store.pairs.add_all([NewPair(0, 1, raters=2)])
    store.answers.add(say.on(store, pair, "a", Answer.LEFT))
    store.answers.add(say.on(store, pair, "b", Answer.RIGHT))
    store.decisions.add(say.on(store, pair, "lead", Answer.LEFT, id="d"))
    assert not store.pairs.get(pair).open
    store.decisions.undo("d", "lead", id="u")
    assert store.pairs.get(pair).open


def test_each_question_is_decided_by_itself(store: Store, say: Any) -> None:
    [pair] = store.pairs.add_all([NewPair(0, 1, raters=3)])
    for question in ("", "bleeding"):
        store.answers.add(say.on(store, pair, "a", Answer.LEFT, question=question))
    store.decisions.add(say.on(store, pair, "lead", Answer.RIGHT, id="d", question="bleeding"))
    assert store.answers.lessons().labels.tolist() == [1.0]
    assert store.answers.lessons(question="bleeding").labels.tolist() == [0.0]
    assert store.pairs.get(pair).open  # what it was put up for is not decided
    store.decisions.add(say.on(store, pair, "lead", Answer.EQUAL, id="e"))
    assert store.answers.lessons().labels.tolist() == [0.5]
    assert (
        [d.id for d in store.decisions.all()],
        [d.id for d in store.decisions.all(question="bleeding")],
    ) == (["e"], ["d"])
    store.decisions.undo("d", "lead", id="u")
    assert store.answers.lessons(question="bleeding").labels.tolist() == [1.0]
    assert store.answers.count("lead") == 0


steps = st.lists(
    st.tuples(
        st.sampled_from(["answer", "answer", "undo", "decide", "decide", "undecide", "replace"]),
        st.integers(0, 2),  # which pair
        st.sampled_from(["a", "b"]),
        st.sampled_from([Answer.LEFT, Answer.RIGHT, Answer.EQUAL]),
    ),
    max_size=20,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_what_teaches_is_what_plain_python_says(store: Store, say: Any, steps: Any) -> None:
    # Other images for each pair, other pairs for each example: a decision is about images, so they start undecided.
    repeat = next(_repeats)
    pairs = store.pairs.add_all([NewPair(2 * k, 2 * k + 1, repeat=repeat, raters=9) for k in range(3)])
    started = store.answers.last_seq()
    said: dict[tuple[int, str], tuple[str, Answer]] = {}
    decided: dict[int, tuple[str, Answer]] = {}
    for kind, k, who, answer in steps:
        pair, id = pairs[k], new_id()
        if kind == "answer" and (pair, who) not in said:
            store.answers.add(say.on(store, pair, who, answer, id=id))
            said[pair, who] = id, answer
        elif kind == "undo" and (pair, who) in said:
            store.answers.undo(said.pop((pair, who))[0], who, id=id)
        elif kind == "decide" and pair not in decided:
            store.decisions.add(say.on(store, pair, who, answer, id=id))
            decided[pair] = id, answer
        elif kind == "undecide" and pair in decided:
            store.decisions.undo(decided.pop(pair)[0], who, id=id)
        elif kind == "replace" and pair in decided:
            store.decisions.add(say.on(store, pair, who, answer, id=id, supersedes=decided[pair][0]))
            decided[pair] = id, answer
        wanted = sorted(
            [(p, a.label) for (p, _), (_, a) in said.items() if p not in decided]
            + [(p, a.label) for p, (_, a) in decided.items()]
        )
        found = store.answers.lessons(after=started)
        assert sorted(zip(found.pair.tolist(), found.labels.tolist(), strict=True)) == wanted
        assert {one.id for one in store.decisions.all()} == {id for id, _ in decided.values()}
    assert len(store.answers.arrays(after=started)) == len(said)
    for pair, (id, _) in decided.items():
        assert not store.pairs.get(pair).open
        store.decisions.undo(id, "a", id=new_id())
    assert all(store.pairs.get(pair).open for pair in pairs)
