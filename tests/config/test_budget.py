"""`ask.budget`: a share or a number of answers, and never one taken for the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.config import AskConfig, StudyConfig
from steelyard.config.budget import budget_in_words
from steelyard.config.study_config import tomllib
from steelyard.errors import ConfigError
from steelyard.loop.policy import Policy

FILES = Path(__file__).parents[1] / "files"


@pytest.mark.parametrize(
    ("budget", "raters", "images", "answers"),
    [
        (0.5, 1, 120, 60),
        (0.5, 2, 120, 120),
        (0.5, 2, 200, 200),
        (1, 1, 120, 120),
        (1.0, 1, 120, 120),
        (2, 1, 120, 2),
        (120, 1, 120, 120),
        (120, 2, 120, 120),
        (120, 1, 200, 120),
        ("300%", 1, 120, 360),
        ("300 %", 2, 120, 720),
        ("50%", 1, 120, 60),
        (0.001, 1, 120, 1),
    ],
)
def test_a_share_grows_with_images_and_raters_and_a_number_does_not(
    budget: Any, raters: int, images: int, answers: int
) -> None:
    ask = AskConfig(budget=budget, raters=raters)
    assert Policy(ask, images).budget == answers
    assert Policy(AskConfig.from_dict(ask.to_dict()), images).budget == answers, "as it was saved"


@pytest.mark.parametrize("budget", [1.5, 3.0, 120.0, 1.0000001])
def test_what_could_be_either_is_refused_with_both(budget: float) -> None:
    with pytest.raises(
        ConfigError, match=r"could be either: for answers write .*, for a share of the images"
    ) as refused:
        AskConfig(budget=budget)
    _, _, both = str(refused.value).partition("for answers write ")
    answers, share = both.split(", for a share of the images ")
    assert Policy(AskConfig(budget=int(answers)), 100).budget == int(answers)
    assert Policy(AskConfig(budget=share.strip('"')), 100).budget == round(budget * 100)


@pytest.mark.parametrize(
    "budget", [0, -1, -0.5, "0%", "half", "-5%", "%", "", True, None, float("nan"), float("inf"), [5], 10**10]
)
def test_what_is_neither_is_refused(budget: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"'ask.budget' is a share of the images up to 1, a whole number of answers"
    ):
        AskConfig(budget=budget)


def test_a_file_of_0_1_plans_what_it_planned(tmp_path: Path) -> None:
    old = FILES / "study-0.1" / "study.toml"
    assert tomllib.loads(old.read_text(encoding="utf-8"))["ask"]["budget"] == 3.0
    config = StudyConfig.load(old)
    assert Policy(config.ask, 120).budget == 360
    config.save(tmp_path / "study.toml")
    assert StudyConfig.load(tmp_path / "study.toml") == config


def test_a_number_that_somebody_wrote_into_a_file_of_0_1_is_answers(tmp_path: Path) -> None:
    """120 used to become 14,400 answers."""
    text = (FILES / "configs-0.1" / "quick.toml").read_text(encoding="utf-8")
    (tmp_path / "study.toml").write_text(text.replace("budget = 0.5", "budget = 120"), encoding="utf-8")
    assert Policy(StudyConfig.load(tmp_path / "study.toml").ask, 120).budget == 120


def test_status_says_how_it_is_meant() -> None:
    assert budget_in_words(0.5, images=1200, raters=1) == "50% of 1,200 images"
    assert budget_in_words("300%", images=120, raters=2) == "300% of 120 images, from 2 raters each"
    assert budget_in_words(120, images=120, raters=2) == "answers, whoever gives them"
