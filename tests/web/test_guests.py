"""People who live in one study and work in several: one sign-in, and nobody becomes more by it than each study says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from steelyard.errors import ConfigError
from steelyard.exchange import export_study, import_study
from steelyard.pairs import Answer
from steelyard.store.importing import ForeignAnswer
from steelyard.web.access import Access
from steelyard.web.app import create_app
from steelyard.web.auth import COOKIE, digest
from steelyard.web.guests import settle
from steelyard.web.many import base_of, create_many, read_people
from steelyard.web.oidc import ProviderSettings
from steelyard.web.passwords import Passwords
from tests.web.actors import Client, Enter, MakeStudy, Open, Server
from tests.web.conftest import admit

# ada runs the home, sam runs skin and is an annotator at home; eve lives at home and belongs nowhere else.
PEOPLE = {
    "colon": {"ada": "admin", "sam": "annotator", "kt": "annotator", "eve": "annotator"},
    "skin": {"sam": "admin", "kt": "lead", "mo": "admin"},
    "lung": {"ada": "admin", "kt": "annotator"},
}
PASSWORD = "violet anchor tundra spoon"
Town = dict[str, Server]


@pytest.fixture
def settle_town(make_study: MakeStudy, run_app: Callable[[Any], str]) -> Callable[..., Town]:
    """Three studies of one server whose people live in colon."""

    def start(**given: Any) -> Town:
        access = Access(login=True, **given)
        studies = {name: make_study(name, name=name.title()) for name in PEOPLE}
        secrets = {name: admit(study, PEOPLE[name]) for name, study in studies.items()}
        apps: dict[str, Any] = {}
        for name, study in studies.items():
            apps[name] = create_app(study, access=access, base=base_of(name), home=apps.get("colon"))
        root = run_app(create_many(apps, access=access))
        return {
            name: Server(study, f"{root}/s/{name}", secrets[name], apps[name])
            for name, study in studies.items()
        }

    return start


@pytest.fixture
def town(settle_town: Callable[..., Town]) -> Town:
    return settle_town()


def me(person: httpx.Client, server: Server) -> tuple[int, str]:
    reply = person.get(f"{server.url}/api/v1/me")
    return reply.status_code, reply.json().get("role") or reply.json().get("code")


def test_one_sign_in_is_a_name_in_each_study_with_the_role_it_has_there(town: Town, enter: Enter) -> None:
    kt = enter(town["colon"], "kt")
    assert [me(kt, one) for one in town.values()] == [(200, "annotator"), (200, "lead"), (200, "annotator")]
    assert kt.get(f"{town['skin'].url}/api/v1/ranking").status_code != 403
    assert kt.get(f"{town['lung'].url}/api/v1/ranking").status_code == 403, "blind where the study says so"
    listed = kt.get(town["colon"].url.rsplit("/s/", 1)[0] + "/").text
    assert [f'href="/s/{name}/"' in listed for name in town] == [True] * 3
    eve = enter(town["colon"], "eve")
    assert me(eve, town["skin"]) == (403, "unknown")
    listed = eve.get(town["colon"].url.rsplit("/s/", 1)[0] + "/").text
    assert [f'href="/s/{name}/"' in listed for name in town] == [True, False, False]


def test_secrets_of_another_study_open_nothing(town: Town) -> None:
    """Links, passwords and sessions that skin made, before or after, and cookies of 0.1 with them."""
    colon, skin, lung = town.values()
    store = skin.study.store.people
    store.set_password("kt", Passwords().hash(PASSWORD))
    for body in ({"link": skin.secrets["sam"]}, {"name": "kt", "password": PASSWORD}):
        refused = httpx.post(f"{skin.url}/api/v1/session", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "home")
        assert "set-cookie" not in refused.headers
        assert httpx.post(f"{colon.url}/api/v1/session", json=body).status_code == 401
    store.sessions.add(digest("planted"), "sam", "token", expires=4e9)
    own = f"{COOKIE}_{skin.study.store.settings.keep('study id', '')}"
    for name in (own, COOKIE, colon.app.state.web.accounts.cookie):
        with httpx.Client(cookies={name: "planted"}, headers={"X-CSRF-Token": "token"}) as thief:
            assert [me(thief, one)[0] for one in (colon, skin, lung)] == [401] * 3


def test_the_admin_of_a_study_gains_nothing_elsewhere(town: Town, enter: Enter) -> None:
    colon, skin, lung = town.values()
    sam = enter(colon, "sam")
    assert me(sam, skin) == (200, "admin")
    at = f"{skin.url}/api/v1"
    before = [one.study.store.people.all() for one in (colon, lung)]
    for name in ("ada", "sam", "kt"):
        for method, path, body in (
            ("POST", "link", {}),
            ("POST", "password", {"password": PASSWORD}),
            ("DELETE", "sessions", None),
        ):
            reply = sam.request(method, f"{at}/annotators/{name}/{path}", json=body)
            assert (reply.status_code, reply.json()["code"]) == (403, "home"), (name, path)
    added = sam.post(f"{at}/annotators", json={"name": "ada", "role": "annotator"})
    assert added.status_code == 201
    unknown = sam.post(f"{at}/annotators", json={"name": "zoe", "role": "admin"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "home")
    assert "Colon" in unknown.json()["detail"]
    token = sam.post(f"{at}/tokens", json={"label": "x", "scope": "full"}).json()["token"]
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as program:
        assert [me(program, one)[0] for one in (colon, skin, lung)] == [401, 200, 401]
    assert [one.study.store.people.all() for one in (colon, lung)] == before
    assert [me(sam, one) for one in (colon, lung)] == [(200, "annotator"), (403, "unknown")]
    for one in (colon, lung):
        assert sam.post(f"{one.url}/api/v1/annotators", json={"name": "eve"}).status_code == 403


def test_names_at_home_are_offered_to_admins_only(town: Town, enter: Enter) -> None:
    skin = town["skin"]
    listed = enter(town["colon"], "sam").get(f"{skin.url}/api/v1/annotators").json()
    assert (listed["home"], listed["offered"]) == ("Colon", ["ada", "eve"])
    assert {one["name"]: one["at_home"] for one in listed["annotators"]} == {
        "kt": True, "mo": False, "sam": True,
    }  # fmt: skip
    assert not any(one["has_link"] for one in listed["annotators"])
    assert enter(town["colon"], "kt").get(f"{skin.url}/api/v1/annotators").json()["offered"] == []


def test_the_last_admin_who_can_sign_in_stays(town: Town, enter: Enter) -> None:
    """mo is admin of skin as well, but lives nowhere."""
    sam = enter(town["colon"], "sam")
    reply = sam.patch(f"{town['skin'].url}/api/v1/annotators/sam", json={"role": "lead"})
    assert reply.status_code == 409


def test_closed_at_home_is_closed_everywhere_at_once(town: Town, enter: Enter) -> None:
    colon, skin, lung = town.values()
    ada, kt = enter(colon, "ada"), enter(colon, "kt")
    token = kt.post(f"{skin.url}/api/v1/tokens", json={"label": "x", "scope": "read"}).json()["token"]
    program = httpx.Client(headers={"Authorization": f"Bearer {token}"})
    assert [me(kt, one)[0] for one in town.values()] == [200] * 3
    assert me(program, skin)[0] == 200
    assert ada.patch("/api/v1/annotators/kt", json={"active": False}).status_code == 200
    assert [me(kt, one)[0] for one in (colon, skin, lung)] == [401] * 3
    assert me(program, skin)[0] == 401, "nor by a token that another study made"
    program.close()


def test_closed_in_one_study_is_closed_there_only(town: Town, enter: Enter) -> None:
    sam, kt = enter(town["colon"], "sam"), enter(town["colon"], "kt")
    assert me(kt, town["skin"])[0] == 200
    assert sam.patch(f"{town['skin'].url}/api/v1/annotators/kt", json={"active": False}).status_code == 200
    assert [me(kt, one)[0] for one in town.values()] == [200, 403, 200]
    page = kt.get(f"{town['skin'].url}/compare", headers={"Accept": "text/html"})
    assert page.status_code == 403, "and not round and round between two pages"


@pytest.mark.parametrize("where", list(PEOPLE))
def test_signed_out_anywhere_is_signed_out_of_all(town: Town, enter: Enter, where: str) -> None:
    kt = enter(town["colon"], "kt")
    assert [me(kt, one)[0] for one in town.values()] == [200] * 3
    kept = dict(kt.cookies)
    assert kt.delete(f"{town[where].url}/api/v1/session").status_code == 204
    with httpx.Client(cookies=kept) as thief:
        assert [me(thief, one)[0] for one in town.values()] == [401] * 3


def test_a_forged_change_is_refused_in_every_study(town: Town, enter: Enter) -> None:
    sam = enter(town["colon"], "sam")
    other = Client(town["colon"]).sign_in("kt")
    for server in (town["colon"], town["skin"]):
        url = f"{server.url}/api/v1/tokens"
        for headers in (
            {"X-CSRF-Token": ""},
            {"X-CSRF-Token": other.csrf},
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            reply = sam.post(url, json={"label": "x"}, headers=headers)
            assert reply.status_code == 403, headers
            assert reply.json()["code"] in ("csrf", "origin")
        assert server.study.store.people.tokens.all() == []
    other.close()


def test_no_file_opens_the_door(town: Town, enter: Enter, tmp_path: Path) -> None:
    """A name in somebody's answers, or an admin in somebody's study, is nobody who was added here."""
    colon, skin, lung = town.values()
    eve, sam = enter(colon, "eve"), enter(colon, "sam")
    told = ForeignAnswer("x1", 0, 1, Answer.LEFT, "eve")
    assert skin.study.store.answers.import_all([told], actor="cli").added == 1
    export_study(skin.study, tmp_path / "skin.zip")
    import_study(lung.study, tmp_path / "skin.zip", by="cli")
    for server in (skin, lung):
        server.app.state.web.accounts.forget()
        assert me(eve, server) == (403, "unknown"), "her answers count, and that is all"
        assert server.study.store.answers.count("eve") == 1
    assert me(sam, lung) == (403, "unknown"), "admin of skin, where the file came from"
    ada = enter(colon, "ada")
    at = f"{lung.url}/api/v1/annotators/sam"
    assert ada.patch(at, json={"active": True, "role": "annotator"}).status_code == 200
    assert me(sam, lung) == (200, "annotator")


def test_the_way_back_leads_to_a_page_of_these_studies(town: Town) -> None:
    colon, skin, _ = town.values()
    with httpx.Client() as stranger:
        first = stranger.get(f"{skin.url}/ranking")
        assert first.headers["location"] == "/s/skin/login?next=/ranking"
        second = stranger.get(skin.url.rsplit("/s/", 1)[0] + first.headers["location"])
        assert second.headers["location"] == "/s/colon/login?next=/s/skin/ranking"

        def onwards(given: str) -> str:
            page = stranger.get(f"{colon.url}/login?next={quote(given)}").text
            return page.split('"onwards": "')[1].split('"')[0]

        assert onwards("/s/skin/ranking") == "/s/skin/ranking"
        assert onwards("/progress") == "/s/colon/progress"
        for evil in ("//evil.example", "/s/skin//evil.example", "/s/skin/../../x", "/s/skin\\evil", "/s/skin/",
                     "/s/skinny/ranking", "/s/nothing/ranking", "https://evil.example/s/skin/ranking",
                     "/s/skin/ranking@evil.example", "/s/colon/ranking", "/\t/evil.example"):  # fmt: skip
            assert onwards(evil) == "/s", evil
            there = stranger.get(f"{skin.url}/login?next={quote(evil)}").headers["location"]
            assert there == "/s/colon/login?next=/s/skin/compare"
        assert stranger.get(colon.url.rsplit("/s/", 1)[0] + "/s").headers["location"] == "/"


def test_a_signature_asks_for_the_password_of_home(town: Town, enter: Enter) -> None:
    colon, skin, _ = town.values()
    colon.study.store.people.set_password("kt", Passwords().hash(PASSWORD))
    skin.study.store.people.set_password("kt", Passwords().hash("another one, of skin alone"))
    kt = Client(colon)
    signed = kt.post("/api/v1/session", json={"name": "kt", "password": PASSWORD}).json()
    kt.headers["X-CSRF-Token"] = signed["csrf"]
    said = {"meaning": "approved", "password": "another one, of skin alone"}
    assert kt.post(f"{skin.url}/api/v1/signatures", json=said).status_code == 403
    assert kt.post(f"{skin.url}/api/v1/signatures", json=said | {"password": PASSWORD}).status_code == 201
    kt.close()


def test_a_provider_signs_on_at_home_only(
    settle_town: Callable[..., Town], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.web.oidc.Provider.address", lambda self, **_: "https://id.example/")
    town = settle_town(provider=ProviderSettings("https://id.example", "steelyard"))
    assert httpx.get(f"{town['colon'].url}/login/oidc").headers["location"] == "https://id.example/"
    assert httpx.get(f"{town['skin'].url}/login/oidc").status_code == 404


def test_a_study_without_an_admin_gets_those_of_home_at_the_start(make_study: MakeStudy) -> None:
    home, new, old = (make_study(name, name=name.title()) for name in ("colon", "new", "old"))
    admit(home, {"ada": "admin", "ben": "admin", "kt": "annotator"})
    admit(old, {"mo": "admin", "ada": "annotator"})
    assert settle(new, home) == [
        f"New: {name}, admin of Colon, is its admin now, for it had none who can sign in."
        for name in ("ada", "ben")
    ]
    assert settle(new, home) == []
    said = settle(old, home)
    assert said[0].startswith("Old: ben, admin of Colon")
    assert old.store.people.get("ada").role == "annotator", "who works there blind stays so"
    assert "Warning: ada had an account of their own in Old" in said[1]
    noted = [entry for entry in new.store.audit.log() if entry.action.startswith("admin taken")]
    assert [entry.actor for entry in noted] == ["server", "server"]


@pytest.mark.parametrize(
    ("name", "called", "change", "why"),
    [
        ("colon", ["", ""], {}, "several studies"),
        ("lung", ["colon", "skin"], {}, "no study of this server; it serves colon, skin"),
        ("colon", ["colon", "skin"], {"header": "X-Remote-User"}, "does not go with --auth-header"),
        ("colon", ["colon", "skin"], {"login": False}, "nobody signing in"),
    ],
)
def test_what_does_not_go_together_is_said(
    name: str, called: list[str], change: dict[str, Any], why: str
) -> None:
    access = dataclasses.replace(Access(login=True), **change)
    with pytest.raises(ConfigError, match=why):
        read_people(name, {one: Path(one) for one in called}, access)
    assert read_people("", {"": Path("colon")}, access) is None
    assert read_people("colon", {"colon": Path("colon")}, Access(login=True)) == "colon"


@pytest.mark.browser
def test_one_sign_in_two_studies_one_sign_out(town: Town, window: Open) -> None:
    colon, skin, lung = town.values()
    root = colon.url.rsplit("/s/", 1)[0]
    colon.study.store.people.set_password("kt", Passwords().hash(PASSWORD))
    lung.study.store.people.update("kt", active=False)
    user = window(colon)
    user.page.goto(root + "/")
    user.shot("people-start-nobody")
    user.page.click("a.button.primary")
    user.page.fill("#login [name=name]", "kt")
    user.page.fill("#login [name=password]", PASSWORD)
    user.page.click("#login button")
    user.page.wait_for_url(root + "/")
    assert user.page.locator(".start-study").count() == 2
    user.shot("people-start")
    user.page.set_viewport_size({"width": 390, "height": 844})
    user.shot("people-start-phone")
    user.page.set_viewport_size({"width": 1280, "height": 800})
    for server in (colon, skin):
        user.page.goto(f"{server.url}/compare")
        user.pair()
        user.press("ArrowLeft")
        user.saved()
        assert server.study.store.answers.count("kt") == server.study.store.answers.count() == 1
    user.page.goto(root + "/")
    user.page.click("text=Sign out of all studies")
    user.page.wait_for_url("**/login")
    for server, back in ((colon, "/progress"), (skin, "/s/skin/progress")):
        user.page.goto(f"{server.url}/progress")
        user.page.wait_for_url(f"{colon.url}/login?next={back}")


@pytest.mark.browser
def test_the_admin_page_of_a_study_whose_people_live_elsewhere(town: Town, window: Open) -> None:
    colon, skin, _ = town.values()
    user = window(colon)
    user.page.goto(colon.link("sam"))
    user.page.wait_for_url(colon.url.rsplit("/s/", 1)[0] + "/")
    user.page.goto(f"{skin.url}/admin")
    user.page.wait_for_selector("#people tr:has-text('sam')")
    assert user.page.locator("#people-offered option").count() == 2
    assert user.page.locator("text=Set password").count() == 0
    user.page.fill("#people-add [name=name]", "eve")
    user.page.click("#people-add button")
    user.page.wait_for_selector("#people tr:has-text('eve')")
    user.shot("people-admin")
    user.page.set_viewport_size({"width": 390, "height": 844})
    user.shot("people-admin-phone")
