"""Several questions about one pair: each answered by itself, none of them lost, and the main one as if it were alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.pairs import Answer
from steelyard.store.chain import FIELDS, genesis, link
from steelyard.store.errors import ConflictError, StoreError
from steelyard.store.importing import ForeignAnswer
from steelyard.store.logfile import verify_log
from steelyard.store.records import NewImage, NewPair
from steelyard.store.store import Store

from .conftest import image_id

RNG = np.random.default_rng(0)


def hand(store: Store, annotator: str = "kt", n: int = 1) -> list[Any]:
    return store.pairs.lease(annotator, n, seconds=900.0, rng=RNG)


def test_each_question_about_a_pair_is_answered_once(store: Store, pair_ids: list[int], say: Any) -> None:
    [leased] = hand(store)
    store.answers.add(say.about(leased, Answer.LEFT, id="m"), require_lease=True)
    store.answers.add(say.about(leased, Answer.RIGHT, id="b", question="bleeding"), require_lease=True)
    store.answers.add(say.about(leased, Answer.EQUAL, id="v", question="vessels"), require_lease=True)
    with pytest.raises(ConflictError, match="already judged this pair"):
        store.answers.add(say.about(leased, Answer.LEFT, id="b2", question="bleeding"), require_lease=True)
    again = store.answers.add(say.about(leased, Answer.RIGHT, id="b", question="bleeding"))
    assert (again.created, again.seq) == (False, 2)
    with pytest.raises(ConflictError, match="other content"):
        store.answers.add(say.about(leased, Answer.RIGHT, id="b", question="vessels"))
    assert [c.question for c in store.answers.log()] == ["", "bleeding", "vessels"]
    assert [store.answers.arrays(question=q).seq.tolist() for q in ("", "bleeding", "vessels", "none")] == [
        [1], [2], [3], [],
    ]  # fmt: skip
    assert store.answers.arrays().last_seq == 3
    assert store.answers.by_question() == {"bleeding": 1, "vessels": 1}
    assert store.answers.further("kt", pair_ids) == {leased.pair: ["bleeding", "vessels"]}
    assert store.answers.further("sam", pair_ids) == {}
    assert [c.id for c in store.answers.of_image(leased.left, question="bleeding")] == ["b"]
    assert [c.id for c in store.answers.of_image(leased.left)] == ["m"], (
        "what is said of an image is said in the main question's words"
    )


def test_only_the_main_question_counts_and_closes(store: Store, pair_ids: list[int], say: Any) -> None:
    [leased] = hand(store)
    store.answers.add(say.about(leased, question="bleeding"), require_lease=True)
    assert store.pairs.get(leased.pair).open
    assert (store.answers.count(), store.answers.count("kt"), store.answers.by_annotator()) == (0, 0, [])
    assert [again.pair for again in hand(store)] == [leased.pair], "still held: the main question is open"
    assert leased.pair not in [other.pair for other in hand(store, "sam", 5)], "and with nobody else"
    store.answers.add(say.about(leased), require_lease=True)
    assert not store.pairs.get(leased.pair).open
    assert store.answers.count() == store.answers.count("kt") == 1
    assert [c.answers for c in store.answers.by_annotator()] == [1]
    store.answers.add(say.about(leased, question="vessels"), require_lease=True)
    assert store.answers.count(since=3) == 1, "what is counted goes on beyond further questions"
    assert leased.pair not in [other.pair for other in hand(store, n=5)]


def test_undo_takes_back_one_question(store: Store, pair_ids: list[int], say: Any) -> None:
    store.pairs.add_all([NewPair(7, 9, raters=2)])
    leased = hand(store, n=6)[-1]
    store.answers.add(say.about(leased, id="m"), require_lease=True)
    store.answers.add(say.about(leased, id="b", question="bleeding"), require_lease=True)
    store.answers.undo("b", "kt", id="ub")
    assert (store.answers.count(), store.answers.by_question()) == (1, {})
    assert [c.question for c in store.answers.log()] == ["", "bleeding", "bleeding"]
    assert leased.pair in [p.pair for p in hand(store, "sam", 6)], (
        "one seat is free: nobody holds the pair for its further question"
    )
    store.answers.add(say.about(leased, Answer.RIGHT, id="b2", question="bleeding"), require_lease=True)
    store.answers.undo("m", "kt", id="um")
    assert (store.answers.count(), store.answers.by_question()) == (0, {"bleeding": 1})
    store.answers.add(say.on(store, leased.pair, "sam"))
    assert leased.pair in [p.pair for p in hand(store, n=6)], (
        "back with the person, though a further answer stands"
    )
    store.answers.add(say.about(leased, Answer.RIGHT, id="m2"), require_lease=True)
    with pytest.raises(ConflictError, match="another pair or question"):
        store.answers.add(say.about(leased, Answer.RIGHT, id="x", question="bleeding", supersedes="m2"))


def test_a_question_is_a_key(store: Store, pair_ids: list[int], say: Any) -> None:
    [leased] = hand(store)
    for key in ("Bleeding", "two words", "1st", "x" * 31, "é", "a;b", None, 3):
        with pytest.raises(StoreError, match="named by its key"):
            store.answers.add(say.about(leased, question=key))


def test_further_answers_are_in_the_chain_and_older_rows_keep_their_hash(
    store: Store, pair_ids: list[int], say: Any, tmp_path: Path
) -> None:
    for leased in hand(store, n=3):
        store.answers.add(say.about(leased), require_lease=True)
        store.answers.add(say.about(leased, question="bleeding"), require_lease=True)
    rows = list(store.audit.rows("comparisons"))
    first = {name: rows[0][name] for name, _ in FIELDS["comparisons"] if name != "question"}
    assert link("comparisons", genesis("comparisons"), first) == rows[0]["hash"], (
        "as before there was the field"
    )
    assert link("comparisons", rows[0]["hash"], {**rows[1], "question": ""}) != rows[1]["hash"]
    file = tmp_path / "log.jsonl"
    heads = store.audit.export(file)
    assert verify_log(file, heads).problems == []
    lines = file.read_text(encoding="utf-8").splitlines()
    older = [
        json.dumps({k: v for k, v in json.loads(line).items() if v != "" or k != "question"})
        for line in lines
    ]
    file.write_text("\n".join(older) + "\n", encoding="utf-8")
    assert verify_log(file, heads).problems == [], "a file that was written before there was the field"
    file.write_text(
        "\n".join(lines).replace('"question": "bleeding"', '"question": ""', 1) + "\n", encoding="utf-8"
    )
    assert verify_log(file).problems[0].startswith("comparisons: row 2 changed")


def test_imported_answers_keep_their_question(store: Store) -> None:
    def foreign(id: str, question: str = "", answer: Answer = Answer.LEFT) -> ForeignAnswer:
        return ForeignAnswer(id, 1, 2, answer, "kt", question=question)

    done = store.answers.import_all(
        [foreign("a"), foreign("b", "bleeding"), foreign("c"), foreign("d", "bleeding")], actor="kt"
    )
    assert done.added == 4
    main, further = store.answers.arrays(), store.answers.arrays(question="bleeding")
    assert main.repeat.tolist() == further.repeat.tolist() == [0, 1], "the second time is another repetition"
    assert main.pair.tolist() == further.pair.tolist()
    assert store.answers.import_all([foreign("b", "bleeding")], actor="kt").known == 1
    with pytest.raises(ConflictError, match="there already"):
        store.answers.import_all([foreign("b", "vessels")], actor="kt")


@settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "b"]), st.booleans()), max_size=25)
)
def test_any_order_of_answers_and_undos_leaves_a_sound_store(
    steps: list[tuple[int, str, bool]],
    sqlite_template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    say: Any,
) -> None:
    """What a study without further questions would hold is what this one holds of its main question."""
    file = tmp_path_factory.mktemp("any") / "study.db"
    file.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{file}", create=False) as store:
        store.images.add_all([NewImage(row, image_id(row), "") for row in range(4)])
        ids = store.pairs.add_all([NewPair(row, row + 1) for row in range(3)])
        standing: dict[tuple[int, str], str] = {}
        for number, (place, question, back) in enumerate(steps):
            key = (ids[place], question)
            if back and key in standing:
                store.answers.undo(standing.pop(key), "kt", id=f"u{number}")
            elif key not in standing:
                store.answers.add(say.on(store, ids[place], "kt", id=f"a{number}", question=question))
                standing[key] = f"a{number}"
        main = {pair for pair, question in standing if not question}
        assert store.check() == []
        assert store.answers.count() == store.answers.count("kt") == len(main)
        assert {pair.id for pair in store.pairs.all(open=False)} == main
        further = [question for _, question in standing if question]
        assert store.answers.by_question() == {q: further.count(q) for q in ("a", "b") if q in further}
