"""Comparing in a real browser: keys, undo, ties, reloads, a dead network; nothing lost, nothing doubled."""

from __future__ import annotations

from collections import Counter

import pytest

from steelyard.study import Study
from steelyard.web.ids import ImageIds
from tests.web.actors import MakeStudy, Open, Serve, Teach

pytestmark = pytest.mark.browser


def counted(study: Study) -> list[tuple[str, str, str]]:
    """The answers that count: left, right, answer, as the page names them; every pair at most once."""
    name = ImageIds(study).public
    rows = [c for c in study.store.answers.log() if c.effective]
    assert max(Counter(c.pair for c in rows).values(), default=1) == 1
    return [(name(c.left), name(c.right), c.answer.value) for c in rows if c.answer]


def test_thirty_pairs_by_keys(study: Study, serve: Serve, window: Open) -> None:
    """On both databases: thirty answers with sides as shown, in order, each exactly once."""
    user = window(serve(study))
    user.compare()
    assert user.page.locator("#overlay").is_visible()
    keys = ["ArrowLeft", "ArrowRight", "ArrowDown"] * 10
    said = {"ArrowLeft": "left", "ArrowRight": "right", "ArrowDown": "equal"}
    expected = []
    for key in keys:
        expected.append((*user.pair(), said[key]))
        user.press(key)
    assert user.page.locator("#overlay").is_hidden()
    user.saved()
    assert counted(study) == expected
    rows = study.store.answers.log()
    assert all(c.shown_at and c.shown_at <= c.answered_at and c.source == "page" for c in rows)
    assert user.page.locator("#pace").inner_text().startswith("30 of 120")
    first = [(pair.first, pair.second) for pair in (study.store.pairs.get(c.pair) for c in rows)]
    kept = sum((c.left, c.right) == order for c, order in zip(rows, first, strict=True))
    assert 3 <= kept <= 27, "sides are random"


