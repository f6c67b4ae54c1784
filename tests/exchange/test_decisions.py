"""Decisions go out with their role and come in with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.errors import StudyError
from steelyard.exchange import export_file, export_study, import_file, import_study
from steelyard.exchange.table import answers_table
from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.exchange.files import make_study


@pytest.fixture
def decided(study: Study) -> Study:
    """Two people disagree about a pair, on purpose asked twice, and a lead decides against the one who answered last."""
    ids = study.store.pairs.add_all([NewPair(0, 1, raters=2), NewPair(0, 1, repeat=1), NewPair(2, 3)])
    images = [str(id) for id in study.catalog.ids]
    for pair, who, answer in (
        (0, "ann", "left"),
        (0, "bo", "right"),
        (1, "bo", "right"),
        (2, "ann", "right"),
    ):
        first, second = (images[2], images[3]) if pair == 2 else (images[0], images[1])
        study.store.answers.add(NewComparison(ids[pair], who, Answer(answer), first, second))
    said = NewComparison(ids[0], "lead", Answer.RIGHT, images[1], images[0], id="decided", note="vessels")
    study.store.decisions.add(said)  # shown the other way round: the first image
    return study


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_decision_comes_back_as_one(decided: Study, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"answers.{ending}"
    assert export_file(decided, file) == 5
    other = make_study(tmp_path / "other")
    assert import_file(other, file).to_dict() == {"added": 5, "known": 0}
    assert import_file(other, file).to_dict() == {"added": 0, "known": 5}
    [decision] = other.store.decisions.all()
    assert (decision.id, decision.annotator, decision.note) == ("decided", "lead", "vessels")
    ours, theirs = decided.store.answers.lessons(), other.store.answers.lessons()
    assert ours.labels.tolist() == theirs.labels.tolist() == [0.0, 1.0]
    same = ["id", "left", "right", "answer", "annotator", "note", "role"]
    assert answers_table(other)[same].equals(answers_table(decided)[same])
    assert other.store.check() == []
    assert not other.store.pairs.get(decision.pair).open


def test_label_studio_keeps_the_role_and_choix_gets_what_is_learnt_from(
    decided: Study, tmp_path: Path
) -> None:
    export_file(decided, tmp_path / "tasks.json", form="labelstudio")
    other = make_study(tmp_path / "other")
    import_file(other, tmp_path / "tasks.json")
    assert [one.id for one in other.store.decisions.all()] == ["decided"]
    assert export_file(decided, tmp_path / "choix.json", form="choix") == 2
    assert json.loads((tmp_path / "choix.json").read_text())["comparisons"] == [[3, 2], [0, 1]]


def test_a_whole_study_takes_its_decisions_along(decided: Study, tmp_path: Path) -> None:
    export_study(decided, tmp_path / "whole.zip")
    other = make_study(tmp_path / "other")
    import_study(other, tmp_path / "whole.zip")
    import_study(other, tmp_path / "whole.zip")
    assert [one.id for one in other.store.decisions.all()] == ["decided"]


def test_an_unknown_role_is_named(study: Study, tmp_path: Path) -> None:
    ids = [str(id) for id in study.catalog.ids]
    file = tmp_path / "answers.csv"
    file.write_text(f"left,right,answer,role\n{ids[0]},{ids[1]},left,judge\n")
    with pytest.raises(StudyError, match="a role is answer or decision; not 'judge'"):
        import_file(study, file)
    file.write_text(
        f"left,right,answer,role,annotator\n{ids[0]},{ids[1]},left,decision,kt\n{ids[0]},{ids[1]},left,,kt\n"
    )
    assert import_file(study, file).added == 2
    assert import_file(study, file).known == 2
    assert (study.store.answers.count(), len(study.store.decisions.all())) == (1, 1)
