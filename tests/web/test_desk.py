"""What comparing, adjudicating and grading share: one look at the pictures, said and reset; places that turn with the window."""

from __future__ import annotations

import pytest

from steelyard.study import Study
from tests.web.actors import Open, Serve
from tests.web.looking import settle
from tests.web.test_adjudicate_page import dispute

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", ["compare", "adjudicate", "grade"])
def test_one_look_is_said_and_reset(trained: Study, serve: Serve, window: Open, name: str) -> None:
    if name == "adjudicate":
        dispute(trained)
    user = window(serve(trained))
    page = user.open(f"/{name}")
    settle(user, "grade" if name == "grade" else "compare")
    look, reset = page.locator("#look"), page.locator("#reset")
    assert (look.inner_text(), reset.is_hidden()) == ("", True)
    page.keyboard.press("Escape")
    page.keyboard.press("+")
    page.wait_for_selector("#reset:not([hidden])")
    assert "× · brightness 100 % · contrast 100 %" in look.inner_text()
    assert not look.inner_text().startswith("1.0×")
    reset.click()
    page.wait_for_selector("#reset", state="hidden")
    assert look.inner_text() == ""


@pytest.mark.parametrize("name", ["compare", "adjudicate"])
def test_places_turn_with_the_window(trained: Study, serve: Serve, window: Open, name: str) -> None:
    dispute(trained)
    user = window(serve(trained), size=(1280, 800))
    page = user.open(f"/{name}")
    user.pair()
    button = page.locator('[data-answer="left"] span')
    assert button.inner_text() == "this one"
    page.set_viewport_size({"width": 800, "height": 1280})
    page.wait_for_function(
        """() => document.querySelector('[data-answer="left"] span').textContent === 'top one'"""
    )
    if name == "adjudicate":
        assert "said top" in page.locator("#said").inner_text()
    else:
        assert page.locator('#why input[value="left"] ~ span').text_content() == "exclude top"
    page.set_viewport_size({"width": 1280, "height": 800})
    page.wait_for_function(
        """() => document.querySelector('[data-answer="right"] span').textContent === 'this one'"""
    )