def test_a_reply_that_crossed_an_answer_does_not_count_back(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    """Taking more pairs tells how many are answered; a slow reply must not undo the count of faster ones."""
    user = window(serve(make_study()))
    wanted: list[str] = []
    user.page.on("request", lambda request: wanted.append(request.url))
    user.compare()
    held = []

    def hold(route):  # type: ignore[no-untyped-def]
        held.append((route, route.fetch()))

    user.page.route("**/api/v1/pairs/lease", hold)
    for _ in range(4):  # half of the six are gone: more are asked for
        user.press("ArrowLeft")
    user.saved()
    assert held
    assert held[0][1].json()["answered"] < 4
    assert user.page.locator("#pace").inner_text().startswith("4 of ")
    # The page counts what the reply says, then asks for its pictures: when a new one is asked for, it has counted.
    images = [pair[side] for pair in held[0][1].json()["pairs"] for side in ("left", "right")]
    new = [image for image in images if not any(image in url for url in wanted)]
    with user.page.expect_request(lambda request: any(image in request.url for image in new)):
        held[0][0].fulfill(response=held[0][1])
    user.page.unroute("**/api/v1/pairs/lease")
    assert user.page.locator("#pace").inner_text().startswith("4 of ")


def test_undo_several_steps_shows_the_old_answer(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    user.compare()
    shown = [user.pair()]
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown"):
        shown.append(user.press(key))
    assert user.press("z") == shown[2]
    assert "was" in (user.page.locator('[data-answer="equal"]').get_attribute("class") or "")
    assert user.press("z") == shown[1]
    assert "was" in (user.page.locator('[data-answer="right"]').get_attribute("class") or "")
    user.press("ArrowLeft")
    user.saved()
    assert counted(study) == [(*shown[0], "left"), (*shown[1], "left")]
    assert sum(c.withdrawn for c in study.store.answers.log()) == 2
    assert user.pair() == shown[2], "what was undone first comes back next"


def test_cannot_judge_asks_why_and_may_exclude(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    _, right = user.pair()
    box = page.locator('.frame[data-side="left"]').bounding_box()
    page.keyboard.press(" ")
    assert page.locator("#why").is_visible()
    assert page.locator('.frame[data-side="left"]').bounding_box() == box, "pictures keep their place"
    page.keyboard.press("ArrowLeft")  # has no meaning here
    page.keyboard.press("r")
    page.keyboard.press("1")
    assert page.locator("#why").is_hidden()
    user.pair()
    user.saved()
    [row] = study.store.answers.log()
    assert (row.answer.value if row.answer else None, row.note) == ("cannot judge", "blurred")
    assert {image.id for image in study.store.images.all() if image.excluded} == {user.server.content(right)}
    page.keyboard.press(" ")
    page.keyboard.press(" ")
    user.pair()
    user.saved()
    assert [c.note for c in study.store.answers.log()] == ["blurred", ""]


def test_a_reload_in_the_middle_loses_nothing(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    user.compare()
    first = user.pair()
    second = user.press("ArrowLeft")
    user.page.reload()
    assert user.pair() == second, "the same pair, the same sides"
    user.press("ArrowRight")
    user.saved()
    assert counted(study) == [(*first, "left"), (*second, "right")]
    assert user.press("z") == second, "undo reaches across the reload"
    user.saved()
    assert counted(study) == [(*first, "left")]


def test_offline_and_back_nothing_lost_or_doubled(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    user.compare()
    user.stocked(6)
    expected = [(*user.pair(), "left")]
    user.press("ArrowLeft")
    user.saved()
    user.context.set_offline(True)
    for _ in range(4):
        expected.append((*user.pair(), "right"))
        user.press("ArrowRight")
    dot = user.page.locator("#saved")
    user.page.wait_for_function("() => document.querySelector('#saved').dataset.state === 'waiting'")
    assert "waiting for the network" in dot.inner_text()
    expected.pop()
    user.press("z")  # an answer the server never saw is undone on its way
    assert len(counted(study)) == 1
    dot.click()
    assert "nothing is lost" in user.page.locator("#stuck").inner_text()
    user.page.keyboard.press("Escape")
    user.context.set_offline(False)
    user.saved()
    assert counted(study) == expected
    sent = []
    user.page.on("request", lambda request: sent.append(request.url))
    user.page.reload()
    user.pair()  # the page sends what waits before it asks for pairs
    assert any(url.endswith("/pairs/lease") for url in sent)
    assert not any("/comparisons" in url for url in sent), "there is nothing left to send"
    assert counted(study) == expected


def test_answers_of_a_closed_browser_arrive_next_time(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    """The server answers, but the reply is lost: the answer is sent again and counts once."""
    study = make_study()
    user = window(serve(study))
    user.compare()
    expected = (*user.pair(), "left")
    lost = []

    def swallow(route):  # type: ignore[no-untyped-def]
        route.fetch()
        lost.append(1)
        route.abort("connectionreset")

    user.page.route("**/api/v1/comparisons", swallow)
    user.press("ArrowLeft")
    user.page.wait_for_function("() => document.querySelector('#saved').dataset.state === 'waiting'")
    assert lost
    assert counted(study) == [expected]
    user.page.unroute("**/api/v1/comparisons")
    user.page.reload()
    user.pair()
    user.saved()
    assert counted(study) == [expected]
    user.errors[:] = [e for e in user.errors if "CONNECTION_RESET" not in e]


def test_two_people_never_get_the_same_pair(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    server = serve(study, {"kt": "annotator", "mo": "annotator"})
    people = {name: window(server) for name in ("kt", "mo")}
    for name, user in people.items():
        user.page.goto(server.link(name))
        user.page.wait_for_url("**/compare")
        user.pair()
    assert "secret" not in people["kt"].page.url
    for _ in range(5):
        for user in people.values():
            user.press("ArrowLeft")
    for user in people.values():
        user.saved()
    rows = study.store.answers.log()
    assert Counter(c.annotator for c in rows) == {"kt": 5, "mo": 5}
    assert len({c.pair for c in rows}) == 10


def test_zoom_pan_and_light_are_the_same_on_both_sides(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    user = window(serve(make_study()))
    page = user.compare()

    def looks() -> list[str]:
        found: list[str] = page.eval_on_selector_all(
            ".stage", "n => n.map((s) => s.style.transform + s.style.filter)"
        )
        return found

    frame = page.locator('.frame[data-side="right"]').bounding_box()
    assert frame is not None
    page.mouse.move(frame["x"] + 200, frame["y"] + 150)
    page.mouse.wheel(0, -400)
    page.wait_for_function("() => document.querySelector('.stage').style.transform.includes('scale')")
    zoomed = looks()
    page.mouse.down()
    page.mouse.move(frame["x"] + 150, frame["y"] + 100)
    page.mouse.up()
    page.keyboard.press("b")
    page.keyboard.press("c")
    after = looks()
    assert zoomed[0] == zoomed[1]
    assert after[0] == after[1] != zoomed[0]
    assert "brightness(1.1) contrast(1.1)" in after[0]
    page.keyboard.press("0")
    assert looks() == ["", ""]
    page.mouse.dblclick(frame["x"] + 200, frame["y"] + 150)
    page.keyboard.press("f")
    assert looks()[0] == looks()[1]


def test_keys_can_be_changed_and_stay_changed(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study(page={"keys": {"right": "k"}})
    user = window(serve(study))
    page = user.compare()
    page.locator("summary").click()
    page.get_by_text("Help and keys …").click()
    page.locator('[data-action="left"] button').click()
    page.keyboard.press("j")
    page.locator("#keys [data-do=close]").click()
    expected = [(*user.pair(), "left")]
    user.press("j")
    expected.append((*user.pair(), "right"))
    user.press("k")
    page.reload()
    expected.append((*user.pair(), "left"))
    user.press("j")
    user.saved()
    assert counted(study) == expected


def test_by_keyboard_alone_and_by_mouse(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    page.locator('[data-answer="equal"]').focus()
    before = user.pair()
    page.keyboard.press(" ")  # works the focused button; it is not "cannot judge"
    page.wait_for_function(f"() => document.querySelector('.stage img.now').dataset.image !== '{before[0]}'")
    user.pair()
    page.locator('[data-answer="right"]').click()
    user.pair()
    page.keyboard.press(" ")  # after a click the keyboard is free again
    assert page.locator("#why").is_visible()
    user.saved()
    assert [answer for *_, answer in counted(study)] == ["equal", "right"]
    assert "Next pair" in page.locator("#live").inner_text() or "Why?" in page.locator("#live").inner_text()


def test_holding_a_key_answers_once(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    user.compare()
    expected = (*user.pair(), "left")
    user.page.keyboard.down("ArrowLeft")
    second = user.pair()
    for _ in range(4):
        user.page.keyboard.down("ArrowLeft")  # repeats, as a held key does, and this pair could be answered
        assert user.pair() == second
    user.page.keyboard.up("ArrowLeft")
    user.saved()
    assert counted(study) == [expected]


def test_swiping_on_a_phone(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study), size=(390, 844), has_touch=True, is_mobile=True)
    page = user.compare()
    expected = (*user.pair(), "right")
    assert page.locator('[data-answer="right"]').inner_text() == "bottom one"
    frame = page.locator('.frame[data-side="left"]').bounding_box()
    assert frame is not None
    finger = user.context.new_cdp_session(page)
    x, y = frame["x"] + 150, frame["y"] + 60
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 6):
        point = {"x": x, "y": y + 25 * step}
        finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function(
        f"() => document.querySelector('.stage img.now').dataset.image !== '{expected[0]}'"
    )
    user.saved()
    assert counted(study) == [expected]
    for button in ("left", "equal", "right"):
        box = page.locator(f'[data-answer="{button}"]').bounding_box()
        assert box is not None
        assert box["height"] >= 48


def test_the_end_says_what_was_achieved(
    make_study: MakeStudy, serve: Serve, window: Open, teach: Teach
) -> None:
    study = make_study(ask={"budget": 0.75, "start": "random"})  # 45 answers
    teach(study, 42)
    user = window(serve(study))
    page = user.compare()
    for _ in range(2):
        user.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#finished-title:has-text('Done')")
    page.wait_for_selector("#finished-text:has-text('45 answers have put 60 images in order')")
    page.wait_for_selector(".ladder img")
    user.shot("done-desktop")


def test_a_session_that_ended_keeps_the_answers(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    server = serve(study, {"kt": "annotator"})
    user = window(server)
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    first = user.pair()
    study.store.people.sessions.end_all("kt")
    server.app.state.web.accounts.forget()
    user.press("ArrowLeft")
    user.page.wait_for_function("() => document.querySelector('#saved').dataset.state === 'stuck'")
    user.page.locator("#saved").click()
    assert "Sign in again" in user.page.locator("#stuck").inner_text()
    assert counted(study) == []
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    user.pair()
    user.saved()
    assert counted(study) == [(*first, "left")]
    user.errors[:] = [error for error in user.errors if "401" not in error]


def test_a_break_is_suggested_and_nothing_stops(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    user.page.add_init_script(
        "window.later = 0; const now = Date.now; Date.now = () => now() + window.later * 60000"
    )
    page = user.compare()
    for _ in range(7):  # an answer every four minutes
        page.evaluate("() => { window.later += 4 }")
        user.press("ArrowLeft")
    assert "without a break" in page.locator("#break").inner_text()
    user.press("ArrowRight")
    page.locator("#break button").click()
    assert page.locator("#break").is_hidden()
    user.saved()
    assert len(counted(study)) == 8
