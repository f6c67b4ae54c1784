"""`[page]`: what annotators see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from steelyard.config.section import Expect, Section, Texts, ZeroOrMore
from steelyard.config.words import Words, read_words
from steelyard.errors import did_you_mean

__all__ = ["ACTIONS", "MOST_REASONS", "REASONS", "PageConfig", "check_reasons"]

ACTIONS = ("left", "right", "equal", "cannot", "undo")
REASONS = ("blurred", "obscured", "does not belong", "duplicate", "other")
MOST_REASONS = 9  # each has a digit for its key
_LONGEST_REASON = 40


class PageConfig(Section):
    """What annotators see.

    Attributes:
        question: the main question, which decides what is asked next; [[questions]] are asked besides.
        more: what is said of the image that is chosen, after “left …” (`is more severe`, `has more bleeding`); empty takes it
            from the question.
        scale: what the scores measure, as in “a … score” (`severity`); empty takes it from `more`.
        weight: what the main scale counts in the composite score, where there are further questions; below 0 turns it round.
        reasons: why a pair cannot be judged, in the order of their keys 1, 2, 3 …; 1 to 9 short ones.
        grades: the grades in order, “name: definition”, ten at most; empty takes the catalog's grade names.
        keys: keyboard keys by action (`left`, `right`, `equal`, `cannot`, `undo`); missing ones keep their default.
        break_minutes: minutes of work after which a break is suggested; 0 never.
        break_answers: answers without a pause after which a break is suggested; 0 never.
    """

    place: ClassVar[str] = "page"

    question: str = "Which is more severe?"
    more: str = ""
    scale: str = ""
    weight: float = 1.0
    reasons: Texts = REASONS
    grades: Texts = ()
    keys: Annotated[dict[str, str], Expect("a table of keys by action")] = Field(default_factory=dict)
    break_minutes: ZeroOrMore = 25
    break_answers: ZeroOrMore = 0

    @field_validator("keys")
    @classmethod
    def _are_for_actions(cls, keys: dict[str, str]) -> dict[str, str]:
        for action in sorted(set(keys) - set(ACTIONS)):
            raise ValueError(
                f"'page.keys.{action}' is not an action{did_you_mean(action, ACTIONS)}; actions are {', '.join(ACTIONS)}"
            )
        return keys

    @field_validator("reasons")
    @classmethod
    def _fit_the_keys(cls, reasons: tuple[str, ...]) -> tuple[str, ...]:
        if why := check_reasons(reasons):
            raise ValueError(f"'page.reasons': {why}")
        return tuple(reason.strip() for reason in reasons)

    @property
    def words(self) -> Words:
        """How the study speaks about what it compares."""
        return read_words(self.question, self.more, self.scale)


def check_reasons(reasons: Sequence[str]) -> str:
    """What is wrong with a list of reasons, as a sentence with the remedy; empty where nothing is."""
    if not 1 <= len(reasons) <= MOST_REASONS:
        return (
            f"{len(reasons)} reasons are too {'many' if reasons else 'few'}: each has a digit for its key, so there are 1 to "
            f"{MOST_REASONS}; {'join some of them' if reasons else 'name at least one, such as “other”'}"
        )
    seen: set[str] = set()
    for reason in reasons:
        name = reason.strip()
        if not name or len(name) > _LONGEST_REASON or not name.isprintable():
            return (
                f"a reason has 1 to {_LONGEST_REASON} characters on one line, not {name[:80]!r}; shorten it"
            )
        if name.casefold() in seen:
            return f"the reason {name!r} is there twice; leave one out"
        seen.add(name.casefold())
    return ""
