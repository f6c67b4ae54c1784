"""The model card on the page and over the API: for leads, as text, and honest about models that have none."""

from __future__ import annotations

import json

import pytest

from steelyard.study import Study
from steelyard.trust.card import CARD, Card
from tests.web.actors import Enter, MakeStudy, Open, Serve, Teach
from tests.web.looking import serious


def test_leads_read_it_and_annotators_do_not(
    make_study: MakeStudy, teach: Teach, serve: Serve, enter: Enter
) -> None:
    study = make_study()
    server = serve(study, {"lea": "lead", "kt": "annotator"})
    lea, kt = enter(server, "lea"), enter(server, "kt")
    assert lea.get("/api/v1/models/newest/card").status_code == 404
    assert "no model yet" in lea.get("/model").text
    teach(study, 20)
    teach(study, 20, annotator="mo")
    newest = lea.get("/api/v1/models/newest/card").json()
    assert newest == lea.get(f"/api/v1/models/{newest['id']}/card").json()
    assert newest["sentence"] == ""
    assert newest["answers"] == 40
    assert Card.model_validate(newest["card"]).answers.people == 2
    assert lea.get("/api/v1/models/1/card").json()["card"]["answers"]["people"] == 1
    for path in ("/api/v1/models/newest/card", "/api/v1/models/1/card", "/model", "/model?id=1"):
        reply = kt.get(path)
        assert reply.status_code == 403, path
        assert "unseen pairs" not in reply.text
    assert lea.get("/api/v1/models/99/card").status_code == 404
    assert lea.get("/api/v1/models/x/card").status_code == 422
    assert lea.get("/model?id=99").status_code == 404
    assert lea.get("/model?id=x").status_code == 422


def test_models_without_a_card_say_so(
    make_study: MakeStudy, teach: Teach, serve: Serve, enter: Enter
) -> None:
    study = make_study()
    teach(study, 20)
    newest = study.store.models.newest()
    assert newest is not None
    path = study.folder / newest.path / CARD
    client = enter(serve(study))
    path.write_text("{", encoding="utf-8")
    assert "damaged" in client.get("/api/v1/models/newest/card").json()["sentence"]
    path.unlink()
    found = client.get("/api/v1/models/newest/card").json()
    assert found["card"] is None
    assert "made before models had cards" in found["sentence"]
    assert "steelyard train" in client.get("/model").text


def test_what_people_typed_is_text(make_study: MakeStudy, teach: Teach, serve: Serve, enter: Enter) -> None:
    evil = "<script>alert(1)</script>"
    study = make_study("s", name=evil, page={"question": evil, "grades": (evil, f"{evil}2", "b", "c")})
    teach(study, 20, annotator="<i>kt</i>")
    text = enter(serve(study)).get("/model").text
    assert "<script>alert" not in text
    assert "alert(1)" in text
    assert "<i>kt" not in text
    card = study.folder / study.store.models.all()[-1].path / CARD
    assert "kt" not in json.loads(card.read_text(encoding="utf-8"))["answers"]["words"]


@pytest.mark.browser
def test_the_page_reads_from_top_to_bottom(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained))
    page = user.open("/model")
    assert "Not a medical device" in page.locator(".model-warning").inner_text()
    titles = page.locator("section h2").all_inner_texts()
    assert titles[0] == "What it is for"
    assert "What is not known" in titles
    assert page.locator("nav.model-earlier a").count() == 2
    user.shot("model")
    with page.expect_download() as got:
        page.get_by_text("Download as JSON").click()
    assert json.loads(got.value.path().read_text(encoding="utf-8"))["card"]["version"] == 1
    page.emulate_media(media="print")
    assert page.locator(".shell-head").is_hidden()
    user.shot("model-print")
    page.emulate_media(media="screen")
    page.locator("nav.model-earlier a").last.click()
    page.wait_for_url("**/model?id=1")
    assert serious(page) == []
