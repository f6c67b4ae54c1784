"""What the server refuses is kept, shown, and sent again or discarded by the person."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from steelyard.store.errors import ConflictError, NotHandedOutError
from steelyard.study import Study
from tests.web.actors import MakeStudy, Open, Serve, Window
from tests.web.kept import counted, entries, forgive, state

pytestmark = pytest.mark.browser


def refuse(user: Window, study: Study, monkeypatch: pytest.MonkeyPatch, which: Callable[[int], bool]) -> None:
    """Let the store refuse some answers, by the order of their first arrival."""
    seen: list[str] = []
    plain = study.store.answers.add

    def picky(new: Any, **how: Any) -> Any:
        if new.id not in seen:
            seen.append(new.id)
        if which(seen.index(new.id)):
            raise NotHandedOutError("this pair was never handed to you")
        return plain(new, **how)

    monkeypatch.setattr(study.store.answers, "add", picky)


def test_what_is_refused_is_kept_and_the_others_go_on(
    make_study: MakeStudy, serve: Serve, window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    refuse(user, study, monkeypatch, lambda k: k in (1, 2))
    given = []
    for _ in range(4):
        given.append((*user.pair(), "right"))
        user.press("ArrowRight")
    state(user, "stuck")
    page.wait_for_function("() => !Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))")
    assert page.locator("#saved").inner_text() == "needs you"
    assert counted(study) == [given[0], given[3]]
    assert len(entries(user, "steelyard.refused")) == 2

    page.reload()
    user.pair()
    state(user, "stuck")
    page.locator("#saved").click()
    rows = page.locator("#stuck-list li")
    assert rows.count() == 2
    assert "This pair was never handed to you." in rows.nth(0).inner_text()
    assert "right one is more severe" in rows.nth(0).inner_text()
    shown = (
        rows.nth(0)
        .locator("img")
        .evaluate_all("nodes => nodes.map((n) => new URL(n.src).pathname.split('/')[4])")
    )
    assert tuple(shown) == given[1][:2]

    def listed(n: int) -> str:
        return f"() => document.querySelectorAll('#stuck-list li').length === {n}"

    with page.expect_response("**/comparisons"):
        rows.nth(0).get_by_text("Send again").click()
    page.wait_for_function(listed(2))  # refused once more: still there
    monkeypatch.undo()
    with page.expect_response("**/comparisons"):
        rows.nth(0).get_by_text("Send again").click()
    page.wait_for_function(listed(1))
    assert counted(study) == [given[0], given[3], given[1]]

    discard = rows.nth(0).get_by_role("button").nth(1)
    assert discard.inner_text() == "Discard"
    discard.click()
    page.get_by_role("button", name="Yes, discard").wait_for()
    assert len(entries(user, "steelyard.refused")) == 1, "once is not enough"
    discard.click()
    user.saved()
    assert page.locator("#stuck").is_hidden()
    assert entries(user, "steelyard.refused") == []
    assert len(counted(study)) == 3
    forgive(user)


def test_all_at_once_can_be_sent_again_or_discarded(
    make_study: MakeStudy, serve: Serve, window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    refuse(user, study, monkeypatch, lambda k: True)
    given = []
    for _ in range(3):
        given.append((*user.pair(), "left"))
        user.press("ArrowLeft")
    state(user, "stuck")
    page.wait_for_function("() => !Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))")
    page.locator("#saved").click()
    monkeypatch.undo()
    page.locator("#stuck-all-again").click()
    user.saved()
    assert counted(study) == given
    refuse(user, study, monkeypatch, lambda k: True)
    for _ in range(2):
        user.press("ArrowLeft")
    page.wait_for_function(
        "() => Object.keys(localStorage).filter((k) => k.startsWith('steelyard.refused')).length === 2"
    )
    page.locator("#saved").click()
    page.locator("#stuck-all-discard").click()
    page.locator("#stuck-all-discard").click()
    user.saved()
    assert entries(user, "steelyard.refused") == []
    assert counted(study) == given
    forgive(user)


def test_an_undo_of_a_refused_answer_stays_with_it(
    make_study: MakeStudy, serve: Serve, window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    sent = []
    page.on("request", lambda r: sent.append(r.url) if r.url.endswith("/undo") else None)
    refuse(user, study, monkeypatch, lambda k: k == 0)
    first = user.pair()
    user.press("ArrowLeft")
    state(user, "stuck")
    assert user.press("z") == first
    page.wait_for_function("() => !Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))")
    assert sent == [], "there is nothing to undo on the server"
    [kept] = entries(user, "steelyard.refused")
    assert len(json.loads(kept)["followed"]) == 1
    page.locator("#saved").click()
    assert "then undone" in page.locator("#stuck-list").inner_text()
    monkeypatch.undo()
    page.locator("#stuck-list").get_by_text("Send again").click()
    user.saved()
    assert len(sent) == 1
    assert [(c.answer.value if c.answer else "withdrawn") for c in study.store.answers.log()] == [
        "left",
        "withdrawn",
    ]
    assert counted(study) == []
    user.press("ArrowRight")
    user.saved()
    assert counted(study) == [(*first, "right")]
    forgive(user)


def test_what_cannot_be_read_or_is_unknown_is_kept_and_shown(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    prefix = page.evaluate("() => { const p = JSON.parse(document.getElementById('page-data').textContent);"
                           " return `steelyard.queue.${p.study}.${p.annotator}.` }")  # fmt: skip
    broken = ['{"kind": "comparison", "body": {"id"', "null", "17", '{"kind": "of 2031", "id": "x"}']
    for k, text in enumerate(broken):
        page.evaluate(
            "([key, text]) => localStorage.setItem(key, text)", [f"{prefix}00000000000000{k}.000000", text]
        )
    page.reload()
    first = user.pair()
    user.press("ArrowLeft")
    state(user, "stuck")
    page.wait_for_function("() => !Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))")
    assert counted(study) == [(*first, "left")], "what came behind them arrived"
    assert [json.loads(text)["text"] for text in entries(user, "steelyard.refused")] == broken
    page.locator("#saved").click()
    assert page.locator("#stuck-list li").count() == 4
    assert "cannot be read" in page.locator("#stuck-list").inner_text()
    assert "of 2031" in page.locator("#stuck-list").inner_text()


def test_an_undo_of_a_refused_answer_survives_a_full_storage(
    make_study: MakeStudy, serve: Serve, window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser has room for nothing longer than an undo, and the tab is closed: sent again, it is still undone."""
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    refuse(user, study, monkeypatch, lambda k: k == 0)
    user.press("ArrowLeft")
    state(user, "stuck")
    page.evaluate(
        "() => { const set = Storage.prototype.setItem; Storage.prototype.setItem = function (key, text) {"
        " if (key.startsWith('steelyard.refused')) throw new DOMException('full', 'QuotaExceededError');"
        " set.call(this, key, text); } }"
    )
    user.press("z")  # nothing is sent, so that what becomes of the undo is decided before the pair is shown
    assert len(entries(user)) == 1, "the undo is where a closed tab leaves it"
    page.evaluate("() => { window.onbeforeunload = null; }")
    page.close(run_before_unload=False)
    monkeypatch.undo()
    user.page = page = user.context.new_page()
    user.compare()
    page.wait_for_function("() => !Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))")
    page.locator("#saved").click()
    page.locator("#stuck-list").get_by_text("Send again").click()
    user.saved()
    assert [(c.answer.value if c.answer else "withdrawn") for c in study.store.answers.log()] == [
        "left",
        "withdrawn",
    ]
    forgive(user)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_needs_you_looks_calm(
    make_study: MakeStudy, serve: Serve, window: Open, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    plain = study.store.answers.add
    reasons = iter([NotHandedOutError("this pair was never handed to you"), None,
                    ConflictError("you answered this pair before; undo that answer first")])  # fmt: skip

    def picky(new: Any, **how: Any) -> Any:
        reason = next(reasons)
        if reason is not None:
            raise reason
        return plain(new, **how)

    monkeypatch.setattr(study.store.answers, "add", picky)
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown"):
        user.press(key)
    page.wait_for_function(
        "() => Object.keys(localStorage).filter((k) => k.startsWith('steelyard.refused')).length === 2"
    )
    if theme == "light":
        page.keyboard.press("t")
    page.locator("#saved").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#stuck-list img')].every((n) => n.complete && n.naturalWidth)"
    )
    assert page.locator("#stuck-list img").count() == 4
    user.shot(f"needs-you-{theme}")
    forgive(user)
