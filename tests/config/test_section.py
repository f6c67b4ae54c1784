"""Whatever is wrong with a section is one sentence that names the key, what was given and what is expected."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from steelyard.config.section import AtLeastOne, Expect, Section, Share, Texts, WholeNumbers
from steelyard.errors import ConfigError


class Scale(Section):
    place: ClassVar[str] = "scale"

    arms: AtLeastOne = 2
    share: Share = 0.5
    load: Annotated[float, Field(gt=0), Expect("above 0")] = 1.0
    name: str = ""
    level: bool = True
    marks: Texts = ()
    rows: WholeNumbers = ()
    table: dict[str, str] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"arm": 1}, "unknown key 'scale.arm' – did you mean 'arms'?"),
        ({"zzzzzz": 1}, "unknown key 'scale.zzzzzz'"),
        ({"arms": 0}, "'scale.arms' is 1 or more, not 0"),
        ({"arms": 2.0}, "'scale.arms' is a whole number, not 2.0"),
        ({"arms": True}, "'scale.arms' is a whole number, not True"),
        ({"share": 1.5}, "'scale.share' is a share between 0 and 1, not 1.5"),
        ({"share": "half"}, "'scale.share' is a number, not 'half'"),
        ({"load": float("inf")}, "'scale.load' is a finite number, not inf"),
        ({"load": False}, "'scale.load' is a number, not False"),
        ({"name": 3}, "'scale.name' is text, not 3"),
        ({"level": 1}, "'scale.level' is true or false, not 1"),
        ({"marks": "one"}, "'scale.marks' is a list of texts, not 'one'"),
        ({"marks": ["one", 2]}, "'scale.marks' is a list of texts, not 2"),
        ({"rows": [1, "2"]}, "'scale.rows' is a list of whole numbers, not '2'"),
    ],
)
def test_the_sentence_is_whole(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Scale(**values)
    assert str(raised.value) == message
    with pytest.raises(ConfigError) as raised:
        Scale.from_dict(values, source="scale.toml")
    assert str(raised.value) == f"scale.toml: {message}"
    with pytest.raises(ConfigError) as raised:
        Scale().with_changes(**values)
    assert str(raised.value) == message


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ConfigError) as raised:
        Scale(arms="x" * 10_000)
    assert len(str(raised.value)) < 200


def test_a_whole_number_is_a_number_and_a_list_becomes_a_tuple() -> None:
    scale = Scale.from_dict({"load": 3, "marks": ["a", "b"]})
    assert (scale.load, type(scale.load), scale.marks) == (3.0, float, ("a", "b"))
    assert scale.to_dict()["marks"] == ["a", "b"]


def test_a_section_is_frozen_equal_by_value_and_crosses_processes() -> None:
    scale = Scale(arms=3)
    with pytest.raises(ValidationError, match="frozen"):
        scale.arms = 4  # type: ignore[misc]
    assert scale.with_changes(arms=2) == Scale()
    assert pickle.loads(pickle.dumps(scale)) == scale


@given(st.text(max_size=20), st.none() | st.booleans() | st.integers() | st.text(max_size=5))
def test_any_other_key_is_refused(key: str, value: Any) -> None:
    if key in Scale.model_fields:
        return
    with pytest.raises(ConfigError, match="unknown key"):
        Scale.from_dict({key: value})
