from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steelyard.pairs import Answer
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import NewComparison
from steelyard.store.store import Store


def test_an_answer_comes_back_as_it_was_given(store: Store, pair_ids: list[int]) -> None:
    pair = store.pairs.get(pair_ids[0])
    new = NewComparison(
        pair.id,
        "kt",
        Answer.CANNOT_JUDGE,
        pair.second,
        pair.first,
        10.0,
        12.5,
        "some-id",
        note="blurred",
        source="api",
    )
    recorded = store.answers.add(new, now=13.0)
    assert recorded.created
    [found] = store.answers.log()
    assert (found.seq, found.pair, found.annotator, found.answer) == (
        recorded.seq,
        pair.id,
        "kt",
        Answer.CANNOT_JUDGE,
    )
    assert (found.left, found.right) == (pair.second, pair.first)
    assert (found.shown_at, found.answered_at, found.received_at) == (10.0, 12.5, 13.0)
    assert (found.note, found.source, found.supersedes, found.superseded_by) == ("blurred", "api", None, None)
    assert found.effective


def test_an_answer_sent_twice_is_one_answer(store: Store, pair_ids: list[int], say: Any) -> None:
    answer = say.on(store, pair_ids[0], "kt")
    first = store.answers.add(answer)
    again = store.answers.add(replace(answer, answered_at=99.0))
    assert (first.created, again.created) == (True, False)
    assert first.seq == again.seq
    assert len(store.answers.log()) == 1


def test_an_answer_sent_again_after_its_undo_stays_undone(
    store: Store, pair_ids: list[int], say: Any
) -> None:
    answer = say.on(store, pair_ids[0], "kt", id="x")
    store.answers.add(answer)
    store.answers.undo("x", "kt", id="u")
    assert not store.answers.add(answer).created
    assert not store.answers.undo("x", "kt", id="u").created
    assert store.answers.count() == 0


@pytest.mark.parametrize(
    "change", [{"answer": Answer.RIGHT}, {"annotator": "somebody else"}, {"supersedes": "x"}]
)
def test_the_same_id_with_other_content_is_a_conflict(
    store: Store, pair_ids: list[int], say: Any, change: dict[str, Any]
) -> None:
    answer = say.on(store, pair_ids[0], "kt", id="x")
    store.answers.add(answer)
    with pytest.raises(ConflictError, match="answer x was sent before with other content"):
        store.answers.add(replace(answer, **change))
    with pytest.raises(ConflictError, match="sent before"):
        store.answers.add(replace(answer, left=answer.right, right=answer.left))
    with pytest.raises(ConflictError):
        store.answers.add(say.on(store, pair_ids[1], "kt", id="x"))
    assert len(store.answers.log()) == 1


def test_a_second_opinion_of_the_same_person_has_to_replace_the_first(
    store: Store, pair_ids: list[int], say: Any
) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt", id="x"))
    with pytest.raises(ConflictError, match=r"'kt' already judged this pair \(answer x\)"):
        store.answers.add(say.on(store, pair_ids[0], "kt", Answer.RIGHT))
    store.answers.add(say.on(store, pair_ids[0], "kt", Answer.RIGHT, id="y", supersedes="x"))
    old, new = store.answers.log()
    assert (old.superseded_by, old.effective, new.supersedes, new.effective) == ("y", False, "x", True)
    # Somebody else may always add an opinion (an import, or an answer that came late).
    store.answers.add(say.on(store, pair_ids[0], "another"))
    assert store.answers.count() == 2


