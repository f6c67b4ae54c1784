"""The adjudicate page in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.waiting import until
from tests.web.actors import MakeStudy, Open, Serve, Teach, Window
from tests.web.looking import SIZES, serious

pytestmark = pytest.mark.browser


def dispute(study: Study, number: int = 3) -> list[int]:
    """Pairs on which anke and boris contradict each other, and cyril takes a side."""
    pairs = study.store.pairs.add_all([NewPair(2 * k, 2 * k + 1, raters=3, repeat=9) for k in range(number)])
    for pair in pairs:
        asked = study.store.pairs.get(pair)
        for who, said in (("anke", Answer.LEFT), ("boris", Answer.RIGHT), ("cyril", Answer.LEFT)):
            study.store.answers.add(NewComparison(pair, who, said, asked.first, asked.second))
    return pairs


def decided(study: Study) -> list[tuple[int, str]]:
    """Decisions that stand, as they were shown."""
    return [(one.pair, one.answer.value) for one in study.store.decisions.all() if one.answer]


def swipe(page: Any, side: str, way: tuple[int, int]) -> None:
    box = page.locator(f'[data-side="{side}"]').bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.evaluate(
        """([side, x, y, dx, dy]) => {
          const frame = document.querySelector(`[data-side="${side}"]`);
          frame.setPointerCapture = () => {};
          const send = (kind, x, y) => frame.dispatchEvent(new PointerEvent(kind, { pointerId: 7, pointerType: "touch", clientX: x, clientY: y, button: 0, bubbles: true }));
          send("pointerdown", x, y); send("pointermove", x + dx, y + dy); send("pointerup", x + dx, y + dy);
        }""",
        [side, x, y, *way],
    )


def test_deciding_by_keys(make_study: MakeStudy, teach: Teach, serve: Serve, window: Open) -> None:
    """Counts before, names and the model after; undo brings the pair back; the note goes along."""
    study = make_study(ask={"budget": "200%", "start": "random", "random_share": 0.3})
    teach(study, 40)
    dispute(study)
    user = window(serve(study))
    page = user.open("/adjudicate")
    first = user.pair()
    said = page.locator("#said").inner_text()
    assert sorted(re.findall(r"(\d) said (left|right)", said)) in (
        [("1", "left"), ("2", "right")],
        [("1", "right"), ("2", "left")],
    )
    assert not any(name in page.content() for name in ("anke", "boris", "cyril"))
    assert "0 of" in page.locator("#pace").inner_text()
    user.shot("adjudicate")
    page.keyboard.press("m")
    page.keyboard.type("left has more vessels z")  # letters of the note are not keys
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    user._pair_other_than(first)
    user.saved()
    page.wait_for_function("() => document.querySelector('#review b')")
    text = page.locator("#review").inner_text()
    assert text.startswith("You decided: left.")
    assert re.search(r"anke and cyril said (left|right); boris said (left|right)", text)
    assert re.search(r"the model leans (left|right), \d+\s%", text)
    page.wait_for_function("() => [...document.querySelectorAll('#review img')].every((i) => i.complete)")
    user.shot("adjudicate-review")
    [one] = study.store.decisions.all()
    assert (one.note, one.answer, one.annotator) == ("left has more vessels z", Answer.LEFT, "you")
    assert page.locator("#remark").input_value() == ""
    # Taken back: the pair comes again with what was said marked, and the answers count.
    page.keyboard.press("z")
    page.wait_for_function(
        "(ids) => [...document.querySelectorAll('.stage img.now')].every((n, k) => n.dataset.image === ids[k])",
        arg=list(first),
    )
    assert "was" in (page.locator('[data-answer="left"]').get_attribute("class") or "")
    user.saved()
    assert decided(study) == []
    assert not any(name in page.locator("#review").inner_text() for name in ("anke", "cyril"))
    for key in ("ArrowRight", "ArrowDown", " "):
        user.pair()
        before = len(decided(study))
        page.keyboard.press(key)
        user.saved()
        until(lambda n=before: len(decided(study)) == n + 1, "the decision")  # type: ignore[misc]
    assert sorted(answer for _, answer in decided(study)) == ["cannot judge", "equal", "right"]


def test_nothing_to_decide_and_nothing_left(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.open("/adjudicate")
    page.wait_for_function(
        "() => document.querySelector('#finished-title').textContent === 'Nothing to decide'"
    )
    assert "raters = 2" in page.locator("#finished-text").inner_text()
    user.shot("adjudicate-empty")
    [pair] = dispute(study, 1)
    page.reload()
    user.pair()
    page.locator('[data-answer="equal"]').first.click()
    page.wait_for_function(
        "() => document.querySelector('#finished-title').textContent === 'Nothing left to decide'"
    )
    user.saved()
    page.wait_for_function(
        "() => document.querySelector('#finished-last').textContent.includes('anke and cyril')"
    )
    assert decided(study) == [(pair, "equal")]
    user.shot("adjudicate-done")
    page.locator("#finished-undo button").click()
    user.pair()
    user.saved()
    assert decided(study) == []


@pytest.mark.parametrize("size", [*SIZES, "small desktop", "small tablet"])
def test_at_every_size(trained: Study, serve: Serve, window: Open, size: str) -> None:
    dispute(trained)
    sizes = {**SIZES, "small desktop": (1280, 800), "small tablet": (820, 1180)}
    user = window(serve(trained), size=sizes[size], has_touch="desktop" not in size)
    page = user.open("/adjudicate")
    user.pair()
    assert serious(page) == []
    stacked = sizes[size][0] < sizes[size][1]
    assert ("said top" in page.locator("#said").inner_text()) == stacked
    if stacked:
        before = user.pair()
        swipe(page, "left", (0, -120))
        user._pair_other_than(before)
        user.saved()
        assert [answer for _, answer in decided(trained)] == ["left"]
        assert page.locator("#review b").inner_text().startswith("You decided: top")
    else:
        user.press("ArrowRight")
        user.saved()
        page.wait_for_function("() => document.querySelector('#review b')")
    page.wait_for_function("() => [...document.querySelectorAll('#review img')].every((i) => i.complete)")
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    for frame in page.locator(".frame").all():
        box = frame.bounding_box()
        assert box["height"] > 150  # the pictures own the screen
    for button in page.locator(".answers button").all():
        assert button.bounding_box()["height"] >= 40
    assert serious(page) == []
    user.shot(f"adjudicate-{size.replace(' ', '-')}")


def test_a_decision_waits_for_the_network(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    dispute(study, 3)
    user: Window = window(serve(study))
    page = user.open("/adjudicate")
    user.pair()
    page.wait_for_function("() => document.querySelectorAll('.stage img').length === 4")
    user.context.set_offline(True)
    user.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('#saved').dataset.state === 'waiting'")
    assert decided(study) == []
    user.context.set_offline(False)
    user.saved()
    assert [answer for _, answer in decided(study)] == ["left"]
