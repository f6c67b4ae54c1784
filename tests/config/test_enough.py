"""What is enough, as it is written."""

from __future__ import annotations

import pytest

from steelyard.config import AskConfig, StudyConfig
from steelyard.config.enough import Enough, read_enough
from steelyard.errors import ConfigError


def test_rules_have_defaults() -> None:
    assert (
        read_enough("gain") == read_enough("gain:points=1") == Enough("gain", points=1, answers=0, sure=0.9)
    )
    assert read_enough("accuracy:least=0.85").sure == 0.95
    assert AskConfig().stopping.rule == "gain"
    assert StudyConfig.from_dict({"ask": {"enough": "budget"}}).ask.stopping.rule == "budget"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gian:points=1", "'ask.enough' is one of gain, accuracy, budget, .* – did you mean 'gain'"),
        ("gain:point=2", "takes points, answers, sure; not 'point' – did you mean 'points'"),
        ("accuracy", "needs least, as in 'accuracy:least=0.85'"),
        ("accuracy:least=85", "least is an accuracy between 0.5"),
        ("accuracy:least=high", "least is an accuracy between 0.5"),
        ("gain:sure=true", "sure is a probability between"),
        ("gain:answers=1.5", "answers is a whole number"),
        ("gain:points=0", "points is in percentage points"),
        ("budget:answers=10", "takes no options"),
        ("gain:points", "'points' in 'gain:points' is not an option"),
    ],
)
def test_what_cannot_be_read_is_explained(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AskConfig(enough=text)
