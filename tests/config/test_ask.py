"""Strategies are checked when they are read: ours, and those of plug-ins that are installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from steelyard.acquire import get_strategy, strategies
from steelyard.config import AskConfig, StudyConfig, ask_preset
from steelyard.config.strategies import ALIASES, BUILT_IN, GROUP, IN_WORDS
from steelyard.errors import AcquireError, ConfigError, StudyError
from steelyard.rescue import backup_study, check_study, restore_study
from steelyard.study import Study

STUDY = Path(__file__).parents[1] / "files" / "study-0.1"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that brings the strategy `neighbours`, installed as pip would."""
    place = tmp_path / "site" / "neighbours-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: neighbours\nVersion: 1.0\n", encoding="utf-8"
    )
    (place / "entry_points.txt").write_text(
        f"[{GROUP}]\nneighbours = neighbours:neighbours\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(place.parent)


@pytest.mark.parametrize("name", [*BUILT_IN, *ALIASES])
def test_our_names_are_strategies(name: str) -> None:
    assert callable(get_strategy(name))
    assert AskConfig(strategy=name).strategy == name
    assert name in (*strategies(), *ALIASES)


def test_a_mistyped_strategy_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'ask.strategy': unknown strategy 'epgi' – did you mean 'epig'\?"):
        AskConfig(strategy="epgi")
    with pytest.raises(
        ConfigError,
        match=r"'ask.start' is one of spread, clusters, random.*not 'sprad' – did you mean 'spread'",
    ):
        AskConfig(start="sprad")
    with pytest.raises(ConfigError, match=r"'ask.start' is one of spread, clusters, random"):
        AskConfig(start="epig")  # it needs a model


@pytest.mark.usefixtures("plugin")
def test_a_plug_in_that_is_installed_counts() -> None:
    assert AskConfig(strategy="neighbours", start="neighbours").start == "neighbours"
    with pytest.raises(ConfigError, match="did you mean 'neighbours'"):
        AskConfig(strategy="neighbors")


def test_a_study_whose_plug_in_is_missing_can_be_looked_after(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STUDY, tmp_path / "study"))
    file = folder / "study.toml"
    file.write_text(file.read_text(encoding="utf-8").replace('"epig"', '"neighbours"'), encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"unknown strategy 'neighbours'.*a plug-in has to be installed here"
    ):
        StudyConfig.load(file)
    loose = StudyConfig.load(file, any_strategy=True)
    assert loose.ask.strategy == "neighbours"
    assert loose.with_changes(store="").ask.strategy == "neighbours"
    with Study.open(folder) as study:  # everything but asking
        assert len(study.score()) > 0
        with pytest.raises(AcquireError, match="unknown strategy 'neighbours'"):
            study.propose(1)
    problems = [finding for finding in check_study(folder) if finding.level == "problem"]
    assert [finding.part for finding in problems] == ["configuration"]
    made = backup_study(folder, tmp_path / "b.zip")
    restore_study(made.path, tmp_path / "again")
    assert 'strategy = "neighbours"' in (tmp_path / "again" / "study.toml").read_text(encoding="utf-8")
    with pytest.raises(StudyError, match="exists"):
        backup_study(folder, tmp_path / "b.zip")


def test_presets_ask_as_the_paper_did() -> None:
    assert (ask_preset("paper").strategy, ask_preset("paper").start_share) == ("variance", 0.2)
    assert ask_preset("quick") == AskConfig()


def test_every_strategy_of_ours_is_said_in_words() -> None:
    assert set(IN_WORDS) == set(BUILT_IN)


@pytest.mark.parametrize("reading", ["two_plus_one", "two_plus_annotator"])
def test_two_plus_one_asks_two_people(reading: str) -> None:
    assert AskConfig(reading=reading, raters=2).planned(100) == 100
    for raters in (1, 3):
        with pytest.raises(
            ConfigError, match=rf"'ask.reading' is '{reading}'.*'ask.raters' is {raters}; set raters = 2"
        ):
            StudyConfig.from_dict({"ask": {"reading": reading, "raters": raters}})
    with pytest.raises(ConfigError, match=r"ask\.reading"):
        AskConfig(reading="three")
