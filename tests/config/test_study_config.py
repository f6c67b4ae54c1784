"""Configuration is typed, documented, and says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import config as module
from steelyard.config import (
    AskConfig,
    ConvexConfig,
    ImagesConfig,
    NetworkConfig,
    PageConfig,
    PeopleConfig,
    QuestionConfig,
    StudyConfig,
)
from steelyard.config.section import Section
from steelyard.errors import ConfigError


@pytest.mark.parametrize(
    "section", [ImagesConfig, ConvexConfig, NetworkConfig, AskConfig, PageConfig, PeopleConfig, StudyConfig]
)
def test_every_key_is_documented(section: type[Section]) -> None:
    assert not [name for name in section.model_fields if not section.meaning(name)]


def test_every_key_its_default_and_its_meaning_are_on_the_page() -> None:
    """In the words of the comments in study.toml, which are those of the docstrings."""
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    for section in (
        StudyConfig,
        ImagesConfig,
        ConvexConfig,
        NetworkConfig,
        AskConfig,
        PageConfig,
        PeopleConfig,
        QuestionConfig,
    ):
        for name, field in section.model_fields.items():
            if field.is_required():
                assert f"| `{name}` | needed | {section.meaning(name)} |" in page
                continue
            default = field.get_default(call_default_factory=True)
            if name == "kind":
                assert f'### `kind = "{default}"`' in page
            elif not isinstance(default, Section):
                row = f"| `{name}` | `{json.dumps(default)}` | {section.meaning(name)} |"
                assert row in page, f"docs/configuration.md needs this row: {row}"


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
            {"ranker": {"kind": "network", "units": "chanel"}},
            r"'ranker.units' is one of channel, element; not 'chanel' – did you mean 'channel'",
        ),
        ({"ranker": {"kind": "network", "draws": 2.5}}, "'ranker.draws' is a whole number, not 2.5"),
        ({"ranker": {"kind": "network", "dropout": "high"}}, "'ranker.dropout' is a number, not 'high'"),
        ({"ranker": {"kind": "network", "augment": 1}}, "'ranker.augment' is true or false, not 1"),
        ({"ranker": {"kind": "network", "dropout": 1.0}}, "below 1, not 1.0"),
        ({"ranker": {"kind": "network", "screening": 0}}, "above 0 and up to 1"),
        ({"ranker": {"kind": "network", "validation_share": 1}}, "below 1"),
        ({"ranker": {"kind": "network", "epochs": 0}}, "'ranker.epochs' is 1 or more, not 0"),
        ({"ranker": {"kind": "network", "learning_rate": 0}}, "above 0"),
        ({"ranker": {"kind": "network", "weight_decay": -1}}, "0 or more"),
        ({"ask": {"start_share": 1.2}}, "between 0 and 1, not 1.2"),
        ({"ask": {"budget": 0}}, "above 0"),
        ({"ask": {"random_share": 0.6, "repeat_share": 0.6}}, "more than 1"),
        ({"ask": {"raters": 0}}, "1 or more, not 0"),
        ({"ask": {"noise": -0.1}}, "0 or more"),
        ({"ask": {"lease_seconds": 0}}, "1 or more"),
        ({"ask": 3}, r"'ask' is a section \(\[ask\]\), not 3"),
        ({"images": {"max_megapixels": 0}}, "above 0"),
        ({"refit_after": 0}, "1 or more answers"),
        ({"page": {"keys": {"lefft": "a"}}}, r"'page.keys.lefft' is not an action – did you mean 'left'"),
        ({"page": {"grades": "mild"}}, "a list of texts"),
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
