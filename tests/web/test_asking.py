"""Further questions are added, worded anew and removed from the page and by the API, under the rules of study.toml."""

from __future__ import annotations

import uuid

import pytest

from steelyard.config import StudyConfig
from steelyard.study import Study
from steelyard.study.wording import questions_asked, read_wordings
from tests.web.actors import Client, Enter, MakeStudy, Open, Serve, Team
from tests.web.looking import SIZES, serious, settle
from tests.web.test_questions_page import ASKED, BLEEDING, VESSELS, asked

QUESTIONS = "/api/v1/questions"


def tell(study: Study, n: int, *keys: str) -> None:
    for pair in study.ask(n, annotator="kt"):
        for key in keys:
            study.tell(pair, "left", annotator="kt", question=key)


def saved(study: Study) -> list[tuple[str, str]]:
    """What study.toml asks besides the main question."""
    config = StudyConfig.load(study.folder / "study.toml")
    return [(one.key, one.question) for one in config.questions]


def test_a_lead_adds_words_and_removes(team: Team, study: Study) -> None:
    lea, kt = team("lea"), team("kt")
    reply = lea.post(QUESTIONS, json=BLEEDING)
    assert reply.status_code == 201, reply.text
    [one] = reply.json()["questions"]
    assert (one["key"], one["answers"], one["weight"]) == ("bleeding", 0, 1.0)
    assert one["words"]["chosen"] == "has more bleeding"
    handed = kt.post("/api/v1/pairs/lease", json={"count": 1}).json()
    assert [q["key"] for q in handed["questions"]] == ["", "bleeding"], "asked from the next pair on"
    assert kt.answer(kt.lease(1)[0], question="bleeding").status_code == 201
    anew = lea.patch(f"{QUESTIONS}/bleeding", json={"question": "Which bleeds more?", "weight": 0.5})
    assert anew.json()["questions"][0]["answers"] == 1
    assert saved(study) == [("bleeding", "Which bleeds more?")]
    assert study.config.questions[0].weight == 0.5
    assert [
        (a.question, a.answers)
        for a in questions_asked(read_wordings(study.store), study.store.answers.told())
        if a.key
    ] == [("Which has more bleeding?", 1)]
    refused = lea.delete(f"{QUESTIONS}/bleeding")
    assert (refused.status_code, refused.json()["code"]) == (409, "answered")
    assert lea.post(QUESTIONS, json=VESSELS).status_code == 201
    assert [one["key"] for one in lea.delete(f"{QUESTIONS}/vessels").json()["questions"]] == ["bleeding"]
    entries = [(e.actor, e.action) for e in study.store.audit.latest(20) if e.action.startswith("question")]
    assert entries[::-1] == [
        ("lea", "question added"), ("lea", "question changed"), ("lea", "question added"), ("lea", "question removed"),
    ]  # fmt: skip
    with Study.open(study.folder) as again:
        assert saved(again) == [("bleeding", "Which bleeds more?")]


def test_who_may_not_is_refused(team: Team, study: Study) -> None:
    assert team("lea").post(QUESTIONS, json=BLEEDING).status_code == 201
    kt = team("kt")
    for reply in (
        kt.post(QUESTIONS, json=VESSELS),
        kt.patch(f"{QUESTIONS}/bleeding", json={"question": "Which is nicer?"}),
        kt.delete(f"{QUESTIONS}/bleeding"),
        kt.get(QUESTIONS),
    ):
        assert (reply.status_code, reply.json()["code"]) == (403, "role")
    assert team().post(QUESTIONS, json=VESSELS).status_code == 401
    assert saved(study) == [("bleeding", ASKED[1])]


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({**BLEEDING, "question": ASKED[2]}, 409, "a question with the key “bleeding” already"),
        ({"key": "again", "question": " which has MORE bleeding? "}, 422, "is asked twice"),
        ({"key": "severe", "question": ASKED[0]}, 422, "is asked twice"),
        ({"key": "main", "question": "Which?"}, 422, "'main' is the question of"),
        ({"key": "composite", "question": "Which?"}, 422, "the composite of all scales"),
        ({"key": "Bleeding", "question": "Which?"}, 422, "key"),
        ({"key": "a" * 31, "question": "Which?"}, 422, "key"),
        ({"key": "empty", "question": "  "}, 422, "not nothing"),
        ({"key": "heavy", "question": "Which?", "weight": 1e9}, 422, "weight"),
        ({"key": "more", "question": "Which?", "colour": "red"}, 422, "colour"),
    ],
)
def test_the_rules_of_study_toml_hold(
    local: Client, study: Study, body: dict[str, object], status: int, why: str
) -> None:
    assert local.post(QUESTIONS, json=BLEEDING).status_code == 201
    before = (study.folder / "study.toml").read_text(encoding="utf-8")
    reply = local.post(QUESTIONS, json=body)
    assert reply.status_code == status, reply.text
    assert why in reply.text
    assert (study.folder / "study.toml").read_text(encoding="utf-8") == before


