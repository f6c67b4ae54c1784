"""Two studies served by one machine: browsers send a cookie to every port of a host, and neither may suffer from it."""

from __future__ import annotations

import httpx
import pytest

from steelyard.study import Study
from steelyard.web.access import Access
from steelyard.web.auth import COOKIE, digest
from steelyard.web.oidc import ProviderSettings
from tests.web.actors import MakeStudy, Open, Serve, Server


@pytest.fixture
def servers(make_study: MakeStudy, serve: Serve) -> list[Server]:
    return [serve(make_study(name, name=name), {"ada": "admin"}) for name in ("one", "two")]


def _names(browser: httpx.Client, servers: list[Server]) -> list[int]:
    return [browser.get(f"{server.url}/api/v1/me").status_code for server in servers]


def test_signing_in_to_one_leaves_the_other_signed_in(servers: list[Server]) -> None:
    with httpx.Client() as browser:
        for server in servers:
            browser.post(f"{server.url}/api/v1/session", json={"link": server.secrets["ada"]})
        assert _names(browser, servers) == [200, 200]
        csrf = browser.get(f"{servers[0].url}/api/v1/me").json()["csrf"]
        out = browser.delete(f"{servers[0].url}/api/v1/session", headers={"X-CSRF-Token": csrf})
        assert out.status_code == 204
        assert _names(browser, servers) == [401, 200], "signing out of one is signing out of one"


def test_one_browser_is_signed_in_to_both(servers: list[Server], window: Open) -> None:
    user = window(servers[0])
    for server in servers:
        user.page.goto(server.link("ada"))
        user.page.wait_for_url(f"{server.url}/compare")
    for server in servers:
        user.page.goto(f"{server.url}/admin")
        user.page.wait_for_selector("#people tr:has-text('ada')")
    cookies = {cookie["name"] for cookie in user.context.cookies()}
    assert {server.app.state.web.accounts.cookie for server in servers} <= cookies
    assert user.errors == []


def test_a_session_of_0_1_goes_on_and_ends_for_good(study: Study, serve: Serve) -> None:
    """0.1 had one name of a cookie for all studies; nobody is signed out by an upgrade."""
    server = serve(study, {"ada": "admin"})
    study.store.people.sessions.add(digest("of 0.1"), "ada", "token", expires=4e9)
    with httpx.Client(base_url=server.url, cookies={COOKIE: "of 0.1"}) as browser:
        assert browser.get("/api/v1/me").json()["csrf"] == "token"
        signed = browser.post("/api/v1/session", json={"link": server.secrets["ada"]})
        assert signed.status_code == 200
        browser.delete("/api/v1/session", headers={"X-CSRF-Token": signed.json()["csrf"]})
        assert browser.get("/api/v1/me").status_code == 401, "the older session does not outlive signing out"


def test_the_old_cookie_of_another_study_is_nobody_and_in_nobodys_way(servers: list[Server]) -> None:
    servers[1].study.store.people.sessions.add(digest("of 0.1"), "ada", "token", expires=4e9)
    with httpx.Client(cookies={COOKIE: "of 0.1"}) as browser:
        assert _names(browser, servers) == [401, 200]
        browser.post(f"{servers[0].url}/api/v1/session", json={"link": servers[0].secrets["ada"]})
        assert _names(browser, servers) == [200, 200]


def test_programs_find_the_name_of_the_cookie_in_the_document(servers: list[Server]) -> None:
    names = [server.app.openapi()["components"]["securitySchemes"]["session"]["name"] for server in servers]
    assert names == [server.app.state.web.accounts.cookie for server in servers]
    assert names[0] != names[1]
    for server, name in zip(servers, names, strict=True):
        reply = httpx.post(f"{server.url}/api/v1/session", json={"link": server.secrets["ada"]})
        assert name in reply.cookies


def test_two_sign_ons_may_be_under_way(
    make_study: MakeStudy, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.web.oidc.Provider.address", lambda self, **_: "https://id.example/")
    access = Access(login=True, provider=ProviderSettings("https://id.example", "steelyard"))
    with httpx.Client() as browser:
        for name in ("one", "two"):
            browser.get(f"{serve(make_study(name), access=access).url}/login/oidc")
        assert sum(cookie.name.startswith("steelyard_oidc") for cookie in browser.cookies.jar) == 2
