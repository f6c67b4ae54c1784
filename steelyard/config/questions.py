"""`[[questions]]`: what is asked about a pair besides the main question of `[page]`, each on a scale of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import field_validator

from steelyard.config.section import Section
from steelyard.config.words import Words, read_words

__all__ = [
    "COMPOSITE",
    "KEY_IN_WORDS",
    "MAIN",
    "MOST_QUESTIONS",
    "QUESTION_KEY",
    "QuestionConfig",
    "check_questions",
]

QUESTION_KEY = re.compile(r"[a-z][a-z0-9_]{0,29}")
KEY_IN_WORDS = "1 to 30 small letters, digits and _, a letter first"
MAIN = "main"
"""How the main question is called where a name is needed; no further question has this key."""

COMPOSITE = "composite"
"""How the composite of all scales is called among them; no question has this key either."""

MOST_QUESTIONS = 8  # further ones: whoever is asked more about one pair looks at the clock


class QuestionConfig(Section):
    """A further question about every pair, with a scale of its own.

    Attributes:
        key: its name in tables and files, 1 to 30 small letters, digits and _; stays as it is once there are answers.
        question: what is asked.
        more: what is said of the image that is chosen, as in [page]; empty takes it from the question.
        scale: what its scores measure, as in [page]; empty takes it from `more`.
        weight: what its scale counts in the composite score; 0 leaves it out, below 0 turns it round.
    """

    place: ClassVar[str] = "questions"

    key: str
    question: str
    more: str = ""
    scale: str = ""
    weight: float = 1.0

    @field_validator("key")
    @classmethod
    def _is_a_name(cls, key: str) -> str:
        of = {MAIN: "the question of [page]", COMPOSITE: "the composite of all scales"}
        if not QUESTION_KEY.fullmatch(key) or key in of:
            taken = f"; {key!r} is {of[key]}" if key in of else ""
            raise ValueError(f"'questions.key' has {KEY_IN_WORDS}, not {key[:80]!r}{taken}")
        return key

    @field_validator("question")
    @classmethod
    def _is_asked(cls, question: str) -> str:
        if not question.strip():
            raise ValueError(
                "'questions.question' is what people are asked, not nothing; word it, or leave the table out"
            )
        return question

    @property
    def words(self) -> Words:
        """How the study speaks about this scale."""
        return read_words(self.question, self.more, self.scale)


def check_questions(main: str, further: Sequence[QuestionConfig]) -> str:
    """What is wrong with the questions of a study, as a sentence with the remedy; empty where nothing is."""
    if len(further) > MOST_QUESTIONS:
        return (
            f"{len(further)} further questions are too many: each pair is asked about all of them, so there are "
            f"{MOST_QUESTIONS} at most; leave some out, or make another study for them"
        )
    seen, said = set[str](), {_folded(main)}
    for one in further:
        if one.key in seen:
            return f"'questions.key' {one.key!r} is there twice; give each question a key of its own"
        if _folded(one.question) in said:
            return f"the question {one.question!r} is asked twice; word the one with the key {one.key!r} differently"
        seen.add(one.key)
        said.add(_folded(one.question))
    return ""


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