def test_no_more_than_can_be_asked_about_a_pair(local: Client) -> None:
    for k in range(8):
        reply = local.post(QUESTIONS, json={"key": f"q{k}", "question": f"Which is nicer in way {k}?"})
        assert reply.status_code == 201
    ninth = local.post(QUESTIONS, json={"key": "q9", "question": "Which is nicest?"})
    assert (ninth.status_code, "too many" in ninth.text) == (422, True)
    unknown = local.patch(f"{QUESTIONS}/q9", json={"weight": 0})
    assert (unknown.status_code, local.delete(f"{QUESTIONS}/q9").status_code) == (404, 404)


def test_words_do_not_wander_to_another_key(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    study = make_study(questions=[BLEEDING])
    tell(study, 3, "", "bleeding")
    client = enter(serve(study))
    config = study.config.with_changes(
        questions=[{**BLEEDING, "question": "Which bleeds more?"}, {**VESSELS, "question": ASKED[1]}]
    )
    config.save(study.folder / "study.toml")  # somebody does it by hand
    reply = client.post(QUESTIONS, json={"key": "more", "question": "Which is nicer?"})
    assert reply.status_code == 409
    assert "3 answers would be to another question" in reply.text


def test_what_is_written_by_hand_meanwhile_stays(local: Client, study: Study) -> None:
    study.config.with_changes(questions=[VESSELS], refit_after=33).save(study.folder / "study.toml")
    assert local.post(QUESTIONS, json=BLEEDING).status_code == 201
    assert [key for key, _ in saved(study)] == ["vessels", "bleeding"]
    assert StudyConfig.load(study.folder / "study.toml").refit_after == 33


def test_a_change_that_is_sent_twice_happens_once(local: Client, study: Study) -> None:
    name = {"Idempotency-Key": str(uuid.uuid4())}
    first, again = (local.post(QUESTIONS, json=BLEEDING, headers=name) for _ in range(2))
    assert first.json() == again.json()
    assert [e.action for e in study.store.audit.latest(20)].count("question added") == 1
    other = local.post(QUESTIONS, json=VESSELS, headers=name)
    assert other.status_code == 409, "one name, one change"


@pytest.mark.browser
def test_the_page_adds_and_words(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study()
    server = serve(study)
    user = window(server, size=SIZES["desktop"])
    page = user.open("/admin")
    settle(user, "admin")
    assert page.locator("#asking-none").is_visible()
    form = page.locator("#asking-add")
    for one in (BLEEDING, VESSELS):
        form.locator("[name=question]").fill(one["question"])
        form.locator("[name=key]").fill(one["key"])
        form.locator("button").click()
        page.wait_for_selector(f"#asking-list form[data-key={one['key']}]")
    assert page.locator("#asking-none").is_hidden()
    assert form.locator("[name=key]").input_value() == "", "ready for the next"
    assert saved(study) == [("bleeding", ASKED[1]), ("vessels", ASKED[2])]
    bleeding, vessels = (
        page.locator(f"#asking-list form[data-key={key}]") for key in ("bleeding", "vessels")
    )
    vessels.locator("[name=scale]").fill("half-typed")
    assert bleeding.locator("[name=more]").get_attribute("placeholder") == "has more bleeding"
    bleeding.locator("[name=question]").fill("Which shows more blood?")
    bleeding.locator("[name=weight]").fill("0.5")
    bleeding.locator("button.primary").click()
    page.wait_for_selector("#asking-list [data-key=bleeding] [name=more][placeholder='shows more blood']")
    assert vessels.locator("[name=scale]").input_value() == "half-typed", "what is being typed stays"
    assert study.config.questions[0].weight == 0.5
    assert serious(page) == []
    vessels.locator("button:has-text('Remove')").click()
    page.wait_for_function("() => document.querySelectorAll('#asking-list form').length === 1")
    form.locator("[name=question]").fill(ASKED[0])
    form.locator("[name=key]").fill("again")
    form.locator("button").click()
    page.wait_for_selector("#said.bad:has-text('is asked twice')")
    assert form.locator("[name=question]").input_value() == ASKED[0], "nothing is typed anew"
    user.errors[:] = [error for error in user.errors if "422" not in error]
    page.reload()
    settle(user, "admin")
    assert bleeding.locator("[name=question]").input_value() == "Which shows more blood?"
    other = window(server)
    other.compare()
    other.page.keyboard.press("ArrowLeft")
    asked(other, "Which shows more blood?")
    other.page.keyboard.press("ArrowLeft")
    other.saved()
    page.reload()
    settle(user, "admin")
    assert bleeding.locator("button:has-text('Remove')").count() == 0, "it has answers"
    assert "1 answer" in bleeding.locator("h3").inner_text()


@pytest.mark.browser
def test_on_a_phone(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    user = window(
        serve(make_study(questions=[BLEEDING])), size=SIZES["phone"], is_mobile=True, has_touch=True
    )
    page = user.open("/admin")
    settle(user, "admin")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("#asking-add button").bounding_box()
    assert box is not None
    assert box["height"] >= 40


def test_a_network_asks_one_question(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    client = enter(serve(make_study(ranker={"kind": "network"})))
    assert "They need the convex ranker" in client.get("/admin").text
    reply = client.post(QUESTIONS, json=BLEEDING)
    assert (reply.status_code, "convex ranker" in reply.text) == (422, True)
