"""Several questions about one pair, in a real browser and by the API: one after the other, each kept, undone step by step."""

from __future__ import annotations

import pytest

from steelyard.study import Study
from tests.web.actors import Enter, MakeStudy, Open, Serve, Window
from tests.web.looking import SIZES

BLEEDING = {"key": "bleeding", "question": "Which has more bleeding?"}
VESSELS = {"key": "vessels", "question": "Which shows fewer vessels?"}
ASKED = ["Which is more severe?", "Which has more bleeding?", "Which shows fewer vessels?"]


@pytest.fixture
def several(make_study: MakeStudy) -> Study:
    return make_study(questions=[BLEEDING, VESSELS])


def said(study: Study) -> list[tuple[str, str]]:
    """The answers that count: question and answer, in the order of the log."""
    return [(c.question, c.answer.value) for c in study.store.answers.log() if c.effective and c.answer]


def asked(user: Window, question: str) -> tuple[str, str]:
    """The pair in sight, once it can be answered and this is what is asked."""
    user.page.wait_for_function(
        "(text) => document.querySelector('#question').textContent === text"
        " && document.querySelector('.frames').ariaBusy === 'false'",
        arg=question,
    )
    return user.pair()


@pytest.mark.browser
def test_one_pair_three_questions(several: Study, serve: Serve, window: Open) -> None:
    user = window(serve(several))
    page = user.compare()
    first = asked(user, ASKED[0])
    assert page.locator("#steps").get_attribute("aria-label") == "Question 1 of 3"
    for key, question in (("ArrowLeft", ASKED[1]), ("ArrowRight", ASKED[2])):
        page.keyboard.press(key)
        assert asked(user, question) == first, "the pair stays"
    assert page.locator("#live").inner_text().endswith(ASKED[2])
    assert "2 of" not in page.locator("#pace").inner_text(), "three questions are one answer of the plan"
    page.keyboard.press("ArrowDown")
    second = asked(user, ASKED[0])
    assert second != first
    user.saved()
    assert said(several) == [("", "left"), ("bleeding", "right"), ("vessels", "equal")]
    rows = several.store.answers.log()
    assert all(c.shown_at is not None and c.shown_at <= c.answered_at for c in rows)
    assert rows[0].answered_at <= (rows[1].shown_at or 0) + 0.01, (
        "a question is shown when the one before is answered"
    )
    assert page.locator("#pace").inner_text().startswith("1 of ")


@pytest.mark.browser
def test_undo_steps_back_through_the_questions(several: Study, serve: Serve, window: Open) -> None:
    user = window(serve(several))
    page = user.compare()
    first = user.pair()
    for key, question in (("ArrowLeft", ASKED[1]), ("ArrowRight", ASKED[2]), ("ArrowDown", ASKED[0])):
        page.keyboard.press(key)
        asked(user, question)
    second = user.pair()
    for question, answer in ((ASKED[2], "equal"), (ASKED[1], "right"), (ASKED[0], "left")):
        page.keyboard.press("z")
        assert asked(user, question) == first
        assert "was" in (page.locator(f'[data-answer="{answer}"]').get_attribute("class") or "")
    user.saved()
    assert said(several) == []
    for key, question in (("ArrowRight", ASKED[1]), ("ArrowRight", ASKED[2]), ("ArrowRight", ASKED[0])):
        page.keyboard.press(key)
        asked(user, question)
    assert user.pair() == second, "what came next comes again"
    user.saved()
    assert said(several) == [("", "right"), ("bleeding", "right"), ("vessels", "right")]
    assert sum(c.withdrawn for c in several.store.answers.log()) == 3


@pytest.mark.browser
def test_half_way_a_reload_goes_on_with_the_same_question(several: Study, serve: Serve, window: Open) -> None:
    user = window(serve(several))
    page = user.compare()
    first = user.pair()
    page.keyboard.press("ArrowLeft")
    asked(user, ASKED[1])
    page.reload()
    assert asked(user, ASKED[1]) == first
    page.keyboard.press("ArrowRight")
    asked(user, ASKED[2])
    page.keyboard.press("ArrowDown")
    second = asked(user, ASKED[0])
    assert second != first
    page.reload()
    assert asked(user, ASKED[0]) == second
    user.saved()
    assert said(several) == [("", "left"), ("bleeding", "right"), ("vessels", "equal")]


@pytest.mark.browser
def test_whoever_leaves_half_way_loses_nothing(several: Study, serve: Serve, window: Open) -> None:
    server = serve(several)
    user = window(server)
    user.compare()
    first = user.pair()
    user.page.keyboard.press("ArrowLeft")
    asked(user, ASKED[1])
    user.saved()
    again = window(server)  # another window: what this one was in the middle of is not known there
    again.compare()
    assert asked(again, ASKED[0]) != first
    assert said(several) == [("", "left")]


