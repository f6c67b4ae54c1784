"""The questions of a study: by key, and never with another meaning than the answers that were given to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steelyard.config import StudyConfig
from steelyard.config.questions import MAIN
from steelyard.errors import StudyError, did_you_mean
from steelyard.pairs import Answer, Pair
from steelyard.store.records import NewComparison
from steelyard.store.store import Store
from steelyard.study.wording import read_wordings

__all__ = ["check_asked", "comparison_of", "counted", "question_key", "questions_of"]


def questions_of(config: StudyConfig) -> dict[str, str]:
    """What is asked, by key in the order of asking; the main question has the empty key and is the first."""
    return {"": config.page.question, **{one.key: one.question for one in config.questions}}


def question_key(config: StudyConfig, given: str) -> str:
    """The key of a question that somebody named; `main` and nothing are the main one, whose key is empty.

    Raises:
        StudyError: the study does not ask it.
    """
    keys = [one.key for one in config.questions]
    if given in ("", MAIN):
        return ""
    if given not in keys:
        raise StudyError(
            f"this study has no question {given[:80]!r}{did_you_mean(given, keys)}; it has {', '.join((MAIN, *keys))}"
        )
    return given


def comparison_of(
    pair: Pair, answer: Answer | str, annotator: str, *told: Any, question: str
) -> NewComparison:
    """What somebody said about a pair, as the store takes it; `told` is the rest of `NewComparison`, in its order.

    Raises:
        StudyError: the pair is of no store, or the answer is unknown.
    """
    if pair.id is None:
        raise StudyError("this pair was not handed out by ask(); ask for pairs, then tell")
    try:
        said = Answer(answer)
    except ValueError:
        raise StudyError(
            f"an answer is one of {', '.join(a.value for a in Answer)}; not {answer!r}"
        ) from None
    return replace(NewComparison(pair.id, annotator, said, pair.left, pair.right, *told), question=question)


def check_asked(store: Store, config: StudyConfig, source: str) -> None:
    """Refuse questions that somebody changed in `study.toml` so that answers would be lost or mean something else.

    A question may be worded anew, which the audit log notes. One that has answers may not be left out, and its words may not
    stand under another key.

    Raises:
        StudyError: says what to put back.
    """
    answers = store.answers.by_question()
    now = questions_of(config)
    if not answers and len(now) == 1:
        return  # nothing further was asked or is
    wordings = read_wordings(store)
    was = {"": wordings[-1].question, **wordings[-1].further} if wordings else {}
    for key, number in answers.items():
        if key not in now:
            said = next((one.further[key] for one in reversed(wordings) if key in one.further), "")
            raise StudyError(
                f"{source}: the question {key!r} is gone, and {_number(number)} to it would be of no question; put it back: "
                f"[[questions]] with key = {json.dumps(key)} and question = {json.dumps(said, ensure_ascii=False)}. "
                f"weight = 0 leaves its scale out of the composite score"
            )
    counts = {"": store.answers.count(), **answers}
    for key, text in was.items():
        moved = [other for other, words in now.items() if other != key and _same(words, text)]
        if moved and counts.get(key) and not _same(now.get(key, ""), text):
            raise StudyError(
                f"{source}: {text!r} was asked under {key or MAIN!r} and stands under {moved[0] or MAIN!r} now, so that "
                f"{_number(counts[key])} would be to another question; put it back, and give a new question a key of its own"
            )


def _number(answers: int) -> str:
    return f"{answers:,} answer{'s' * (answers != 1)}"


def _same(words: str, others: str) -> bool:
    return " ".join(words.split()).casefold() == " ".join(others.split()).casefold()


def counted(config: StudyConfig, store: Store) -> Mapping[str, int]:
    """How many answers to each question count, by key; the main one's is empty."""
    answers = store.answers.by_question()
    return {"": store.answers.count(), **{one.key: answers.get(one.key, 0) for one in config.questions}}
