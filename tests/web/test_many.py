"""Several studies behind one address: each as if it were alone, and nobody learns of another's."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.errors import ConfigError
from steelyard.study import Study
from steelyard.web import trainer
from steelyard.web.access import Access, read_proxies
from steelyard.web.app import create_app
from steelyard.web.many import base_of, create_many, find_studies, names_of
from steelyard.web.oidc import ProviderSettings
from tests.waiting import until
from tests.web.actors import Client, Enter, MakeStudy, Open, Server
from tests.web.conftest import admit

PEOPLE = {"colon": {"ada": "admin", "kt": "annotator"}, "skin": {"mo": "lead", "kt": "annotator"}}
QUESTION = {"colon": "Which is redder?", "skin": "Which is drier?"}
ServeMany = Callable[..., list[Server]]


@pytest.fixture
def serve_many(make_study: MakeStudy, run_app: Callable[[Any], str]) -> ServeMany:
    """The two studies of one server, each with its address."""

    def start(*, login: bool = True, **access: Any) -> list[Server]:
        studies = {name: make_study(name, page={"question": asked}) for name, asked in QUESTION.items()}
        given = Access(login=login, **access)
        secrets = {name: admit(study, PEOPLE[name] if login else {}) for name, study in studies.items()}
        apps = {name: create_app(study, access=given, base=base_of(name)) for name, study in studies.items()}
        for app in apps.values():
            app.state.web.accounts.key = apps["colon"].state.web.accounts.key
        root = run_app(create_many(apps, access=given))
        return [
            Server(study, f"{root}/s/{name}", secrets[name], apps[name]) for name, study in studies.items()
        ]

    return start


@pytest.fixture
def two(serve_many: ServeMany) -> list[Server]:
    return serve_many()


def root_of(server: Server) -> str:
    return server.url.rsplit("/s/", 1)[0]


def test_whoever_is_signed_in_sees_their_studies_and_no_other(two: list[Server], enter: Enter) -> None:
    colon, skin = two
    with httpx.Client() as stranger:
        page = stranger.get(root_of(colon) + "/")
        assert page.status_code == 200
        assert "No study here knows you yet" in page.text
        for secret in ("colon", "skin", *QUESTION.values()):
            assert secret not in page.text
    mo = enter(skin, "mo")
    page = mo.get(root_of(skin) + "/")
    assert QUESTION["skin"] in page.text
    assert 'href="/s/skin/"' in page.text
    assert "colon" not in page.text
    assert QUESTION["colon"] not in page.text
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_session_of_one_study_is_nobody_in_the_other(two: list[Server], enter: Enter) -> None:
    """Not even where both know somebody of that name: accounts are each study's own."""
    colon, skin = two
    kt = enter(colon, "kt")
    [pair] = kt.lease()
    assert kt.answer(pair).status_code == 201
    token = enter(colon, "ada").post("/api/v1/tokens", json={"label": "x", "scope": "full"}).json()["token"]
    there = httpx.Client(base_url=skin.url, cookies=kt.cookies, headers=kt.headers)
    with there, httpx.Client(base_url=skin.url, headers={"Authorization": f"Bearer {token}"}) as program:
        for who in (there, program):
            for path in ("/api/v1/me", "/api/v1/study", "/api/v1/annotators", "/api/v1/export?format=csv"):
                assert who.get(path).status_code == 401
            assert who.post("/api/v1/pairs/lease", json={"count": 1}).status_code in (401, 403)
            # Its pictures neither, by the ids of either study, nor by a path that leads out of the one and into the other.
            for id in (pair["left"], skin.public(0)):
                assert who.get(f"/api/v1/images/{id}/pixels").status_code == 401
    outside = httpx.URL(root_of(colon)).copy_with(raw_path=b"/s/colon/../skin/api/v1/study")
    assert kt.get(outside).status_code in (401, 404)
    assert kt.get(f"/api/v1/images/{skin.public(0)}/pixels").status_code == 404
    assert skin.study.store.answers.count() == 0
    assert colon.study.store.answers.count() == 1


def test_a_personal_link_works_where_it_was_made(two: list[Server], enter: Enter) -> None:
    colon, skin = two
    ada = enter(colon, "ada")
    made = ada.post("/api/v1/annotators/kt/link", json={}).json()
    assert made["url"].startswith(f"{colon.url}/login#link=")
    secret = made["url"].split("link=")[1]
    assert httpx.post(f"{skin.url}/api/v1/session", json={"link": secret}).status_code == 401
    assert httpx.post(f"{colon.url}/api/v1/session", json={"link": secret}).status_code == 200


