"""Further questions in `study.toml`: named, worded, kept with their comments, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.config import StudyConfig
from steelyard.errors import ConfigError

BLEEDING = {"key": "bleeding", "question": "Which has more bleeding?"}
VESSELS = {"key": "vessels", "question": "Which shows the vessels less clearly?", "weight": 0.5}


def test_questions_are_written_and_read_with_their_comments(tmp_path: Path) -> None:
    config = StudyConfig().with_changes(questions=[BLEEDING, VESSELS])
    file = tmp_path / "study.toml"
    config.save(file)
    assert StudyConfig.load(file) == config
    text = file.read_text(encoding="utf-8")
    assert text.count("[[questions]]\n") == 2
    assert text.count("#: What is asked (text; needed).") == 1
    file.write_text(
        text.replace('key = "vessels"', '# as Dr. K wants it\nkey = "vessels"  # since May'), encoding="utf-8"
    )
    StudyConfig.load(file).save(file)
    kept = file.read_text(encoding="utf-8")
    assert '# as Dr. K wants it\nkey = "vessels"  # since May\n' in kept
    StudyConfig.load(file).with_changes(questions=[VESSELS]).save(file)
    assert StudyConfig.load(file).questions == StudyConfig().with_changes(questions=[VESSELS]).questions


def test_without_further_questions_the_file_is_as_it_was(tmp_path: Path) -> None:
    StudyConfig().save(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    assert "\nweight =" not in text
    assert "\n[[questions]]" not in text
    assert "questions =" not in text
    assert "questions" not in StudyConfig().to_dict()


def test_each_question_has_words_of_its_own() -> None:
    [bleeding, vessels] = (
        StudyConfig().with_changes(questions=[BLEEDING, {**VESSELS, "scale": "veiling"}]).questions
    )
    assert bleeding.words.order == "from least to most bleeding"
    assert vessels.words.score == "veiling score"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"questions": [{"key": "Two words", "question": "?"}]}, "'questions.key' has 1 to 30 small letters.*'Two words'"),
        ({"questions": [{"key": "main", "question": "?"}]}, "'main' is the question of"),
        ({"questions": [{"key": "a"}]}, "'questions.question' is missing"),
        ({"questions": [{"key": "a", "question": "  "}]}, "not nothing; word it"),
        ({"questions": [{**BLEEDING, "wieght": 1.0}]}, r"unknown key 'questions.wieght' – did you mean 'weight'\?"),
        ({"questions": [{**BLEEDING, "weight": "much"}]}, "'questions.weight' is a number, not 'much'"),
        ({"questions": [BLEEDING, {**VESSELS, "key": "bleeding"}]}, "is there twice; give each question a key"),
        ({"questions": [BLEEDING, {"key": "b", "question": "which has more  bleeding?"}]}, "is asked twice"),
        ({"questions": [{"key": "a", "question": "Which is more severe?"}]}, "is asked twice"),
        ({"questions": [{"key": f"q{k}", "question": f"{k}?"} for k in range(9)]}, "9 further questions are too many"),
        ({"questions": "bleeding"}, "'questions' is a list of tables"),
        ({"questions": [BLEEDING], "ranker": {"kind": "network"}}, "learnt by the convex ranker.*or make a study for each"),
        ({"page": {"weight": 2.0}}, "'page.weight' has no effect without further questions"),
        ({"page": {"weight": 0.0}, "questions": [{**BLEEDING, "weight": 0.0}]}, "no composite score is left"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_dict(values)
