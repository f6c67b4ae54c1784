from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import NewGrade
from steelyard.store.store import Store

IMAGE = f"{3:032x}"


def test_a_grade_comes_back_as_it_was_given(store: Store) -> None:
    recorded = store.grades.add(
        NewGrade(IMAGE, "kt", 2, 10.0, 12.0, "x", note="sure", source="api"), now=13.0
    )
    [grade] = store.grades.log()
    assert (grade.seq, grade.image, grade.image_row, grade.annotator, grade.grade) == (
        recorded.seq,
        IMAGE,
        3,
        "kt",
        2,
    )
    assert (grade.shown_at, grade.answered_at, grade.received_at, grade.note, grade.source) == (
        10,
        12,
        13,
        "sure",
        "api",
    )
    assert grade.effective


def test_sent_twice_is_once_and_other_content_is_a_conflict(store: Store) -> None:
    new = NewGrade(IMAGE, "kt", 2, id="x")
    assert [store.grades.add(new).created, store.grades.add(new).created] == [True, False]
    for change in ({"grade": 3}, {"annotator": "b"}, {"image": f"{4:032x}"}):
        with pytest.raises(ConflictError, match="sent before with other content"):
            store.grades.add(replace(new, **change))


def test_changing_and_undoing(store: Store) -> None:
    store.grades.add(NewGrade(IMAGE, "kt", 2, id="x"))
    with pytest.raises(ConflictError, match="already judged this image"):
        store.grades.add(NewGrade(IMAGE, "kt", 3))
    store.grades.add(NewGrade(IMAGE, "kt", 3, id="y", supersedes="x"))
    store.grades.add(NewGrade(IMAGE, "b", 0, id="z"))
    arrays = store.grades.arrays()
    assert (arrays.row.tolist(), arrays.grade.tolist()) == ([3, 3], [3, 0])
    assert [arrays.annotators[k] for k in arrays.annotator] == ["kt", "b"]
    then = arrays.last_seq
    store.grades.undo("y", "kt", id="u", now=5.0)
    assert not store.grades.undo("y", "kt", id="u").created
    assert store.grades.arrays().grade.tolist() == [0]
    assert store.grades.arrays(upto=then).grade.tolist() == [3, 0]
    assert [(g.id, g.grade, g.effective) for g in store.grades.log()] == [
        ("x", 2, False),
        ("y", 3, False),
        ("z", 0, True),
        ("u", None, False),
    ]
    assert [g.id for g in store.grades.log(after=store.grades.log()[1].seq, limit=1)] == ["z"]
    assert [g.id for g in store.grades.log(annotator="b")] == ["z"]
    assert store.grades.last_seq() == store.grades.log()[-1].seq
    store.grades.add(NewGrade(IMAGE, "kt", 1))
    assert sorted(store.grades.arrays().grade.tolist()) == [0, 1]


def test_what_cannot_be_undone(store: Store) -> None:
    store.grades.add(NewGrade(IMAGE, "kt", 2, id="x"))
    with pytest.raises(ConflictError, match="only one's own"):
        store.grades.undo("x", "b", id="u")
    with pytest.raises(UnknownRecordError, match="no grade y"):
        store.grades.undo("y", "kt", id="u")
    store.grades.undo("x", "kt", id="u")
    with pytest.raises(ConflictError, match="before"):
        store.grades.undo("x", "kt", id="v")
    with pytest.raises(ConflictError, match="itself an undo"):
        store.grades.undo("u", "kt", id="v")


@pytest.mark.parametrize(
    "change",
    [
        {"image": "nothing"},
        {"grade": -1},
        {"grade": 1.5},
        {"grade": True},
        {"grade": 2**40},
        {"annotator": ""},
        {"id": "?"},
        {"supersedes": "gone"},
    ],
)
def test_bad_grades_are_refused(store: Store, change: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        store.grades.add(replace(NewGrade(IMAGE, "kt", 2), **change))
    assert store.grades.log() == []
    assert store.grades.arrays().last_seq == 0
