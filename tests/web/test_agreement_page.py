"""The agreement page: everybody's figures for leads, one's own line for annotators, and nothing of anybody else's."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison
from steelyard.study import Study
from tests.web.actors import Enter, MakeStudy, Open, Serve, Teach
from tests.web.looking import serious

ADDRESS, IMAGES = "/api/v1/agreement", "/api/v1/agreement/images"


@pytest.fixture
def study(make_study: MakeStudy) -> Study:
    """Pairs are asked of two people, and some again."""
    return make_study(
        ask={"raters": 2, "repeat_share": 0.1, "start": "random", "budget": "300%", "random_share": 0.3}
    )


def fill(study: Study, teach: Teach) -> None:
    """Two people answer the same pairs, and each their own; two models."""
    teach(study, 40, annotator="kt")
    teach(study, 40, annotator="mo")


def contradict(study: Study, annotator: str) -> None:
    """Somebody answers ten pairs that others answered, each the other way round."""
    log = [one for one in study.store.answers.log() if one.annotator != annotator and one.effective][:10]
    for one in log:
        other = Answer.RIGHT if one.answer is Answer.LEFT else Answer.LEFT
        now = time.time()
        study.store.answers.add(
            NewComparison(one.pair, annotator, other, one.left, one.right, shown_at=now - 9, answered_at=now)
        )


def test_leads_see_everybody(study: Study, serve: Serve, enter: Enter, teach: Teach) -> None:
    lea = enter(serve(study, {"lea": "lead"}), "lea", timeout=60)
    fill(study, teach)
    found = lea.get(ADDRESS).json()
    assert found["answers"] == 80
    assert {person["annotator"] for person in found["people"]} == {"kt", "mo"}
    assert all(person["judge"]["worth"] > 0 for person in found["people"])
    assert "answered by several" in found["sentence"]
    assert [(two["first"], two["second"]) for two in found["between"]] == [("kt", "mo")]
    assert {figure["key"] for figure in found["figures"]} >= {"agreement", "alpha_ordinal", "fleiss", "repeats", "triads", "side", "seconds", "infit", "separation"}  # fmt: skip
    assert all(figure["means"] for figure in found["figures"])
    assert found == lea.get(ADDRESS).json(), "kept as long as nothing changes"
    assert lea.get(IMAGES).json()["sentence"]
    assert lea.get(IMAGES, params={"limit": 0}).status_code == 422
    contradict(study, "zoe")
    assert {person["annotator"] for person in lea.get(ADDRESS).json()["people"]} == {"kt", "mo", "zoe"}


def test_an_annotator_gets_their_own_line_and_nothing_that_others_or_the_model_move(
    study: Study, serve: Serve, enter: Enter, teach: Teach
) -> None:
    """The attack: answer, look, and infer from what has moved what somebody else, or the model, says about a pair."""
    server = serve(study, {"lea": "lead", "kt": "annotator", "mo": "annotator", "zoe": "annotator"})
    fill(study, teach)
    kt = enter(server, "kt", timeout=60)
    before = kt.get(ADDRESS)
    found = before.json()
    assert [person["annotator"] for person in found["people"]] == ["kt"]
    assert (found["figures"], found["between"]) == ([], [])
    own = found["people"][0]
    assert own["answers"] == 40
    for hidden in ("others_alike", "in_line", "in_line_expected", "infit", "infit_others", "outfit", "quick_gap", "quick_low", "quick_high"):  # fmt: skip
        assert own[hidden] is None, hidden
    assert own["others"] == 0
    # Whatever others do, and however often the model learns, not a byte of the reply moves.
    contradict(study, "zoe")
    assert kt.get(ADDRESS).content == before.content
    teach(study, 30, annotator="mo")
    assert kt.get(ADDRESS).content == before.content
    lea = enter(server, "lea", timeout=60).get(ADDRESS).json()
    assert {person["annotator"] for person in lea["people"]} == {"kt", "mo", "zoe"}
    assert kt.get(ADDRESS).content == before.content, "what was kept for a lead is not handed on"
    for reply in (kt.get(ADDRESS), kt.get("/agreement"), kt.get(IMAGES)):
        assert "zoe" not in reply.text
        assert '"mo"' not in reply.text
        assert ">mo<" not in reply.text
    assert kt.get(IMAGES).status_code == 403
    for query in ("?annotator=mo", "?role=lead", "?name=zoe", "?limit=5"):
        assert kt.get(ADDRESS + query).content == before.content
    assert enter(server, "zoe").get(ADDRESS).json()["people"][0]["annotator"] == "zoe"
    nobody = enter(server).get(ADDRESS)
    assert nobody.status_code == 401


def test_somebody_without_answers_and_an_empty_study_are_told_what_to_do(
    make_study: MakeStudy, teach: Teach, serve: Serve, enter: Enter
) -> None:
    study = make_study()
    server = serve(study, {"lea": "lead", "kt": "annotator"})
    lea, kt = enter(server, "lea", timeout=60), enter(server, "kt", timeout=60)
    for client in (lea, kt):
        found = client.get(ADDRESS).json()
        assert (found["answers"], found["people"]) == (0, [])
        assert "Open Compare" in found["sentence"]
    assert "Open Compare" in lea.get(IMAGES).json()["sentence"]
    teach(study, 20, annotator="mo")
    found = lea.get(ADDRESS).json()
    assert "raters = 2" in found["sentence"]
    assert kt.get(ADDRESS).json()["people"] == []
    assert json.dumps(kt.get(ADDRESS).json()).count("mo") == 0


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1280, 900), (820, 1180), (390, 844)])
def test_the_page_at_every_size(
    study: Study, serve: Serve, window: Open, teach: Teach, size: tuple[int, int]
) -> None:
    fill(study, teach)
    contradict(study, "<b>zoe</b>" if size[0] < 1000 else "zoe")  # the wide one is for the docs
    user = window(serve(study), size=size, has_touch=size[0] < 1000)
    page = _open(user)
    assert page.locator(".figures li").count() >= 10
    assert page.locator("#people > .table-box tbody tr").count() == 3
    assert page.locator("#people tbody b").count() == 0, "names are text"
    assert "several" in page.locator("#state").inner_text()
    assert page.locator("#notice").is_hidden()
    page.locator("#between summary").click()
    assert page.locator("#between tbody tr").count() >= 2
    assert page.locator("#differing .sentence").inner_text()
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    assert serious(page) == []
    user.shot(f"agreement-{ {1280: 'desktop', 820: 'tablet', 390: 'phone'}[size[0]] }")


@pytest.mark.browser
def test_an_annotators_page_and_the_empty_one(
    study: Study, make_study: MakeStudy, serve: Serve, window: Open, teach: Teach
) -> None:
    server = serve(study, {"kt": "annotator"})
    fill(study, teach)
    user = window(server)
    user.context.add_cookies(_cookies(server, "kt"))
    page = _open(user)
    assert page.locator("#people > .table-box tbody tr").count() == 1
    assert "infit" not in page.locator("#people").inner_text()
    assert page.locator("#figures").is_hidden()
    assert page.locator("#differing").count() == 0
    assert "lead only" in page.locator("#notice").inner_text()
    assert serious(page) == []
    page = _open(window(serve(make_study("empty"))))
    assert "Open Compare" in page.locator("#notice").inner_text()
    assert page.locator("#people").is_hidden()
    assert serious(page) == []


def _open(user: Any) -> Any:
    page = user.open("/agreement")
    page.wait_for_function("() => document.body.dataset.ready === 'true'")
    return page


def _cookies(server: Any, name: str) -> list[dict[str, str]]:
    import httpx

    reply = httpx.post(f"{server.url}/api/v1/session", json={"link": server.secrets[name]})
    return [{"name": key, "value": value, "url": server.url} for key, value in reply.cookies.items()]


def test_leads_hear_who_guesses_about_a_further_question(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study = make_study(questions=[{"key": "bleeding", "question": "Which has more bleeding?"}])
    server = serve(study, {"lea": "lead", "guesser": "annotator"})
    rng, rows = np.random.default_rng(0), study.inputs()
    for k in range(120):
        [pair] = study.ask(1)
        left, right = study.catalog.rows_of([pair.left, pair.right])
        who = "ann" if k % 2 else "guesser"
        more = rng.random() < 0.5 if who == "guesser" else rows[left, 1] > rows[right, 1]
        study.tell(pair, "left" if rows[left, 0] > rows[right, 0] else "right", annotator=who)
        study.tell(pair, "left" if more else "right", annotator=who, question="bleeding")
    study.fit()
    found = {
        person["annotator"]: person["about"]
        for person in enter(server, "lea", timeout=60).get(ADDRESS).json()["people"]
    }
    assert any(
        text.startswith("about “Which has more bleeding?”, 60 answers look like guesses")
        for text in found["guesser"]
    )
    assert not any("bleeding" in text for text in found["ann"])
    assert "bleeding" not in enter(server, "guesser").get(ADDRESS).text
