"""Instructions, warm-up, breaks and limits in a real browser, on a desk and on a phone."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from steelyard.store.records import NewKnown
from steelyard.study import Study
from steelyard.study.checks import add_known
from tests.waiting import until
from tests.web.actors import MakeStudy, N, Open, Serve
from tests.web.looking import serious

pytestmark = pytest.mark.browser

TEXT = """# Before you begin

Judge **redness and ulcers**, not how *sharp* the picture is. <b>No HTML</b>.

- Zoom in when in doubt.
- *Equal* is an answer.
"""
PHONE = {"size": (390, 844), "has_touch": True, "is_mobile": True}


def instructed(make_study: MakeStudy, drawn: Any, **people: Any) -> Study:
    study = make_study()
    paths = [str(study.catalog.paths[row]) for row in np.argsort(drawn.severity)]
    examples = [
        f"{paths[k]}: {text}"
        for k, text in ((0, "no redness"), (N // 2, "marked redness"), (N - 1, "deep ulcers"))
    ]
    study.config = study.config.with_changes(people={"instructions": TEXT, "examples": examples, **people})
    return study


def warm(study: Study, n: int = 3) -> None:
    add_known(study, [NewKnown(N - 1 - k, N - 2 - k, "warm-up") for k in range(0, 2 * n, 2)])


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_somebody_reads_and_agrees_and_then_compares(
    make_study: MakeStudy, drawn: Any, serve: Serve, window: Open, device: dict[str, Any]
) -> None:
    study = instructed(make_study, drawn, consent=True)
    user = window(serve(study), **device)
    page = user.open("/compare")
    page.wait_for_url("**/instructions**")
    page.wait_for_function(
        "() => { const n = [...document.querySelectorAll('.examples-list img')]; n.forEach((i) => { i.loading = 'eager' });"
        " return n.length === 3 && n.every((i) => i.complete && i.naturalWidth) }"
    )
    assert page.locator(".prose h2").inner_text() == "Before you begin"
    assert page.locator(".prose li").count() == 2
    assert "<b>No HTML</b>" in page.locator(".prose").inner_text()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []
    user.shot(f"instructions-{'phone' if device else 'desktop'}")
    assert study.store.audit.log(action="consent given") == []
    page.locator("#accept").click()
    page.wait_for_url("**/compare")
    user.pair()
    assert len(study.store.audit.log(action="consent given")) == 1
    page.goto(f"{user.server.url}/instructions")
    assert "You have agreed to this." in page.locator(".instructions-end").inner_text()


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_a_warm_up_tells_after_each_answer_and_the_next_key_goes_on(
    make_study: MakeStudy, serve: Serve, window: Open, device: dict[str, Any]
) -> None:
    study = make_study(people={"warmup": 3})
    warm(study)
    server = serve(study)
    user = window(server, **device)
    page = user.compare()
    head, coach = page.locator("#warmup"), page.locator("#coach")
    assert "Warm-up, pair 1 of 3" in head.inner_text()
    page.keyboard.press("Escape")

    def say(right: bool) -> tuple[str, str]:
        left, other = user.pair()
        ids = server.app.state.web.ids
        worse_left = ids.row(left) > ids.row(other)
        page.keyboard.press("ArrowLeft" if worse_left == right else "ArrowRight")
        coach.wait_for(state="visible")
        return left, other

    before = say(True)
    assert "The reference says so too: " in coach.inner_text()
    assert user.pair() == before, "the pair stays until somebody goes on"
    page.keyboard.press("ArrowRight")
    user._pair_other_than(before)
    assert coach.is_hidden()
    assert "pair 2 of 3" in head.inner_text()
    user.saved()
    page.reload()
    user.pair()
    page.wait_for_function("() => document.querySelector('#warmup').innerText.includes('pair 2 of 3')")
    before = say(False)
    assert "you said" in coach.inner_text()
    assert page.locator(".frame.reference").count() == 1
    user.shot(f"warm-up-{'phone' if device else 'desktop'}")
    assert serious(page) == []
    coach.locator("button").click()
    user._pair_other_than(before)
    page.keyboard.press("z")  # back to the one before, which stays a pair of the warm-up
    assert user.pair() == before
    say(True)
    page.keyboard.press("Enter")
    user._pair_other_than(before)
    before = say(True)
    page.keyboard.press("ArrowDown")
    user._pair_other_than(before)
    page.wait_for_function(
        "() => document.querySelector('#warmup').innerText.includes('every answer counts')"
    )
    user.press("ArrowLeft")
    user.saved()
    assert head.is_hidden()
    assert (study.store.answers.count(), study.store.known.count(kind="warm-up")) == (1, 3)


def test_a_warm_up_without_the_server_goes_on_and_nothing_is_lost(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    study = make_study(people={"warmup": 3})
    warm(study)
    user = window(serve(study))
    page = user.compare()
    user.stocked(3)
    user.context.set_offline(True)
    before = user.pair()
    page.keyboard.press("ArrowLeft")
    page.locator("#coach").wait_for(state="visible")
    assert "Waiting for the server" in page.locator("#coach").inner_text()
    page.keyboard.press("ArrowLeft")
    user._pair_other_than(before)
    user.context.set_offline(False)
    until(lambda: study.store.known.count(kind="warm-up") == 1, "the answer's arrival")


def test_a_warm_up_is_skipped_where_that_is_allowed(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    study = make_study(people={"warmup": 3, "warmup_skip": True})
    warm(study)
    user = window(serve(study))
    page = user.compare()
    page.locator("#warmup button").click()
    page.wait_for_function(
        "() => document.querySelector('#warmup').innerText.includes('every answer counts')"
    )
    user.press("ArrowLeft")
    user.saved()
    assert (study.store.answers.count(), study.store.known.count()) == (1, 0)


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_a_break_is_suggested_after_so_many_answers_and_one_key_goes_on(
    make_study: MakeStudy, serve: Serve, window: Open, device: dict[str, Any]
) -> None:
    study = make_study(page={"break_answers": 4})
    user = window(serve(study), **device)
    page = user.compare()
    for _ in range(3):
        user.press("ArrowLeft")
    user.saved()
    page.reload()
    assert page.locator("#break").is_hidden()
    user.press("ArrowLeft")
    page.locator("#break").wait_for(state="visible")
    assert "4 answers without a break" in page.locator("#break").inner_text()
    user.shot(f"break-{'phone' if device else 'desktop'}")
    user.press("ArrowRight")  # it never stops anybody
    page.keyboard.press("Escape")
    assert page.locator("#break").is_hidden()
    for _ in range(3):
        user.press("ArrowLeft")
    assert page.locator("#break").is_hidden(), "the count began anew"


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_who_reached_the_limit_is_thanked_and_told_when_to_come_back(
    make_study: MakeStudy, serve: Serve, window: Open, device: dict[str, Any]
) -> None:
    study = make_study(people={"limit_per_day": 8})
    user = window(serve(study), **device)
    page = user.compare()
    for _ in range(7):
        user.press("ArrowLeft")
    user.pair()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "() => document.querySelector('#finished-title').innerText.startsWith('Enough for today')"
    )
    text = page.locator("#finished-text").inner_text()
    assert "You can go on tomorrow from 00:00" in text or time.tzname[0] != "UTC"
    page.locator("#finished-session").wait_for(state="visible")
    assert "Your last session: 8 answers" in page.locator("#finished-session").inner_text()
    assert page.locator("#go-on").is_hidden()
    user.shot(f"limit-{'phone' if device else 'desktop'}")
    assert serious(page) == []
    assert study.store.answers.count() == 8


def test_progress_tells_everybody_about_themselves_and_leads_about_all(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    study = make_study(people={"gold_rate": 0.1}, ask={"start": "random", "budget": "200%"})
    for who, seconds in (("kt", 3.0), ("mo", 5.0)):
        for k, pair in enumerate(study.ask(12, annotator=who)):
            at = time.time() - 600 + 10 * k
            study.tell(pair, "left", annotator=who, shown_at=at - seconds, answered_at=at)
    user = window(serve(study))
    page = user.open("/progress")
    page.wait_for_selector("#checks tbody tr")
    assert page.locator("#checks tbody th").all_inner_texts() == ["kt", "mo"]
    assert "5.0" in page.locator("#checks").inner_text()
    assert "Nothing yet" in page.locator("#own").inner_text()
    user.shot("how-people-answer")
    assert serious(page) == []


def test_an_annotator_sees_nobody_else_on_progress(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study(ask={"start": "random", "budget": "200%"})
    server = serve(study, {"kt": "annotator", "mo": "annotator"})
    for who in ("kt", "mo"):
        for k, pair in enumerate(study.ask(12, annotator=who)):
            at = time.time() - 600 + 10 * k
            study.tell(pair, "left", annotator=who, shown_at=at - 3, answered_at=at)
    user = window(server)
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    page = user.open("/progress")
    page.wait_for_function("() => document.querySelector('#own-text').innerText.includes('12 answers')")
    assert "An answer typically took 3.0 s" in page.locator("#own").inner_text()
    assert page.locator("#checks").count() == 0
