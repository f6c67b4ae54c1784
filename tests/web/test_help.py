"""Help: every key that a page understands and no other, gone by Esc or a click; on a phone, gestures instead of keys."""

from __future__ import annotations

import string
from typing import Any

import pytest

from tests.web.actors import MakeStudy, Open, Serve

pytestmark = pytest.mark.browser
PHONE = {"size": (390, 844), "has_touch": True, "is_mobile": True}
NAMES = {" ": "Space", "ArrowLeft": "←", "ArrowRight": "→", "ArrowUp": "↑", "ArrowDown": "↓", "Escape": "Esc"}
CANDIDATES = [*string.ascii_lowercase, *string.digits, *string.punctuation, *NAMES]
CANDIDATES += ["Enter", "Backspace", "Delete", "Home", "End", "PageUp", "PageDown", "F1", "F2"]

# A key is understood where somebody keeps the browser from doing what it would do with it. What it began is ended at once.
PRESSED = """(keys) => keys.filter((key) => {
  const press = (key) => !document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const taken = press(key);
  for (const open of document.querySelectorAll("dialog[open]")) open.close();
  if (document.querySelector("#why:not([hidden])")) press("Escape");
  return taken;
})"""


def listed(page: Any, *, after: bool = False) -> set[str]:
    """Keys in the help, those that answer at once or those after "can't judge"."""
    rows = page.locator("#keys-body tr").evaluate_all(
        "rows => rows.map((row) => [Boolean(row.querySelector('th')), [...row.querySelectorAll('kbd')].map((k) => k.textContent)])"
    )
    heading = next((k for k, (head, _) in enumerate(rows) if head), len(rows))
    return {key for _, keys in (rows[heading:] if after else rows[:heading]) for key in keys}


def label(key: str) -> str:
    return NAMES.get(key) or (key.upper() if len(key) == 1 else key)


@pytest.mark.parametrize("name", ["compare", "grade"])
def test_the_help_lists_every_key_and_no_other(
    make_study: MakeStudy, serve: Serve, window: Open, name: str
) -> None:
    user = window(serve(make_study(page={"grades": ("mild", "severe"), "keys": {"undo": "u"}})))
    page = user.open(f"/{name}")
    page.wait_for_selector(".frames[aria-busy=false]")
    understood = {label(key) for key in page.evaluate(PRESSED, CANDIDATES)}
    page.keyboard.press("?")
    page.locator("#keys").wait_for()
    assert listed(page) == understood
    assert {"U", "?", "Esc"} <= understood, "the study's own keys, too"
    assert "Z" not in understood


def test_after_cannot_judge_the_listed_keys_work_and_no_other(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    user = window(serve(make_study()))
    page = user.compare()
    page.keyboard.press("?")
    page.locator("#keys").wait_for()
    known = listed(page, after=True)
    assert {"1", "5", "Space", "L", "R", "Esc", "Z"} <= known
    page.keyboard.press("Escape")
    state = "() => JSON.stringify([document.querySelector('#why').hidden, ...[...document.querySelectorAll('#why input')].map((b) => b.checked)])"
    for key in CANDIDATES:
        user.pair()
        page.keyboard.press(" ")
        before = page.evaluate(state)
        page.evaluate(
            "(key) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))", key
        )
        assert (page.evaluate(state) != before) == (label(key) in known), key
        if page.locator("#why").is_visible():
            page.keyboard.press("Escape")


@pytest.mark.parametrize("name", ["compare", "grade"])
def test_help_goes_by_escape_by_its_key_and_by_a_click_anywhere(
    make_study: MakeStudy, serve: Serve, window: Open, name: str
) -> None:
    user = window(serve(make_study()))
    page = user.open(f"/{name}")
    page.wait_for_selector(".frames[aria-busy=false]")
    help = page.locator("#keys")
    for close in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.keyboard.press("?"),
        lambda: page.mouse.click(5, 400),
        lambda: page.locator("#keys-body td").first.click(),
    ):
        page.keyboard.press("?")
        help.wait_for()
        close()
        help.wait_for(state="hidden")
    page.locator("#help").click()
    help.wait_for()
    button = help.locator('[data-action="undo"] button')
    button.click()
    page.keyboard.press("q")
    assert "Q" in listed(page), "a click on a button is not anywhere"


@pytest.mark.parametrize("close", ["Escape", "click", "answer"])
def test_the_first_visit_is_put_away_for_good(
    make_study: MakeStudy, serve: Serve, window: Open, close: str
) -> None:
    user = window(serve(make_study()))
    page = user.compare()
    overlay = page.locator("#overlay")
    assert [text.strip() for text in overlay.locator("dd").all_inner_texts()] == [
        "left is more severe", "right is more severe", "equal", "can’t judge", "undo",
    ]  # fmt: skip
    if close == "click":
        page.locator(".frame").first.click()
    else:
        page.keyboard.press("ArrowLeft" if close == "answer" else close)
    overlay.wait_for(state="hidden")
    page.reload()
    user.pair()
    assert overlay.is_hidden()


def test_a_phone_is_told_of_swipes_and_of_top_and_bottom(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    user = window(serve(make_study()), **PHONE)
    page = user.compare()
    first = page.locator("#overlay").inner_text()
    page.locator("#overlay").click(force=True)
    page.locator("#overlay").wait_for(state="hidden")
    page.locator("#help").click()
    page.locator("#keys").wait_for()
    for text in (first, page.locator("#keys").inner_text()):
        assert "swipe up" in text
        assert "top is more severe" in text
        assert "bottom is more severe" in text
        assert "left" not in text
        assert "key" not in text.lower()
        assert "pinch" in text
    page.locator("#keys").click(position={"x": 10, "y": 10})
    page.locator("#keys").wait_for(state="hidden")
