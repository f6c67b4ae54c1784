"""Configuration is typed, documented, and says what is wrong with it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import config as module
from steelyard.config import AskConfig, ImagesConfig, PageConfig, RankerConfig, StudyConfig, ranker_preset
from steelyard.errors import ConfigError


@pytest.mark.parametrize("section", [ImagesConfig, RankerConfig, AskConfig, PageConfig, StudyConfig])
def test_every_key_is_documented(section: type) -> None:
    text = inspect.getdoc(section) or ""
    sections = {"images", "ranker", "ask", "page"}
    assert not [f.name for f in fields(section) if f"{f.name}:" not in text and f.name not in sections]


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    config = StudyConfig.from_dict(
        {"name": "Colon", "ask": {"raters": 2}, "page": {"grades": ["calm", "angry"], "keys": {"left": "a"}}}
    )
    config.save(tmp_path / "study.toml")
    assert StudyConfig.load(tmp_path / "study.toml") == config
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"], "no half-written file stays behind"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sed": 1}, r"unknown key 'sed' – did you mean 'seed'\?"),
        ({"ask": {"stategy": "epig"}}, r"unknown key 'ask.stategy' – did you mean 'strategy'\?"),
        (
            {"ranker": {"units": "chanel"}},
            r"'ranker.units' is one of channel, element; not 'chanel' – did you mean 'channel'",
        ),
        ({"ranker": {"draws": 2.5}}, "'ranker.draws' is a whole number, not 2.5"),
        ({"ranker": {"dropout": "high"}}, "'ranker.dropout' is a number, not 'high'"),
        ({"ranker": {"augment": 1}}, "'ranker.augment' is true or false, not 1"),
        ({"ranker": {"dropout": 1.0}}, "below 1, not 1.0"),
        ({"ranker": {"screening": 0}}, "above 0 and up to 1"),
        ({"ranker": {"validation_share": 1}}, "below 1"),
        ({"ranker": {"epochs": 0}}, "'ranker.epochs' is 1 or more, not 0"),
        ({"ranker": {"learning_rate": 0}}, "above 0"),
        ({"ranker": {"weight_decay": -1}}, "0 or more"),
        ({"ask": {"start_share": 1.2}}, "between 0 and 1, not 1.2"),
        ({"ask": {"budget": 0}}, "above 0"),
        ({"ask": {"random_share": 0.6, "repeat_share": 0.6}}, "more than 1"),
        ({"ask": {"raters": 0}}, "1 or more, not 0"),
        ({"ask": {"noise": -0.1}}, "0 or more"),
        ({"ask": {"lease_seconds": 0}}, "1 or more"),
        ({"ask": 3}, r"'ask' is a section \(\[ask\]\), not 3"),
        ({"images": {"max_megapixels": 0}}, "above 0"),
        ({"trainer": 0}, "1 or more answers"),
        ({"page": {"keys": {"lefft": "a"}}}, r"'page.keys.lefft' is no action – did you mean 'left'"),
        ({"page": {"grades": "mild"}}, "a list or table of texts"),
    ],
)
def test_bad_values_name_the_key_the_value_and_the_remedy(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_dict(values)


def test_a_missing_or_broken_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="steelyard init"):
        StudyConfig.load(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        StudyConfig.load(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        StudyConfig.load(tmp_path / "study.toml")


def test_changes_keep_the_rest() -> None:
    config = StudyConfig(name="a", seed=4).with_changes(ask={"raters": 3}, seed=5)
    assert (config.name, config.seed, config.ask.raters, config.ask.strategy) == (
        "a",
        5,
        3,
        AskConfig().strategy,
    )
    with pytest.raises(ConfigError, match="unknown key"):
        config.with_changes(color="red")


def test_the_paper_preset_is_the_paper_s() -> None:
    paper = ranker_preset("paper")
    assert (paper.backbone, paper.image_size, paper.dropout, paper.weight_decay) == (
        "densenet169",
        224,
        0.2,
        1e-4,
    )
    assert (paper.batch_size, paper.epochs, paper.patience, paper.draws, paper.ties) == (
        32,
        300,
        20,
        30,
        "half",
    )
    assert ranker_preset("paper", image_size=32).image_size == 32
    with pytest.raises(ConfigError, match=r"unknown preset 'papr' – did you mean 'paper'"):
        ranker_preset("papr")


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.none()),
        max_size=3,
    )
)
def test_any_table_is_either_understood_or_refused(values: dict[str, Any]) -> None:
    try:
        config = StudyConfig.from_dict(values)
    except ConfigError:
        return
    assert StudyConfig.from_dict(config.to_dict()) == config


def test_all_is_what_can_be_imported() -> None:
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("left", [b"", b"\n  \n", b"\0" * 512])
def test_what_a_power_cut_leaves_of_a_file_is_no_configuration(tmp_path: Path, left: bytes) -> None:
    """An empty file is valid TOML and was read as a study with all defaults."""
    (tmp_path / "study.toml").write_bytes(left)
    with pytest.raises(ConfigError, match="restore a backup"):
        StudyConfig.load(tmp_path / "study.toml")


def test_a_configuration_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    StudyConfig(name="one").save(path)
    assert path.stat().st_mode & 0o777 == 0o600  # it may hold the password of a database
    path.chmod(0o640)
    StudyConfig(name="two").save(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]