def test_undo_is_a_new_row(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt", id="x"))
    assert not store.pairs.get(pair_ids[0]).open
    undone = store.answers.undo("x", "kt", id="u", now=50.0)
    assert undone.created
    first, second = store.answers.log()
    assert (first.answer, first.superseded_by, first.effective) == (Answer.LEFT, "u", False)
    assert (second.withdrawn, second.supersedes, second.answered_at) == (True, "x", 50.0)
    assert (second.left, second.right) == (first.left, first.right)
    assert store.pairs.get(pair_ids[0]).open


def test_several_steps_can_be_undone(store: Store, pair_ids: list[int], say: Any) -> None:
    for k in range(4):
        store.answers.add(say.on(store, pair_ids[k], "kt", id=f"x{k}"))
    for k in (3, 2):
        store.answers.undo(f"x{k}", "kt", id=f"u{k}")
    assert [c.id for c in store.answers.log() if c.effective] == ["x0", "x1"]
    assert [pair.id for pair in store.pairs.all(open=True)] == pair_ids[2:]


def test_what_cannot_be_undone(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt", id="x"))
    with pytest.raises(ConflictError, match="only one's own"):
        store.answers.undo("x", "somebody else", id="u")
    with pytest.raises(UnknownRecordError, match="no answer y"):
        store.answers.undo("y", "kt", id="u")
    store.answers.undo("x", "kt", id="u")
    with pytest.raises(ConflictError, match="undone or replaced before"):
        store.answers.undo("x", "kt", id="u2")
    with pytest.raises(ConflictError, match="is itself an undo"):
        store.answers.undo("u", "kt", id="u3")
    with pytest.raises(ConflictError, match="undone or replaced before"):
        store.answers.add(say.on(store, pair_ids[0], "kt", supersedes="x"))
    with pytest.raises(UnknownRecordError):
        store.answers.add(say.on(store, pair_ids[0], "kt", supersedes="nothing"))
    store.answers.add(say.on(store, pair_ids[1], "kt", id="z"))
    with pytest.raises(ConflictError, match="another pair"):
        store.answers.add(say.on(store, pair_ids[0], "kt", supersedes="z"))
    assert [c.id for c in store.answers.log()] == ["x", "u", "z"]


def test_an_undo_may_be_replaced_by_an_answer(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt", id="x"))
    store.answers.undo("x", "kt", id="u")
    store.answers.add(say.on(store, pair_ids[0], "kt", Answer.EQUAL, id="y", supersedes="u"))
    assert [c.id for c in store.answers.log() if c.effective] == ["y"]
    with pytest.raises(ConflictError, match="already judged"):
        store.answers.add(say.on(store, pair_ids[0], "kt", id="z"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"pair": 999}, UnknownRecordError, "no pair of this study has the number 999"),
        ({"pair": 10**30}, UnknownRecordError, "no pair"),
        ({"left": "other"}, StoreError, "not of those that were sent"),
        ({"right": "", "left": ""}, StoreError, "not of those that were sent"),
        (
            {"answer": "left"},
            StoreError,
            r"an answer is an Answer \('left', 'right', 'equal', 'cannot judge'\)",
        ),
        ({"answer": "withdrawn"}, StoreError, "an answer is an Answer"),
        ({"annotator": ""}, StoreError, "an annotator's name"),
        ({"annotator": "a\nb"}, StoreError, "printable"),
        ({"id": ""}, StoreError, "the id of an answer"),
        ({"id": "x y"}, StoreError, "the id of an answer"),
        ({"id": "x" * 101}, StoreError, "the id of an answer"),
        ({"note": "x" * 3000}, StoreError, "a note has 3000 characters"),
        ({"note": "\x00"}, StoreError, "cannot be stored"),
        ({"shown_at": float("nan")}, StoreError, "shown_at is in seconds since 1970"),
        ({"answered_at": 1.7e12}, StoreError, "answered_at is in seconds"),
        ({"source": "guess"}, StoreError, "page, api, import, virtual"),
    ],
)
def test_bad_answers_are_refused(
    store: Store, pair_ids: list[int], say: Any, change: dict[str, Any], error: type[StoreError], message: str
) -> None:
    with pytest.raises(error, match=message):
        store.answers.add(replace(say.on(store, pair_ids[0], "kt"), **change))
    assert store.answers.log() == []


def test_many_answers_are_written_all_or_none(store: Store, pair_ids: list[int], say: Any) -> None:
    answers = [say.on(store, id, who, id=f"{id}-{who}") for id in pair_ids for who in ("a", "b")]
    recorded = store.answers.add_all([*answers, answers[0]], now=7.0)
    assert [r.created for r in recorded] == [True] * 10 + [False]
    assert [r.seq for r in recorded[:10]] == sorted(r.seq for r in recorded[:10])
    assert recorded[-1].seq == recorded[0].seq
    assert store.pairs.open_count() == 0
    assert [r.created for r in store.answers.add_all(answers)] == [False] * 10

    bad = say.on(store, pair_ids[0], "a")
    with pytest.raises(ConflictError, match="already judged"):
        store.answers.add_all([say.on(store, pair_ids[0], "c"), bad])
    assert len(store.answers.log()) == 10
    assert store.answers.add_all([]) == []


def test_many_answers_may_contradict_each_other_only_in_the_right_way(
    store: Store, pair_ids: list[int], say: Any
) -> None:
    x = say.on(store, pair_ids[0], "kt", id="x")
    y = say.on(store, pair_ids[0], "kt", Answer.RIGHT, id="y", supersedes="x")
    with pytest.raises(ConflictError, match="already judged"):
        store.answers.add_all([x, replace(y, supersedes=None)])
    with pytest.raises(UnknownRecordError):
        store.answers.add_all([y, x])
    store.answers.add_all([x, y])
    assert [c.id for c in store.answers.log() if c.effective] == ["y"]


def test_answering_makes_an_annotator_known_who_cannot_log_in(
    store: Store, pair_ids: list[int], say: Any
) -> None:
    store.answers.add(say.on(store, pair_ids[0], "Dr. Ž"), now=4.0)
    annotator = store.people.get("Dr. Ž")
    assert (annotator.role, annotator.active, annotator.created) == ("annotator", True, 4.0)
    assert (annotator.password_hash, annotator.link_hash) == (None, None)


# ---------------------------------------------------------------------- images taken out with an answer


def test_an_image_leaves_with_the_answer_or_not_at_all(store: Store, pair_ids: list[int], say: Any) -> None:
    """One transaction: an answer that is refused takes nothing out, one that is kept takes it out for good."""
    first = say.on(store, pair_ids[0], "kt", Answer.CANNOT_JUDGE, id="x", note="stool")
    leaving = replace(first, exclude=(first.left,))
    for wrong in (replace(leaving, exclude=("other",)), replace(leaving, supersedes="missing")):
        with pytest.raises(StoreError):
            store.answers.add(wrong)
    assert {image.id for image in store.images.all() if image.excluded} == set()
    assert store.answers.add(leaving).created
    assert {image.id for image in store.images.all() if image.excluded} == {first.left}
    assert store.images.get(first.left).excluded_reason == "stool"
    assert [entry.action for entry in store.audit.log()] == ["exclude image"]
    store.images.include(first.left, "lea")
    assert not store.answers.add(leaving).created
    assert {image.id for image in store.images.all() if image.excluded} == set(), (
        "sent again, it does not undo what a lead decided since"
    )


def test_answers_that_arrive_together_take_their_images_out(
    store: Store, pair_ids: list[int], say: Any
) -> None:
    new = [say.on(store, pair, "kt", Answer.CANNOT_JUDGE, id=f"x{pair}") for pair in pair_ids[:3]]
    store.answers.add_all([replace(answer, exclude=(answer.left, answer.right)) for answer in new])
    assert {image.id for image in store.images.all() if image.excluded} == {
        id for answer in new for id in (answer.left, answer.right)
    }
    assert len(store.audit.log()) == 6, (
        "pairs (0, 1), (1, 2), (2, 3) share images; each answer's word is kept"
    )
    assert [pair.id for pair in store.pairs.all(open=True)] == [pair_ids[4]]


def test_the_log_comes_in_pages(store: Store, pair_ids: list[int], say: Any) -> None:
    for k in range(5):
        store.answers.add(say.on(store, pair_ids[k], "ab"[k % 2], id=f"x{k}"))
    store.answers.undo("x0", "a", id="u")
    first = store.answers.log(limit=4)
    rest = store.answers.log(after=first[-1].seq)
    assert [c.id for c in first + rest] == ["x0", "x1", "x2", "x3", "x4", "u"]
    assert [c.id for c in store.answers.log(annotator="a")] == ["x0", "x2", "x4", "u"]
    assert [c.id for c in store.answers.log(annotator="a", after=first[0].seq, limit=1)] == ["x2"]


def test_what_was_said_about_one_image(store: Store, pair_ids: list[int], say: Any) -> None:
    for k in range(4):
        store.answers.add(say.on(store, pair_ids[k], "kt", id=f"x{k}"))
    store.answers.undo("x1", "kt", id="u")
    assert [c.id for c in store.answers.of_image(f"{2:032x}")] == ["x2"]
    assert [c.id for c in store.answers.of_image(f"{1:032x}")] == ["x0"]
    assert store.answers.of_image("nothing") == []
