"""The page speaks in the words of the study: its question, what is said of the image that is chosen, its reasons."""

from __future__ import annotations

import uuid

import pytest

from steelyard.config import StudyConfig
from steelyard.pairs import Answer
from steelyard.study import Study
from steelyard.study.wording import questions_asked, read_wordings
from steelyard.web.app import create_app
from tests.web.actors import Client, MakeStudy, Open, Serve, Teach

BLEEDING = "Which has more bleeding?"


@pytest.mark.browser
def test_keys_help_and_reasons_are_the_study_s(
    make_study: MakeStudy, teach: Teach, serve: Serve, window: Open
) -> None:
    study = make_study(page={"question": BLEEDING, "reasons": ["too dark", "instrument in view"]})
    teach(study, 30)
    study.fit()
    user = window(serve(study))
    page = user.compare()
    page.locator("summary").first.click()
    page.locator("[data-opens=keys]").click()
    page.wait_for_selector("#keys-body tr")
    assert "left has more bleeding" in page.locator("#keys-body").inner_text()
    page = user.compare()
    page.keyboard.press(" ")
    page.wait_for_selector("#why:visible")
    offered = [" ".join(text.split()) for text in page.locator("#why button").all_inner_texts()]
    assert offered == ["1 too dark", "2 instrument in view", "Space no reason"]
    page.keyboard.press("3")  # there is no third reason
    assert page.locator("#why").is_visible()
    page.keyboard.press("2")
    user.saved()
    assert study.store.answers.log()[-1].note == "instrument in view"
    user.pair()
    page.keyboard.press("ArrowLeft")
    user.saved()
    assert "severe" not in page.content()
    page = user.open(f"/ranking?image={user.server.public(7)}")
    assert page.locator("h1").inner_text() == "From least to most bleeding"
    page.wait_for_selector("#image[open] .large")
    assert page.get_by_label("more bleeding, score").count()
    assert "severe" not in page.content()


@pytest.mark.browser
def test_the_admin_page_edits_words_and_reasons(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.open("/admin")
    assert page.locator("#wording [name=more]").get_attribute("placeholder") == "is more severe"
    page.locator("#wording [name=question]").fill(BLEEDING)
    page.locator("#wording [name=scale]").fill("blood")
    page.locator("#wording [name=reasons]").fill("too dark\n\nother")
    page.locator("#wording button.primary").click()
    page.wait_for_selector("#said:has-text('Saved')")
    assert page.locator("#wording [name=more]").get_attribute("placeholder") == "has more bleeding"
    assert study.config.page.reasons == ("too dark", "other")
    assert study.config.page.words.score == "blood score"
    page.locator("#wording [name=reasons]").fill("\n".join(f"reason {i}" for i in range(10)))
    page.locator("#wording button.primary").click()
    page.wait_for_selector("#said:has-text('10 reasons are too many')")
    assert study.config.page.reasons == ("too dark", "other")
    user.errors[:] = [error for error in user.errors if "422" not in error]


def test_the_api_says_and_changes_the_words(local: Client, study: Study) -> None:
    info = local.get("/api/v1/study").json()
    assert (info["more"], info["words"]["chosen"]) == ("", "is more severe")
    body = {"question": BLEEDING, "more": "bleeds more", "reasons": ["too dark"]}
    saved = local.patch("/api/v1/study", json=body).json()
    assert saved["words"]["chosen"] == "bleeds more"
    assert saved["etag"] != info["etag"]
    refused = local.patch("/api/v1/study", json={"reasons": ["a", "A"]})
    assert refused.status_code == 422
    assert "the reason 'A' is there twice" in refused.json()["detail"]
    assert study.config.page.reasons == ("too dark",)


def test_a_reason_that_is_no_longer_one_stays_readable(local: Client, study: Study) -> None:
    pair = local.lease()[0]
    local.answer(pair, "cannot judge", note="stool")
    local.patch("/api/v1/study", json={"reasons": ["too dark"]})
    [row] = study.store.answers.log()
    assert (row.answer, row.note) == (Answer.CANNOT_JUDGE, "stool")
    assert "stool" in local.get("/api/v1/export").text


def test_what_is_saved_on_the_page_does_not_undo_what_was_written_into_the_file(
    local: Client, study: Study
) -> None:
    file = study.folder / "study.toml"
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace("refit_after = 20", "refit_after = 33  # as agreed"), encoding="utf-8")
    assert local.patch("/api/v1/study", json={"question": "Which is redder?"}).status_code == 200
    saved = StudyConfig.load(file)
    assert (saved.refit_after, saved.page.question) == (33, "Which is redder?")
    assert "refit_after = 33  # as agreed" in file.read_text(encoding="utf-8")


def test_a_file_with_a_typing_mistake_is_not_written_over(local: Client, study: Study) -> None:
    file = study.folder / "study.toml"
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace("refit_after = 20", "refit_afer = 33"), encoding="utf-8")
    refused = local.patch("/api/v1/study", json={"question": "Which is redder?"})
    assert (refused.status_code, refused.json()["code"]) == (409, "configuration")
    assert "mend it before" in refused.json()["detail"]
    assert "refit_afer = 33" in file.read_text(encoding="utf-8")
    assert local.get("/api/v1/study").json()["question"] != "Which is redder?"
    assert local.lease(), "people go on answering"
    file.write_text(whole, encoding="utf-8")
    assert local.patch("/api/v1/study", json={"question": "Which is redder?"}).status_code == 200


def grade_some(study: Study) -> None:
    """Five grades: two of the first, one of the last."""
    for image, grade in zip(study.catalog.ids[:5], (0, 0, 1, 2, 3), strict=True):
        study.tell_grade(str(image), grade)


