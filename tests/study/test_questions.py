"""A study that asks several questions about each pair: told by key, kept by key, learnt each on a scale of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.config import StudyConfig
from steelyard.errors import StudyError
from steelyard.exchange import export_file, export_study, import_file, import_study
from steelyard.study import Study
from steelyard.study.wording import questions_asked, read_wordings

BLEEDING = {"key": "bleeding", "question": "Which has more bleeding?"}
VESSELS = {"key": "vessels", "question": "Which shows fewer vessels?", "weight": 0.5}
ASK = {"start": "random", "random_share": 0.0}


def rewrite(study: Study, **changes: Any) -> None:
    """Somebody opens study.toml in an editor."""
    path = study.folder / "study.toml"
    StudyConfig.load(path).with_changes(**changes).save(path)


def tell_all(study: Study, n: int, keys: tuple[str, ...] = ("", "bleeding", "vessels"), **more: Any) -> None:
    """Each question is about another feature."""
    rows = np.load(study.folder.parent / "x.npy")
    for pair in study.ask(n):
        left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
        for column, key in enumerate(keys):
            said = "left" if rows[left, column] > rows[right, column] else "right"
            study.tell(pair, said, question=key, **more)


def test_answers_are_told_by_key(make_study: Callable[..., Study]) -> None:
    study = make_study(questions=[BLEEDING, VESSELS], ask=ASK)
    tell_all(study, 4)
    [pair] = study.ask(1)
    study.tell(pair, "left", question="main")
    with pytest.raises(
        StudyError, match=r"no question 'bleding' – did you mean 'bleeding'\?; it has main, bleeding, vessels"
    ):
        study.tell(pair, "left", question="bleding")
    assert study.store.answers.count() == 5
    assert study.store.answers.by_question() == {"bleeding": 4, "vessels": 4}
    assert [c.question for c in study.store.answers.log()][:3] == ["", "bleeding", "vessels"]


def test_a_question_with_answers_stays(make_study: Callable[..., Study]) -> None:
    study = make_study(questions=[BLEEDING, VESSELS], ask=ASK)
    rewrite(study, questions=[BLEEDING])  # nobody has answered it yet
    Study.open(study.folder).close()
    rewrite(study, questions=[BLEEDING, VESSELS])
    tell_all(study, 3)
    rewrite(study, questions=[VESSELS])
    with pytest.raises(StudyError) as refused:
        Study.open(study.folder)
    assert "the question 'bleeding' is gone, and 3 answers to it would be of no question" in str(
        refused.value
    )
    assert 'key = "bleeding" and question = "Which has more bleeding?"' in str(refused.value)
    swapped = [{**BLEEDING, "question": VESSELS["question"]}, {**VESSELS, "question": BLEEDING["question"]}]
    rewrite(study, questions=swapped)
    with pytest.raises(
        StudyError, match="was asked under 'bleeding' and stands under 'vessels' now, so that 3 answers"
    ):
        Study.open(study.folder)
    rewrite(
        study,
        questions=[{**BLEEDING, "question": "Which is redder?"}, VESSELS, {"key": "pus", "question": "Pus?"}],
    )
    with Study.open(study.folder) as opened:
        assert [one.key for one in opened.config.questions] == ["bleeding", "vessels", "pus"]


def test_the_main_questions_words_do_not_become_another_questions(make_study: Callable[..., Study]) -> None:
    study = make_study(questions=[BLEEDING], ask=ASK)
    tell_all(study, 2, ("",))
    rewrite(
        study,
        page={"question": "Which is redder?"},
        questions=[{**BLEEDING, "question": "Which is more severe?"}],
    )
    with pytest.raises(StudyError, match="was asked under 'main' and stands under 'bleeding' now"):
        Study.open(study.folder)


def test_each_answer_is_counted_under_the_words_it_was_asked_with(make_study: Callable[..., Study]) -> None:
    study = make_study(questions=[BLEEDING], ask=ASK)
    tell_all(study, 2, ("", "bleeding"))
    study.config = study.config.with_changes(questions=[{**BLEEDING, "question": "Which is redder?"}])
    tell_all(study, 1, ("", "bleeding"))
    asked = questions_asked(read_wordings(study.store), study.store.answers.told())
    assert {(one.key, one.question): one.answers for one in asked} == {
        ("", "Which is more severe?"): 3, ("bleeding", "Which has more bleeding?"): 2, ("bleeding", "Which is redder?"): 1,
    }  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_answers_go_out_and_come_in_with_their_question(
    make_study: Callable[..., Study], tmp_path: Path, ending: str
) -> None:
    study = make_study(questions=[BLEEDING, VESSELS], ask=ASK)
    tell_all(study, 5)
    assert export_file(study, tmp_path / f"answers.{ending}") == 15
    other = make_study(questions=[BLEEDING, VESSELS])
    assert import_file(other, tmp_path / f"answers.{ending}").added == 15
    assert import_file(other, tmp_path / f"answers.{ending}").known == 15
    for key in ("", "bleeding", "vessels"):
        mine, theirs = study.store.answers.arrays(question=key), other.store.answers.arrays(question=key)
        assert np.array_equal(mine.pairs, theirs.pairs)
        assert np.array_equal(mine.labels, theirs.labels)
    assert (
        other.store.answers.arrays().pair.tolist()
        == other.store.answers.arrays(question="bleeding").pair.tolist()
    )
    alone = make_study()
    with pytest.raises(StudyError, match=r"no question 'bleeding'.*it has main"):
        import_file(alone, tmp_path / f"answers.{ending}")
    assert alone.store.answers.last_seq() == 0


def test_a_file_without_the_column_is_about_the_main_question(
    make_study: Callable[..., Study], tmp_path: Path
) -> None:
    study = make_study(questions=[BLEEDING])
    ids = study.catalog.ids
    (tmp_path / "a.csv").write_text(f"left,right,answer\n{ids[0]},{ids[1]},left\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text(
        f"left,right,answer,question\n{ids[0]},{ids[1]},left,main\n", encoding="utf-8"
    )
    assert import_file(study, tmp_path / "a.csv").added == 1
    assert import_file(study, tmp_path / "b.csv").known == 1, (
        "the same answer, whether its question is named or not"
    )
    assert export_file(study, tmp_path / "c.json", form="choix") == 1
    assert study.store.answers.by_question() == {}


def test_a_whole_study_carries_its_questions(make_study: Callable[..., Study], tmp_path: Path) -> None:
    study = make_study(questions=[BLEEDING, VESSELS], ask=ASK, page={"weight": 2.0})
    tell_all(study, 3)
    export_study(study, tmp_path / "all.zip")
    other = make_study()
    done = import_study(other, tmp_path / "all.zip")
    assert (done.wording, done.answers.added) == ("taken", 9)
    assert other.config.questions == study.config.questions
    assert other.config.page.weight == 2.0
    with Study.open(other.folder) as opened:
        assert opened.store.answers.by_question() == {"bleeding": 3, "vessels": 3}
    assert import_study(other, tmp_path / "all.zip").wording == "same"
    own = make_study(ask=ASK)
    tell_all(own, 1, ("",))
    with pytest.raises(StudyError, match=r"no question 'bleeding'.*nothing was imported"):
        import_study(own, tmp_path / "all.zip")
