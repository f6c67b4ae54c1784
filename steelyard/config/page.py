"""`[page]`: what annotators see."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from steelyard.config.section import Expect, Section, Texts, ZeroOrMore
from steelyard.errors import did_you_mean

__all__ = ["ACTIONS", "PageConfig"]

ACTIONS = ("left", "right", "equal", "cannot", "undo")


class PageConfig(Section):
    """What annotators see.

    Attributes:
        question: the one question.
        grades: definition of each grade, in order, for the grading page; empty takes the catalog's grade names.
        keys: keyboard keys by action (`left`, `right`, `equal`, `cannot`, `undo`); missing ones keep their default.
        break_minutes: minutes of work after which a break is suggested; 0 never.
    """

    place: ClassVar[str] = "page"

    question: str = "Which is more severe?"
    grades: Texts = ()
    keys: Annotated[dict[str, str], Expect("a table of keys by action")] = Field(default_factory=dict)
    break_minutes: ZeroOrMore = 25

    @field_validator("keys")
    @classmethod
    def _are_for_actions(cls, keys: dict[str, str]) -> dict[str, str]:
        for action in sorted(set(keys) - set(ACTIONS)):
            raise ValueError(
                f"'page.keys.{action}' is no action{did_you_mean(action, ACTIONS)}; actions are {', '.join(ACTIONS)}"
            )
        return keys
