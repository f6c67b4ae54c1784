"""The list of grades: names apart from definitions, and what another list would do to grades that were given."""

from __future__ import annotations

import pytest

from steelyard.config.grades import GradeList


def test_a_name_is_what_stands_before_the_colon() -> None:
    grades = GradeList(("Mayo 0: normal", "1", "2: a: b"))
    assert grades.names == ("Mayo 0", "1", "2")
    assert grades.definitions == ("normal", "", "a: b")


def test_names_that_hold_a_colon_stay_whole() -> None:
    assert GradeList(("1:1", "1:2", "1:3")).names == ("1:1", "1:2", "1:3")
    assert GradeList((": nameless", "b")).names == (": nameless", "b")


def test_cells_are_found_by_name_and_as_older_tables_wrote_them() -> None:
    grades = GradeList(("Mayo 0: normal", "Mayo 1: mild redness"))
    for cell in ("Mayo 1", " mayo  1 ", "Mayo 1: mild redness", "Mayo 1: as it was defined last year"):
        assert grades.find(cell) == 1
    assert GradeList(("1", "2")).find("1:2") is None
    assert GradeList(("mild:redness", "severe:blood")).find("severe:blood") == 1
    assert (grades.find("Mayo 2"), grades.find("1"), grades.find("")) == (None, None, None)


@pytest.mark.parametrize(
    ("after", "moved"),
    [
        (("calm: pale", "red", "angry"), []),
        (("quiet: pale", "red: blood", "ANGRY"), []),
        (("calm: pale", "red", "angry", "worst"), []),
        (("none", "some", "much"), []),  # all renamed in their places
        (("angry", "red", "calm: pale"), [0, 2]),
        (("calm: pale", "pink", "red", "angry"), [1, 2]),
        (("red", "angry"), [0, 1, 2]),
        (("calm: pale", "red"), [2]),
        (("calm", "red: pale", "angry"), [0, 1]),  # the definition has moved, and the names have not
    ],
)
def test_codes_move_with_a_name_or_a_definition(after: tuple[str, ...], moved: list[int]) -> None:
    assert GradeList(("calm: pale", "red", "angry")).moved(GradeList(after)) == moved


def test_the_same_definition_twice_moves_nothing() -> None:
    grades = GradeList(("a: see the book", "b: see the book"))
    assert grades.moved(grades) == []


def test_too_many_and_twice_are_said_plainly() -> None:
    why = GradeList(tuple(f"g{k}" for k in range(12))).fault()
    assert why.startswith("12 grades are too many: on the grading page each has a digit for its key, 0 to 9")
    assert why.endswith("join some of them")
    assert "'mild' is there 2 times" in GradeList(("mild", "Mild ")).fault()
    assert GradeList(tuple("0123456789")).fault() == ""
