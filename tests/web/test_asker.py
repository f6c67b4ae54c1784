"""What somebody without a pair is told, whatever the asker's thread does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from steelyard.study import Study
from steelyard.web.asker import Asker
from tests.waiting import until

QUESTIONS = ("pairs.open_count", "answers.count", "pairs.free_count")


def test_nobody_is_here_and_nothing_is_up(study: Study) -> None:
    assert Asker(study).state("kt", handed=0, answered=0) == "choosing"
    assert Asker(study).state("kt", handed=3, answered=0) == "open"
    assert Asker(study).state("kt", handed=0, answered=study.budget) == "done"


def test_pairs_in_other_hands_are_said_to_be_elsewhere(study: Study) -> None:
    asker = Asker(study)
    asker.exhausted = True
    study.ask(4, annotator="mo")
    assert asker.state("kt", handed=0, answered=0) == "elsewhere"


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("when", [0, 1])
def test_pairs_that_come_up_between_two_questions_are_not_elsewhere(
    study: Study, monkeypatch: pytest.MonkeyPatch, question: str, when: int
) -> None:
    asker = Asker(study)
    asker.want("kt")
    facet, name = question.split(".")
    plain: Callable[..., Any] = getattr(getattr(study.store, facet), name)
    asked = 0

    def meanwhile(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == when + 1:
            study.propose(30, strategy="random")  # as the thread does
        return plain(*args, **more)

    monkeypatch.setattr(getattr(study.store, facet), name, meanwhile)
    assert asker.state("kt", handed=0, answered=0) == "choosing"


def test_pairs_are_up_before_anybody_asks_for_one(study: Study) -> None:
    """`serve` chooses as soon as it starts: the first person does not look at an empty page meanwhile."""
    asker = Asker(study)
    asker.start(at_once=True)
    try:
        until(lambda: study.store.pairs.open_count() > 0, "pairs are up")
    finally:
        asker.stop()