def test_addresses_and_cookies_stay_below_the_study(two: list[Server], enter: Enter) -> None:
    colon = two[0]
    with httpx.Client() as browser:
        for path, to in (
            ("/", "/s/colon/compare"),
            ("/ranking", "/s/colon/login?next=/ranking"),
            ("/compare/", f"{colon.url}/compare"),
        ):
            assert browser.get(colon.url + path).headers["location"] == to, path
        assert browser.get(root_of(colon) + "/s/colon").headers["location"] == "/s/colon/compare"
        assert browser.get(root_of(colon) + "/s/nothing/compare").status_code == 404
        assert browser.get(root_of(colon) + "/compare").status_code == 404
        signed = browser.post(f"{colon.url}/api/v1/session", json={"link": colon.secrets["ada"]})
        paths = {
            cookie.split("=")[0].rsplit("_", 1)[0]: re.search(r"[Pp]ath=([^;]+)", cookie)[1]  # type: ignore[index]
            for cookie in signed.headers.get_list("set-cookie")
        }
        assert paths == {"steelyard_session": "/", "steelyard_device": "/s/colon/api/v1/session"}
    ada = enter(colon, "ada")
    for page in ("/compare", "/grade", "/ranking", "/progress", "/agreement", "/model", "/admin", "/api"):
        text = ada.get(page).text
        out = [
            to for to in re.findall(r'(?:href|src|action)="(/[^"]*)"', text) if not to.startswith("/s/colon/")
        ]
        assert [to for to in out if not to.startswith("/static/")] == ["/"], (
            f"{page} leads out to the start page only"
        )


def test_the_name_of_a_study_leads_to_where_one_signs_in(two: list[Server]) -> None:
    root = root_of(two[0])
    with httpx.Client(base_url=root) as browser:
        assert browser.get("/s", params={"name": " skin "}).headers["location"] == "/s/skin/login"
        assert browser.get("/s", params={"name": "//evil.example"}).headers["location"] == "/?name="
        assert "There is no study of that name here" in browser.get("/?name=").text
        assert browser.post("/").status_code == 405


def test_a_proxy_names_somebody_once_for_all_studies(serve_many: ServeMany) -> None:
    colon, skin = serve_many(proxies=read_proxies(["127.0.0.1"]), header="X-Remote-User")
    with (
        httpx.Client(headers={"X-Remote-User": "kt"}) as kt,
        httpx.Client(headers={"X-Remote-User": "mo"}) as mo,
    ):
        assert [QUESTION[name] in kt.get(root_of(colon) + "/").text for name in QUESTION] == [True, True]
        assert [QUESTION[name] in mo.get(root_of(colon) + "/").text for name in QUESTION] == [False, True]
        assert [mo.get(f"{one.url}/api/v1/me").status_code for one in (colon, skin)] == [403, 200]
        roles = [
            mo.get(f"{skin.url}/api/v1/me").json()["role"],
            kt.get(f"{skin.url}/api/v1/me").json()["role"],
        ]
        assert roles == ["lead", "annotator"], "roles are each study's"


