"""Signing a finished study over the API and on the page."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from steelyard.study import Study
from tests.web.actors import Client, Enter, MakeStudy, Open, Serve, Team

PASSWORD = "correct horse battery staple"


def with_password(ada: Client, client: Client) -> Client:
    """lea, signed in by the password that ada gave her (which ends her link)."""
    given = ada.post("/api/v1/annotators/lea/password", json={"password": PASSWORD})
    assert given.status_code == 204, given.text
    reply = client.post("/api/v1/session", json={"name": "lea", "password": PASSWORD})
    assert reply.status_code == 200, reply.text
    client.headers["X-CSRF-Token"] = reply.json()["csrf"]
    return client


def sign(client: Client, **body: Any) -> Any:
    return client.post("/api/v1/signatures", json={"meaning": "reviewed and approved", **body})


def test_a_lead_signs_with_the_password_asked_again(team: Team, study: Study) -> None:
    ada = team("ada")
    lea = with_password(ada, team(""))
    assert lea.get("/api/v1/signatures").json() == {"signatures": []}

    for wrong in ({}, {"password": ""}, {"password": "wrong"}):
        refused = sign(lea, **wrong)
        assert (refused.status_code, refused.json()["code"]) == (403, "credentials")
    assert study.store.audit.signatures() == []

    made = sign(lea, password=PASSWORD)
    assert made.status_code == 201, made.text
    [one] = study.store.audit.signatures()
    assert (one.signer, one.via, one.meaning) == ("lea", "password", "reviewed and approved")
    [seen] = ada.get("/api/v1/signatures").json()["signatures"]
    assert (seen["signer"], seen["number"], seen["changed_since"]) == ("lea", one.seq, [])
    assert PASSWORD not in str(ada.get("/api/v1/audit").json())
    assert study.store.check() == []


def test_nobody_else_signs(team: Team, study: Study, enter: Enter) -> None:
    kt, ada = team("kt"), team("ada")
    assert sign(kt).status_code == 403
    assert kt.get("/api/v1/signatures").status_code == 403
    assert sign(ada).status_code == 403  # she signs in by link: there is no password to ask for
    token = ada.post("/api/v1/tokens", json={"label": "x", "scope": "full"}).json()["token"]
    program = enter(ada.server, headers={"Authorization": f"Bearer {token}"})
    assert "Only a person can sign, not a token" in sign(program, password=PASSWORD).json()["detail"]
    assert study.store.audit.signatures() == []


def test_guessing_the_password_by_signing_is_limited(team: Team) -> None:
    lea = with_password(team("ada"), team(""))
    found = [sign(lea, password=f"guess {k}").status_code for k in range(60)]
    assert set(found) == {403, 429}
    assert found[-1] == 429
    assert sign(lea, password=PASSWORD).status_code == 429  # nor does the right one help now


def test_signed_once_however_often_it_is_sent(local: Client, study: Study) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"meaning": " reviewed and approved "}
    first = local.post("/api/v1/signatures", json=body, headers=key)
    again = local.post("/api/v1/signatures", json=body, headers=key)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert (first.json()["via"], first.json()["meaning"]) == ("local", "reviewed and approved")
    assert len(study.store.audit.signatures()) == 1
    other = local.post("/api/v1/signatures", json={"meaning": "rejected"}, headers=key)
    assert other.status_code == 409
    assert local.post("/api/v1/signatures", json={"meaning": "  "}).status_code == 422
    pair = local.lease()[0]
    local.answer(pair)
    [seen] = local.get("/api/v1/signatures").json()["signatures"]
    assert seen["changed_since"] == ["1 row in the log of answers"]


@pytest.mark.browser
def test_signing_on_the_page(
    make_study: MakeStudy,
    serve: Serve,
    enter: Enter,
    window: Open,
) -> None:
    server = serve(make_study(), {"ada": "admin", "lea": "lead"})
    lea = with_password(enter(server, "ada"), enter(server))
    user = window(server)
    user.context.add_cookies(
        [{"name": name, "value": value, "url": server.url} for name, value in lea.cookies.items()]
    )
    page = user.open("/admin")
    section = page.locator("#signatures")
    section.get_by_text("None. When a study is finished").wait_for()
    section.get_by_label("Meaning").fill("reviewed and approved")
    section.get_by_label("Your password").fill("wrong")
    section.get_by_role("button", name="Sign as lea").click()
    section.get_by_text("The password is wrong").wait_for()
    assert section.get_by_label("Your password").input_value() == ""
    user.errors.clear()  # the browser writes every refused request on its console
    section.get_by_label("Your password").fill(PASSWORD)
    section.get_by_role("button", name="Sign as lea").click()
    section.get_by_role("row").filter(has_text="reviewed and approved").wait_for()
    assert section.get_by_text("nothing has changed").is_visible()
    assert section.get_by_text("None. When a study").is_hidden()
    user.shot("admin-signed")
    assert [one.signer for one in server.study.store.audit.signatures()] == ["lea"]
