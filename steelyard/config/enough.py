"""`ask.enough`: what the study's lead calls enough, as `name:key=value`.

gain:points=1                stop when everything still planned would bring less than a point, 90% sure
gain:points=1:answers=100    stop when the next 100 answers would bring less than a point
accuracy:least=0.85          stop when it is 95% sure that at least 85% of unseen pairs are ordered right
budget                       stop when the planned answers are in
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from steelyard.errors import ConfigError, did_you_mean
from steelyard.options import parse_options

__all__ = ["RULES", "Enough", "read_enough"]

RULES: dict[str, dict[str, Any]] = {
    "gain": {"points": 1, "answers": 0, "sure": 0.9},
    "accuracy": {"least": None, "sure": 0.95},
    "budget": {},
}
"""Rules and their options with defaults; None has to be given."""

_EXAMPLES = "'gain:points=1', 'accuracy:least=0.85' or 'budget'"


@dataclass(frozen=True)
class Enough:
    """What is enough.

    Attributes:
        rule: `gain`, `accuracy` or `budget`.
        points: percentage points that are no longer worth the work (`gain`).
        answers: over so many further answers; 0 is the rest of the plan (`gain`).
        least: accuracy that is asked for (`accuracy`).
        sure: how sure it has to be (`gain`, `accuracy`).
    """

    rule: Literal["gain", "accuracy", "budget"]
    points: float = 1.0
    answers: int = 0
    least: float = 1.0
    sure: float = 0.9


def read_enough(text: str) -> Enough:
    """A rule from its text.

    >>> read_enough("accuracy:least=0.85")
    Enough(rule='accuracy', points=1.0, answers=0, least=0.85, sure=0.95)

    Raises:
        ConfigError: an unknown rule or option, or a value out of range; says what is expected.
    """
    try:
        name, given = parse_options(text)
    except ConfigError as error:
        raise ConfigError(f"cannot be read: {error}") from None
    if name not in RULES:
        raise ConfigError(
            f"is one of {', '.join(RULES)}, as in {_EXAMPLES}; not {text!r}{did_you_mean(name, RULES)}"
        )
    known = RULES[name]
    for key in given:
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise ConfigError(f"with the rule {name!r} {takes}; not {key!r}{did_you_mean(key, known)}")
    values = {**known, **given}
    if missing := [key for key, value in values.items() if value is None]:
        raise ConfigError(
            f"with the rule {name!r} needs {missing[0]}, as in 'accuracy:least=0.85'; {text!r} has none"
        )
    for key, value in values.items():
        low, high, expected = _RANGES[key]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not low <= value <= high or (key == "answers" and value != int(value)):
            raise ConfigError(f"has {key} = {value!r} in {text!r}; {key} is {expected}")
    return Enough(rule=name, **values)  # type: ignore[arg-type]


_RANGES: dict[str, tuple[float, float, str]] = {
    "points": (0.1, 50, "in percentage points, between 0.1 and 50"),
    "answers": (0, 10**9, "a whole number of further answers, or 0 for the rest of the plan"),
    "least": (0.5, 0.99, "an accuracy between 0.5 (a coin) and 0.99"),
    "sure": (0.5, 0.999, "a probability between 0.5 and 0.999"),
}
