"""Grades keep their meaning when their list is changed; answers keep the question they were given to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.config import StudyConfig
from steelyard.config.grades import GradeList
from steelyard.errors import ConfigError, StudyError
from steelyard.store.told import WHEN
from steelyard.study import Study
from steelyard.study.following import ConfigFollower
from steelyard.study.wording import catalog_codes, questions_asked, read_wordings, regraded
from tests.study.conftest import answer

GRADES = ("calm: pale", "red", "angry")


def edit(study: Study, **page: object) -> None:
    """Somebody opens study.toml in an editor."""
    path = study.folder / "study.toml"
    StudyConfig.load(path).with_changes(page=page).save(path)


def labelled(folder: Path, grades: list[str], **changes: object) -> Study:
    """A study whose images came with grades."""
    np.save(folder / "rows.npy", np.random.default_rng(0).normal(size=(len(grades), 3)).astype(np.float32))
    lines = [f"{row},{grade}" for row, grade in enumerate(grades)]
    (folder / "labels.csv").write_text("\n".join(["image,grade", *lines]) + "\n", encoding="utf-8")
    catalog = sy.Catalog.from_features(folder / "rows.npy", folder / "labels.csv")
    return Study.create(folder / "labelled", catalog, preset="features", **changes)


def test_a_list_that_was_turned_round_by_hand_is_refused(make_study: Callable[..., Study]) -> None:
    study = make_study(page={"grades": GRADES})
    for image, grade in zip(study.catalog.ids[:5], (0, 0, 1, 2, 2), strict=True):
        study.tell_grade(str(image), grade)
    edit(study, grades=tuple(reversed(GRADES)))
    with pytest.raises(StudyError) as refused:
        Study.open(study.folder)
    said = str(refused.value)
    assert "4 grades given by people would mean something else" in said
    assert 'put it back to [page] grades = ["calm: pale", "red", "angry"]' in said
    assert "calm, red, angry became angry, red, calm" in said
    edit(
        study, grades=("calm", "pink: redder", "angry", "furious")
    )  # renamed in its place, one more at the end
    with Study.open(study.folder) as opened:
        assert opened.grade_names == ("calm", "pink", "angry", "furious")
    edit(study, grades=("calm", "pink"))
    with pytest.raises(StudyError, match="would mean something else"):
        Study.open(study.folder)


def test_a_trainer_goes_on_with_the_list_as_it_was(make_study: Callable[..., Study]) -> None:
    study = make_study(page={"grades": GRADES})
    study.tell_grade(str(study.catalog.ids[0]), 0)
    edit(study, grades=tuple(reversed(GRADES)), question="Which is redder?")
    follower = ConfigFollower()
    follower.follow(study)
    assert (study.grade_list.texts, study.config.page.question) == (GRADES, "Which is more severe?")
    edit(study, grades=GRADES)
    follower.follow(study)
    assert study.config.page.question == "Which is redder?"


def test_nobody_has_graded_so_any_list_will_do(make_study: Callable[..., Study]) -> None:
    study = make_study(page={"grades": GRADES})
    edit(study, grades=tuple(reversed(GRADES)))
    with Study.open(study.folder) as opened:
        assert opened.grade_names == ("angry", "red", "calm")
        opened.tell_grade(str(opened.catalog.ids[0]), 0)
    edit(study, grades=GRADES)  # noted with the first grade that was given by the new list
    with pytest.raises(StudyError, match="1 grade given by people"):
        Study.open(study.folder)


def test_grades_of_the_catalog_follow_their_names(tmp_path: Path) -> None:
    study = labelled(tmp_path, ["mild", "none", "severe", "", "none"])
    assert study.grade_names == ("mild", "none", "severe")  # by name, which is no order
    edit(study, grades=("none: pale", "mild", "severe"))
    study.close()
    with Study.open(tmp_path / "labelled") as opened:
        assert opened.known_grades().tolist() == [1, 0, 2, -1, 0]


def test_a_grade_that_joins_the_catalog_later_moves_no_other(tmp_path: Path) -> None:
    study = labelled(tmp_path, ["mild", "none", "severe", "worst"])
    listed = GradeList(("none", "mild", "severe"))
    codes = catalog_codes(study.catalog, listed)
    assert codes is not None
    assert codes.tolist() == [1, 0, 2, 3]
    renamed = catalog_codes(
        study.catalog, GradeList(("none", "mild", "bad"))
    )  # by place, as what is not found may be renamed
    assert renamed is not None
    assert renamed.tolist() == [0, 1, 2, 3]
    study.close()


def test_grades_of_the_catalog_that_cannot_follow_are_counted(tmp_path: Path) -> None:
    study = labelled(tmp_path, ["0", "1", "2", "", "2"], page={"grades": GRADES})
    assert study.known_grades().tolist() == [0, 1, 2, -1, 2]
    found = regraded(study.store, study.catalog, study.grade_list, GradeList(tuple(reversed(GRADES))))
    assert (found.given, found.catalog, found.lost) == (0, 3, -1)
    assert found.sentence() == "3 grades that came with the images"
    assert regraded(study.store, study.catalog, study.grade_list, GradeList(("a", "b"))).lost == 2
    edit(study, grades=tuple(reversed(GRADES)))
    study.close()
    with pytest.raises(StudyError, match="3 grades that came with the images"):
        Study.open(tmp_path / "labelled")


def test_twelve_grades_are_too_many(tmp_path: Path, make_study: Callable[..., Study]) -> None:
    with pytest.raises(ConfigError, match=r"12 grades are too many: .* 0 to 9, .* leave the grades out"):
        labelled(tmp_path, [str(k) for k in range(12)])
    assert not (tmp_path / "labelled").exists()
    with pytest.raises(ConfigError, match=r"'page\.grades': 12 grades are too many"):
        make_study(page={"grades": tuple(f"g{k}" for k in range(12))})
    study = make_study(page={"grades": GRADES})
    edit(study, grades=tuple(f"g{k}" for k in range(12)))
    with pytest.raises(ConfigError, match=r"study\.toml: 'page\.grades': 12 grades are too many"):
        Study.open(study.folder)


def test_a_cell_holds_the_name_alone(answered: Study) -> None:
    study = answered
    study.config = study.config.with_changes(page={"grades": GRADES})
    for row, image in enumerate(study.catalog.ids[:12]):
        study.tell_grade(str(image), row % 3)
    study.fit()
    table = study.grade()
    assert set(table["grade"]) | set(table["known"].dropna()) <= {"calm", "red", "angry"}
    assert set(table.loc[table["grade"] == "calm", "definition"]) <= {"pale"}
    study.config = study.config.with_changes(page={"grades": ("calm", "red", "angry")})
    assert "definition" not in study.grade().columns


def test_each_answer_belongs_to_the_question_of_its_day(make_study: Callable[..., Study]) -> None:
    study = make_study(ask={"start": "random", "random_share": 0.0})
    answer(study, 3)
    up = study.ask(1, annotator="kt")[0]
    edit(study, question="Which has more bleeding?")  # by hand
    with Study.open(study.folder) as opened:
        answer(opened, 2)
        noted = read_wordings(opened.store)
        changed = noted[-1].at
        opened.tell(
            up, "left", annotator="kt", shown_at=changed - 5, answered_at=changed + 5
        )  # it was on the screen before
        asked = questions_asked(noted, opened.store.answers.told())
    assert [(one.question, one.answers) for one in asked] == [
        ("Which is more severe?", 4),
        ("Which has more bleeding?", 2),
    ]
    assert len(noted) == 2, "a wording is noted when it is shown, and once"


def test_answers_from_elsewhere_and_from_before_are_not_guessed_at(make_study: Callable[..., Study]) -> None:
    study = make_study(ask={"start": "random", "random_share": 0.0})
    answer(study, 2)
    study.tell(study.ask(1)[0], "right", source="import")
    asked = questions_asked(read_wordings(study.store), study.store.answers.told(*WHEN))
    assert [(one.question, one.imported, one.answers) for one in asked] == [
        ("Which is more severe?", False, 2),
        ("", True, 1),
    ]
    first_two = study.store.answers.arrays().seq[:2]
    unknown = questions_asked([], study.store.answers.told(*WHEN), first_two)
    assert [(one.question, one.answers) for one in unknown] == [("", 2)]
