"""Images that are taken out while people compare: undo brings them back, and nobody is asked about them meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.store.records import NewPair
from steelyard.study import Study
from steelyard.web.ids import ImageIds
from tests.waiting import until
from tests.web.actors import Client, Enter, MakeStudy, Open, Serve, Window

pytestmark = pytest.mark.browser


def out(study: Study) -> set[str]:
    """Images that are out, as the page names them."""
    name = ImageIds(study).public
    return {name(image.id) for image in study.store.images.all() if image.excluded}


def exclude_right(user: Window) -> tuple[str, str]:
    """“Can't judge”, blurred, and the right image is excluded; gives the pair it was about."""
    pair = user.pair()
    for key in (" ", "r", "1"):
        user.page.keyboard.press(key)
    user._pair_other_than(pair)
    return pair


def held(user: Window) -> dict[int, tuple[str, str]]:
    """Pairs that this browser was given."""
    return {p["id"]: (p["left"], p["right"]) for reply in user.leases for p in reply.json()["pairs"]}


def test_undo_brings_an_excluded_image_back(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    user.compare()
    pair = exclude_right(user)
    user.saved()
    assert out(study) == {pair[1]}
    assert user.press("z") == pair
    user.saved()
    assert out(study) == set()
    user.press("ArrowLeft")
    user.saved()
    assert [c.answer.value for c in study.store.answers.log() if c.effective and c.answer] == ["left"]
    assert [entry.action for entry in study.store.audit.log()][-2:] == ["exclude image", "include image"]


def test_offline_and_with_a_lost_reply_too(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    """Exclude and undo wait in the queue, the reply to the undo is lost, and it is sent again: back once."""
    study = make_study()
    user = window(serve(study))
    user.compare()
    user.stocked(6)
    user.context.set_offline(True)
    pair = exclude_right(user)
    assert user.press("z") == pair
    lost: list[int] = []

    def swallow(route: Any) -> None:
        if not lost:
            route.fetch()
            lost.append(1)
            study.store.images.exclude(user.server.content(pair[0]), "lea")  # of somebody else, in between
            route.abort("connectionreset")
        else:
            route.continue_()

    user.page.route("**/undo", swallow)
    user.context.set_offline(False)
    user.saved()
    assert lost
    assert out(study) == {pair[0]}, "what kt took out is back, and what lea took out is not"
    user.errors[:] = [e for e in user.errors if "CONNECTION_RESET" not in e]


def test_what_was_excluded_here_is_not_asked_even_offline(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    """Six pairs wait in the browser, two of them with the same image; one answer takes it out, without a network."""
    study = make_study()
    rows = [(0, 1), (1, 2), (3, 4), (1, 5), (6, 7), (8, 9)]
    study.store.pairs.add_all([NewPair(*pair) for pair in rows])
    user = window(serve(study))
    user.compare()
    user.stocked(6)
    image = user.server.public(1)
    user.context.set_offline(True)
    side = "r" if user.pair()[1] == image else "l"
    before = user.pair()
    for key in (" ", side, "1"):
        user.page.keyboard.press(key)
    seen = [user._pair_other_than(before)]
    seen += [user.press("ArrowLeft") for _ in range(2)]
    assert all(image not in pair for pair in seen), "what is out is not asked"
    named = [{user.server.public(a), user.server.public(b)} for a, b in rows]
    assert [set(pair) for pair in seen] == [named[2], named[4], named[5]]
    for pair in reversed(seen[:2]):
        assert user.press("z") == pair
    assert set(user.press("z")) == named[0]
    back = [set(user.press("ArrowLeft")) for _ in range(5)]
    assert [pair for pair in back if image in pair] == [named[1], named[3]], "undone, it is asked again"
    user.context.set_offline(False)
    user.saved()
    assert out(study) == set()


def test_somebody_elses_exclusion_reaches_a_browser_that_holds_the_image(
    make_study: MakeStudy, serve: Serve, window: Open, enter: Enter
) -> None:
    """Without a reload: with the acknowledgement of the next answer – and what is in sight goes, too."""
    study = make_study()
    server = serve(study, {"kt": "annotator", "lea": "lead"})
    user, lea = window(server), enter(server, "lea")
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    first = user.pair()
    user.stocked(6)
    pairs = [pair for pair in held(user).values() if set(pair) != set(first)]
    waiting = pairs[3]
    exclude(lea, waiting[0])
    shown = [user.press("ArrowLeft")]
    user.saved()
    for _ in range(5):
        shown.append(user.press("ArrowLeft"))
    assert all(waiting[0] not in pair for pair in shown)


def test_a_pair_in_sight_is_exchanged_and_the_key_for_it_answers_nothing(
    make_study: MakeStudy, serve: Serve, window: Open, enter: Enter
) -> None:
    """The acknowledgement comes late: the next pair is in sight already, and somebody has taken an image of it out."""
    study = make_study()
    server = serve(study, {"kt": "annotator", "lea": "lead"})
    user, lea = window(server), enter(server, "lea")
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    user.pair()
    user.stocked(6)
    sent: list[Any] = []
    user.page.route("**/api/v1/comparisons", lambda route: sent.append(route))
    sight = user.press("ArrowLeft")
    until(lambda: user.page.evaluate("1") and bool(sent), "the answer on its way")
    exclude(lea, sight[1])
    sent[0].continue_()
    note = user.page.locator(".frame-note")
    note.wait_for()
    user.page.keyboard.press("ArrowRight")  # meant for the pair that was here
    assert "taken out" in note.inner_text()
    other = user._pair_other_than(sight)
    assert sight[1] not in other
    user.page.unroute("**/api/v1/comparisons")
    user.saved()
    assert len(study.store.answers.log()) == 1
    user.press("ArrowRight")
    user.saved()
    assert len(study.store.answers.log()) == 2
    assert note.count() == 0


def test_an_answer_about_an_excluded_image_is_kept_and_counts_once_it_is_back(
    make_study: MakeStudy, serve: Serve, window: Open, enter: Enter
) -> None:
    study = make_study()
    server = serve(study, {"kt": "annotator", "lea": "lead"})
    user, lea = window(server), enter(server, "lea")
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    user.stocked(6)
    user.context.set_offline(True)
    pair = user.pair()
    exclude(lea, pair[0])
    user.press("ArrowLeft")
    user.context.set_offline(False)
    user.saved()
    [row] = study.store.answers.log()
    assert row.effective
    assert lea.patch(f"/api/v1/images/{pair[0]}", json={"excluded": False}).status_code == 204
    assert len(study.store.answers.arrays()) == 1


def exclude(lead: Client, image: str) -> None:
    """A lead takes an image out."""
    reply = lead.patch(f"/api/v1/images/{image}", json={"excluded": True, "reason": "stool"})
    assert reply.status_code == 204


def test_an_excluded_image_is_not_graded(
    make_study: MakeStudy, serve: Serve, window: Open, enter: Enter
) -> None:
    study = make_study()
    server = serve(study, {"kt": "annotator", "lea": "lead"})
    user, lea = window(server), enter(server, "lea")
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    page = user.open("/grade")

    def image() -> str:
        return str(
            page.wait_for_function(
                "() => document.querySelector('.frames').ariaBusy === 'false'"
                " && document.querySelector('.stage img.now')?.dataset.image"
            ).json_value()
        )

    first = image()
    until(lambda: len(study.store.grades.outstanding("kt")) >= 4, "images to grade")
    waiting = [server.public(row) for row in study.store.grades.outstanding("kt")][1:4]
    exclude(lea, waiting[1])
    seen = []
    for _ in range(3):
        before = image()
        page.keyboard.press("1")
        user.saved()
        page.wait_for_function(
            "(before) => document.querySelector('.stage img.now')?.dataset.image !== before", arg=before
        )
        seen.append(image())
    assert first not in seen
    assert waiting[1] not in seen