@pytest.mark.browser
def test_offline_every_answer_keeps_its_question(several: Study, serve: Serve, window: Open) -> None:
    user = window(serve(several))
    page = user.compare()
    user.stocked(6)
    user.context.set_offline(True)
    for _ in range(2):
        for key, question in (("ArrowLeft", ASKED[1]), ("ArrowRight", ASKED[2]), ("ArrowDown", ASKED[0])):
            page.keyboard.press(key)
            asked(user, question)
    page.keyboard.press("z")
    asked(user, ASKED[2])
    user.context.set_offline(False)
    user.saved()
    one = [("", "left"), ("bleeding", "right"), ("vessels", "equal")]
    assert said(several) == [*one, *one[:2]]


@pytest.mark.browser
def test_cannot_judge_is_about_one_question(several: Study, serve: Serve, window: Open) -> None:
    user = window(serve(several))
    page = user.compare()
    first = user.pair()
    page.keyboard.press(" ")
    page.keyboard.press("1")
    assert asked(user, ASKED[1]) == first, "the others may well be judged"
    page.keyboard.press(" ")
    page.keyboard.press("r")
    page.keyboard.press("1")
    assert asked(user, ASKED[0]) != first, "nobody is asked more about an image that they took out"
    user.saved()
    assert said(several) == [("", "cannot judge"), ("bleeding", "cannot judge")]
    page.keyboard.press("z")
    assert asked(user, ASKED[1]) == first
    user.saved()
    assert not several.store.images.excluded_rows().size, "and undoing brings it back"


@pytest.mark.browser
def test_on_a_phone(several: Study, serve: Serve, window: Open) -> None:
    user = window(serve(several), size=SIZES["phone"], has_touch=True, is_mobile=True)
    page = user.compare()
    first = user.pair()
    for answer, question in (("left", ASKED[1]), ("equal", ASKED[2])):
        box = page.locator(".frames").bounding_box()
        page.locator(f'[data-answer="{answer}"]').tap()
        assert asked(user, question) == first
        assert page.locator(".frames").bounding_box() == box, "nothing jumps when the question changes"
    assert page.locator("#steps").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator('[data-answer="right"]').tap()
    asked(user, ASKED[0])
    page.locator("#undo").tap()
    assert asked(user, ASKED[2]) == first
    user.saved()
    assert said(several) == [("", "left"), ("bleeding", "equal")]


@pytest.mark.browser
def test_one_question_looks_as_ever(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    user = window(serve(make_study()))
    page = user.compare()
    assert page.locator("#steps").is_hidden()
    assert page.locator("#question").inner_text() == ASKED[0]


def test_the_api_hands_out_questions_and_takes_answers_by_key(
    several: Study, serve: Serve, enter: Enter
) -> None:
    client = enter(serve(several))
    client.lease(2)  # until there are two
    reply = client.post("/api/v1/pairs/lease", json={"count": 2}).json()
    assert [(one["key"], one["question"]) for one in reply["questions"]] == list(
        zip(["", "bleeding", "vessels"], ASKED, strict=True)
    )
    assert reply["questions"][1]["words"]["chosen"] == "has more bleeding"
    pair, other = reply["pairs"]
    assert pair["answered"] == []
    assert client.answer(pair, question="bleeding").status_code == 201
    assert client.answer(pair, question="bleeding").status_code == 409
    again = client.lease(2)
    assert [one["answered"] for one in again if one["id"] == pair["id"]] == [["bleeding"]]
    assert client.answer(pair).json()["answered"] == 1
    wrong = client.answer(other, question="colour")
    assert wrong.status_code == 422
    assert "no question 'colour'" in wrong.json()["detail"]
    assert client.answer(other, question="; DROP").status_code == 422
    assert client.answer(other, question="main").status_code == 201
    rows = client.get("/api/v1/comparisons").json()["comparisons"]
    assert [row["question"] for row in rows] == ["bleeding", "", ""]


def test_the_api_says_how_scales_go_together(several: Study, serve: Serve, enter: Enter) -> None:
    for pair in several.ask(24, annotator="kt"):
        left, right = several.catalog.index_of(pair.left), several.catalog.index_of(pair.right)
        for key, turned in (("", False), ("bleeding", True)):
            several.tell(pair, "left" if (left > right) != turned else "right", annotator="kt", question=key)
    client = enter(serve(several))
    before = client.get("/api/v1/questions").json()
    assert [(row["key"], row["answers"], row["reliability"]) for row in before["questions"]] == [
        ("", 24, None), ("bleeding", 24, None), ("vessels", 0, None),
    ]  # fmt: skip
    several.fit()
    found = client.get("/api/v1/questions").json()
    assert [row["learnt"] for row in found["questions"]] == [24, 24, 0]
    assert all(key in row for row in found["correlations"] for key in ("pearson", "spearman_low", "observed"))
    assert [(row["one"], row["other"]) for row in found["correlations"]] == [("", "bleeding")]


@pytest.mark.browser
def test_progress_has_a_line_for_each_question(several: Study, serve: Serve, window: Open) -> None:
    for pair in several.ask(4, annotator="kt"):
        for key in ("", "bleeding"):
            several.tell(pair, "left", annotator="kt", question=key)
    page = window(serve(several)).open("/progress")
    page.wait_for_function("() => document.querySelectorAll('#questions tbody tr').length === 3")
    rows = page.locator("#questions tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        [question, number, "no scale yet", "–"]
        for question, number in zip(ASKED, ("4", "4", "0"), strict=True)
    ]