def test_a_sign_on_comes_back_to_its_study(serve_many: ServeMany, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def address(self: Any, *, redirect: str, **_: Any) -> str:
        asked.append(redirect)
        return "https://id.example/"

    monkeypatch.setattr("steelyard.web.oidc.Provider.address", address)
    colon, _ = serve_many(provider=ProviderSettings("https://id.example", "steelyard"))
    went = httpx.get(f"{colon.url}/login/oidc")
    assert went.headers["location"] == "https://id.example/"
    assert asked == [f"{colon.url}/login/oidc/callback"]
    assert "Path=/s/colon/login/oidc" in went.headers["set-cookie"]


def test_a_provider_on_the_same_host_is_left_where_it_is(
    serve_many: ServeMany, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://hospital.example has the studies, and its provider below /auth."""
    colon, _ = serve_many(provider=ProviderSettings("https://id.example", "steelyard"))
    there = f"{root_of(colon)}/auth/realms/clinic?client_id=steelyard"
    monkeypatch.setattr("steelyard.web.oidc.Provider.address", lambda *_, **__: there)
    assert httpx.get(f"{colon.url}/login/oidc").headers["location"] == there


def test_probes_tell_of_all_and_of_each(two: list[Server], monkeypatch: pytest.MonkeyPatch) -> None:
    colon, skin = two
    root = root_of(colon)
    assert httpx.get(root + "/healthz").text == "ok\n"
    assert httpx.get(root + "/readyz").json() == {"ready": True}
    skin.study.close()
    monkeypatch.setattr(skin.app.state.readiness, "_ask", lambda _: _away())
    until(lambda: httpx.get(root + "/readyz").status_code == 503, "the store being gone")
    assert httpx.get(f"{colon.url}/readyz").status_code == 200


async def _away() -> str:
    return "the database is away"


def test_names_in_addresses(tmp_path: Path, make_study: MakeStudy) -> None:
    assert list(names_of([tmp_path / "colon", tmp_path / "skin, dry"])) == ["colon", "skin-dry"]
    with pytest.raises(ConfigError, match="rename one of the two"):
        names_of([tmp_path / "a" / "colon", tmp_path / "b" / "colon"])
    with pytest.raises(ConfigError, match="none that an address can hold"):
        names_of([tmp_path / "結腸"])
    with pytest.raises(ConfigError, match="holds no study"):
        find_studies(tmp_path)
    made = make_study("colon")
    assert find_studies(tmp_path) == [made.folder]


def test_nobody_at_work_means_no_process_that_chooses(
    make_study: MakeStudy, enter: Enter, run_app: Any
) -> None:
    """With many studies, memory is for those that somebody works on."""
    studies: dict[str, Study] = {name: make_study(name) for name in ("colon", "skin")}
    access = Access(login=True)
    secrets = {name: admit(study, {"kt": "annotator"}) for name, study in studies.items()}
    apps = {
        name: create_app(study, access=access, base=base_of(name), apart=True)
        for name, study in studies.items()
    }
    root = run_app(create_many(apps, access=access))
    kt: Client = enter(Server(studies["colon"], f"{root}/s/colon", secrets["colon"], apps["colon"]), "kt")
    kt.lease()

    def child(name: str) -> Any:
        return apps[name].state.web.chooser._child._process

    assert child("colon") is not None
    assert child("skin") is None
    asker = apps["colon"].state.web.asker
    asker._seen = {"kt": -1e9}  # hours ago
    until(lambda: child("colon") is None, "the end of the process")
    assert apps["colon"].state.web.chooser.draft(1), "it comes back when it is asked"


def test_one_trainer_goes_round_all_studies(
    make_study: MakeStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be opened, or has nothing to do, is in nobody's way."""
    studies = [make_study(name, refit_after=5) for name in ("colon", "idle", "skin")]
    colon, idle, skin = studies
    for study in (colon, skin):
        for pair in study.ask(8):
            study.tell(pair, "left")
    alive = threading.Event()
    alive.set()
    monkeypatch.setattr(trainer, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(trainer, "step_back", lambda _: None)
    monkeypatch.setattr("os.getppid", lambda: 4711 if alive.is_set() else 1)
    folders = [tmp_path / "gone", *(study.folder for study in studies)]
    at_work = threading.Thread(target=trainer.run_for_many, args=(folders, 4711))
    at_work.start()
    try:
        until(lambda: colon.store.models.newest() and skin.store.models.newest(), "a model of each")
        for pair in colon.ask(6):
            colon.tell(pair, "left")
        until(lambda: len(colon.store.models.all()) == 2, "a second model")
    finally:
        alive.clear()
        at_work.join()
    assert idle.store.models.all() == []
    assert [study.store.models.trainer.state().owner for study in studies] == [None] * 3


@pytest.mark.browser
def test_the_start_page_and_a_study_below_it(serve_many: ServeMany, window: Open) -> None:
    colon, skin = serve_many()
    user = window(colon)
    user.page.goto(root_of(colon) + "/")
    user.shot("start-nobody")
    for server in (colon, skin):
        user.page.goto(server.link("kt"))
        user.page.wait_for_url(f"{server.url}/compare")
    user.compare()
    user.press("ArrowLeft")
    user.saved()
    user.page.goto(root_of(colon) + "/")
    assert user.page.locator(".start-study").count() == 2
    assert "1 answer of yours" in str(user.page.locator(".start-study").first.text_content())
    user.shot("start")
    user.page.set_viewport_size({"width": 390, "height": 844})
    user.shot("start-phone")
    user.page.click(".start-study >> nth=0")
    user.page.wait_for_url(f"{colon.url}/compare")
    user.pair()
    assert colon.study.store.answers.count() == 1
    assert skin.study.store.answers.count() == 0


@pytest.mark.browser
def test_the_link_of_a_start_opens_all_studies_of_this_machine(serve_many: ServeMany, browser: Any) -> None:
    colon, _ = serve_many(login=False)
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{root_of(colon)}/#key=wrong&studies=colon,skin")
    page.wait_for_selector("#start-note:visible")
    page.goto(f"{root_of(colon)}/#key={colon.key}&studies=colon,skin")
    page.wait_for_selector(".start-study")
    assert page.locator(".start-study").count() == 2
    assert "key" not in page.url
    context.close()
