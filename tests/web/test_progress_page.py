"""The progress page from the first answers to the last: whatever it says is true at that moment."""

from __future__ import annotations

import re
from typing import Any

from steelyard.study import Study
from tests.web.actors import Window
from tests.web.conftest import MakeStudy, Open, Serve, Teach


def _open(user: Window, study: Study) -> Any:
    """The page, as soon as it knows the newest model."""
    page = user.open("/progress")
    page.wait_for_function(
        "(text) => document.querySelector('#accuracy .sentence').textContent === text",
        arg=study.accuracy().sentence,
    )
    return page


def _said(page: Any) -> tuple[str, str]:
    return page.locator("#accuracy .sentence").inner_text(), page.locator("#stop-text").inner_text()


def _agree(study: Study, page: Any) -> None:
    """Page, status and program say the same; nobody may stop where accuracy is not known."""
    sentence, stop = _said(page)
    found = study.accuracy()
    assert sentence == found.sentence == study.status()["accuracy"]
    assert stop == f"{found.enough} {found.advice}"
    assert ("you can stop" in sentence) == found.stop == study.status()["next"].startswith("you can stop")
    assert not found.stop or (found.low is not None and found.low > 0.5)


def test_every_sentence_is_true_at_5_30_100_and_400_answers(
    make_study: MakeStudy, teach: Teach, serve: Serve, window: Open
) -> None:
    study = make_study(ask={"budget": 480, "start": "random", "enough": "accuracy:least=0.85"})  # 480 answers
    user = window(serve(study))
    teach(study, 5)
    page = _open(user, study)
    _agree(study, page)
    sentence, stop = _said(page)
    assert "100%" not in sentence, "a handful of pairs tell nothing"
    assert "475 more answers are planned" in stop
    assert page.locator("#accuracy svg.chart").count() == 0, "words instead of a line at 100%"
    assert "enough of them" in page.locator("#accuracy .empty").inner_text()
    assert page.locator("#accuracy details").is_hidden()

    teach(study, 25)
    page = _open(user, study)
    _agree(study, page)
    assert "450 more answers are planned" in _said(page)[1]
    assert "after 30 answers" not in _said(page)[1], "they are in"
    teach(study, 70)
    page = _open(user, study)
    _agree(study, page)
    for _ in range(5):
        teach(study, 60)
    page = _open(user, study)
    _agree(study, page)
    sentence, _ = _said(page)
    found = study.accuracy()
    assert found.estimate is not None
    assert re.search(
        rf"About {found.estimate:.0%} of unseen pairs .* from {found.pairs} random pairs", sentence
    )
    chart = page.locator("#accuracy svg.chart")
    assert "asked for: 85" in (chart.text_content() or "")
    assert "forecast" in page.locator("#accuracy .legend").inner_text()
    page.locator("#accuracy summary").click()
    assert "480" in page.locator("#accuracy tbody tr", has_text="forecast").last.inner_text()
    assert study.accuracy().ahead[-1][0] == study.budget == 480, "the fan ends with the plan"