def test_another_order_of_grades_needs_a_yes(local: Client, study: Study) -> None:
    grade_some(study)
    turned = list(reversed(local.get("/api/v1/study").json()["grades"]))
    refused = local.patch("/api/v1/study", json={"grades": turned})
    assert (refused.status_code, refused.json()["code"]) == (409, "regrade")
    detail = refused.json()["detail"]
    assert "5 grades given by people and" in detail
    assert "that came with the images another meaning" in detail
    assert local.get("/api/v1/study").json()["grades"] != turned
    renamed = [
        "Calm: nothing to see",
        *local.get("/api/v1/study").json()["grades"][1:],
        "Mayo 4: worse still",
    ]
    assert local.patch("/api/v1/study", json={"grades": renamed}).status_code == 200
    assert local.patch("/api/v1/study", json={"grades": renamed[:3]}).status_code == 409
    last = local.patch("/api/v1/study", json={"grades": renamed[::-1], "regrade": True})
    assert last.json()["grades"] == renamed[::-1]
    with Study.open(study.folder) as opened:  # what was confirmed is noted, and not asked about again
        assert opened.grade_names[0] == "Mayo 4"
    assert study.store.audit.latest(1, action="study changed")[0].detail["regrade"] is True


def test_a_file_that_turns_the_grades_round_is_not_taken_up(local: Client, study: Study) -> None:
    """Written while the study is served: whatever is saved on the page afterwards must not carry it in."""
    grade_some(study)
    before = study.grade_names
    file = study.folder / "study.toml"
    config = StudyConfig.load(file)
    config.with_changes(page={"grades": tuple(reversed(study.grade_list.texts))}).save(file)
    refused = local.patch("/api/v1/study", json={"question": BLEEDING})
    assert refused.status_code == 409
    assert "5 grades given by people and" in refused.json()["detail"]
    assert study.grade_names == before
    config.save(file)
    assert local.patch("/api/v1/study", json={"question": BLEEDING}).status_code == 200


def test_twelve_grades_and_two_of_one_name_are_refused_in_a_sentence(local: Client) -> None:
    refused = local.patch("/api/v1/study", json={"grades": [f"g{k}" for k in range(12)]})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(
        "12 grades are too many: on the grading page each has a digit for its key"
    )
    twice = local.patch("/api/v1/study", json={"grades": ["a", "b", "c", "A"]})
    assert twice.json()["detail"] == "The grade 'a' is there 2 times; give each grade a name of its own."


def test_a_grade_from_a_page_with_another_list_is_not_taken(local: Client, study: Study) -> None:
    image = local.get("/api/v1/grading/next").json()["images"][0]["id"]
    body = {"id": str(uuid.uuid4()), "image": image, "grade": 0, "name": study.grade_names[3]}
    refused = local.post("/api/v1/grades", json=body)
    assert refused.status_code == 409
    assert "is grade 3 now. Reload" in refused.json()["detail"]
    # A grade that was renamed in its place is the same one.
    assert local.post("/api/v1/grades", json={**body, "name": "as it was called before"}).status_code == 201


@pytest.mark.browser
def test_the_admin_page_asks_before_grades_change_their_meaning(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    study = make_study()
    grade_some(study)
    user = window(serve(study))
    page = user.open("/admin")
    area = page.locator("#wording [name=grades]")
    turned = list(reversed(area.input_value().splitlines()))
    area.fill("\n".join(turned))
    page.locator("#wording button.primary").click()
    page.wait_for_selector("#regrade:has-text('5 grades given by people')")
    assert tuple(study.config.page.grades) != tuple(turned)
    page.locator("#regrade button").click()
    page.wait_for_selector("#said:has-text('Saved')")
    assert page.locator("#regrade").is_hidden()
    assert tuple(study.config.page.grades) == tuple(turned)
    area.fill("\n".join(f"g{k}" for k in range(12)))
    page.locator("#wording button.primary").click()
    page.wait_for_selector("#said:has-text('12 grades are too many')")
    user.errors[:] = [error for error in user.errors if "409" not in error and "422" not in error]


def test_the_server_notes_what_it_shows(local: Client, study: Study) -> None:
    """Also a wording that somebody wrote into study.toml by hand, when the server starts again with it."""
    local.patch("/api/v1/study", json={"question": BLEEDING})
    assert [one.question for one in read_wordings(study.store)] == [
        "Which is more severe?",
        BLEEDING,
        BLEEDING,
    ]
    study.config = study.config.with_changes(page={"question": "Which is redder?"})
    create_app(study)
    create_app(study)
    assert [one.question for one in read_wordings(study.store)][3:] == ["Which is redder?"]


@pytest.mark.browser
def test_an_open_page_takes_up_another_wording(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    user = window(serve(study))
    page = user.compare()
    user.press("ArrowLeft")
    user.saved()
    web = user.server.app.state.web
    web.configure(study.config.with_changes(page={"question": BLEEDING}), by="ada")
    shown = user.pair()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#question:has-text('{BLEEDING}')")
    page.wait_for_selector(".frame-note:has-text('Please read it again')")
    assert user.pair() != shown
    user.press("ArrowRight")
    user.saved()
    page.wait_for_selector(".frame-note", state="detached")
    assert len(study.store.answers.log()) == 3, "the reload lost nothing"
    asked = questions_asked(read_wordings(study.store), study.store.answers.told())
    assert [(one.question, one.answers) for one in asked] == [("Which is more severe?", 2), (BLEEDING, 1)]
