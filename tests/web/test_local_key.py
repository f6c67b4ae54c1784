"""On 127.0.0.1 one person works without an account – and the machine's other users do not."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from steelyard.study import Study
from steelyard.web.access import Access
from steelyard.web.auth import digest
from tests.web.actors import Enter, MakeStudy, Open, Serve


def test_without_the_key_nothing_opens(study: Study, serve: Serve) -> None:
    """Any user of the machine can reach the port; none of its pages and routes answers them."""
    server = serve(study)
    with httpx.Client(base_url=server.url) as stranger:
        for page in ("/compare", "/grade", "/ranking", "/progress", "/model", "/admin"):
            reply = stranger.get(page)
            assert (reply.status_code, reply.headers["location"]) == (303, f"/login?next={page}")
        door = stranger.get("/login")
        assert "link that Steelyard printed in its terminal" in door.text
        assert server.key not in door.text
        document = server.app.openapi()
        for path, methods in document["paths"].items():
            filled = path.replace("{id}", "0" * 32).replace("{name}", "you")
            for method in methods:
                if (method, path) == ("post", "/api/v1/session"):
                    continue
                reply = stranger.request(method, filled, json={})
                assert reply.status_code == 401, (method, path)
                assert "printed in its terminal" in reply.json()["detail"]
        for guess in ({"key": "guess"}, {"key": "ü"}, {"link": "x"}, {"name": "you", "password": "x"}):
            assert stranger.post("/api/v1/session", json=guess).status_code == 401, guess
        assert (
            stranger.get("/api/v1/me", headers={"Authorization": f"Bearer {server.key}"}).status_code == 401
        )
    assert study.store.people.tokens.all() == []


def test_the_key_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(study: Study, serve: Serve) -> None:
    server = serve(study)
    reply = httpx.post(f"{server.url}/api/v1/session", json={"key": server.key})
    issued = reply.headers["set-cookie"]
    assert "HttpOnly" in issued
    assert "SameSite=strict" in issued
    assert server.key not in issued
    assert reply.json()["role"] == "admin"
    assert reply.json()["needs_password"] is False
    evil = httpx.post(
        f"{server.url}/api/v1/session", json={"key": server.key}, headers={"Origin": "http://127.0.0.1:9"}
    )
    assert evil.status_code == 403


def test_the_key_is_new_with_each_start_and_the_session_goes_on(
    study: Study, serve: Serve, enter: Enter
) -> None:
    """A page that was open while the server restarted goes on; an old link opens nothing."""
    first = serve(study)
    person = enter(first)
    [pair] = person.lease()
    second = serve(study)
    assert second.key != first.key
    old = httpx.post(f"{second.url}/api/v1/session", json={"key": first.key})
    assert old.status_code == 401
    person.base_url = httpx.URL(second.url)
    assert person.answer(pair).status_code == 201, "same cookie, same CSRF token"


def test_two_studies_on_one_machine_do_not_sign_each_other_out(make_study: MakeStudy, serve: Serve) -> None:
    """Cookies do not know ports."""
    servers = [serve(make_study(name)) for name in ("one", "two")]
    with httpx.Client() as browser:
        for server in servers:
            browser.post(f"{server.url}/api/v1/session", json={"key": server.key})
        assert [browser.get(f"{server.url}/api/v1/me").status_code for server in servers] == [200, 200]


def test_what_was_made_without_signing_in_is_worth_nothing_where_people_sign_in(
    study: Study, serve: Serve, enter: Enter
) -> None:
    local = serve(study)
    person = enter(local)
    token = person.post("/api/v1/tokens", json={"label": "script"}).json()["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{local.url}/api/v1/annotators", headers=bearer).status_code == 200
    team = serve(study, {"ada": "admin"})
    assert httpx.get(f"{team.url}/api/v1/me", headers=bearer).status_code == 401
    [cookie] = [(c.name, c.value) for c in person.cookies.jar]
    for name in (cookie[0], "steelyard_session"):
        assert httpx.get(f"{team.url}/api/v1/me", cookies={name: cookie[1]}).status_code == 401
    assert httpx.post(f"{team.url}/api/v1/session", json={"key": local.key}).status_code == 401
    assert httpx.post(f"{team.url}/api/v1/session", json={"key": ""}).status_code == 422
    ada = enter(team, "ada")
    hers = ada.post("/api/v1/tokens", json={"label": "script"}).json()["token"]
    back = httpx.get(f"{local.url}/api/v1/me", headers={"Authorization": f"Bearer {hers}"})
    assert back.status_code == 401


def test_a_token_that_0_1_made_stays_in_its_mode(study: Study, serve: Serve) -> None:
    """The migration takes tokens of “you” for local ones, all others for those of people who sign in."""
    for name in ("you", "ada"):
        study.store.people.add(name, role="admin")
        study.store.people.tokens.add(digest(name), name, "0.1", mode="local" if name == "you" else "login")
    servers = {"local": serve(study), "login": serve(study, access=Access(login=True))}
    seen = {
        (mode, name): httpx.get(
            f"{server.url}/api/v1/me", headers={"Authorization": f"Bearer {name}"}
        ).status_code
        for mode, server in servers.items()
        for name in ("you", "ada")
    }
    assert seen == {
        ("local", "you"): 200,
        ("local", "ada"): 401,
        ("login", "you"): 401,
        ("login", "ada"): 200,
    }


def test_a_deactivated_you_is_still_the_owner_of_this_machine(
    study: Study, serve: Serve, enter: Enter
) -> None:
    study.store.people.add("you")
    study.store.people.update("you", active=False)
    assert enter(serve(study)).get("/admin").status_code == 200


def test_the_printed_link_opens_the_page(make_study: MakeStudy, browser: object) -> None:
    """`steelyard serve` as people start it: the link of its first line, in a browser."""
    study = make_study()
    study.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "steelyard.cli", "serve", str(study.folder), "--port", "0"],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        link = next(line for line in process.stderr if "#key=" in line).split(": ", 1)[1].strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login#key=[\w-]{43}", link)
        context = browser.new_context()  # type: ignore[attr-defined]
        page = context.new_page()
        page.goto(link)
        page.wait_for_url("**/compare", timeout=60_000)
        assert "key" not in page.url
        page.go_back()
        assert "key=" not in page.url, "nor in the history"
        context.close()
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()  # type: ignore[union-attr]


def test_the_door_says_what_to_do_and_takes_a_pasted_link(
    make_study: MakeStudy, serve: Serve, browser: object, tmp_path: Path
) -> None:
    server = serve(make_study())
    context = browser.new_context(viewport={"width": 390, "height": 844})  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(f"{server.url}/grade")
    assert "printed in its terminal" in page.locator("main").inner_text()
    page.locator("[name=key]").fill("wrong")
    page.locator("#open button").click()
    page.wait_for_selector("#login-note:has-text('printed in the terminal')")
    page.locator("[name=key]").fill(f"{server.url}/login#key={server.key}")
    page.locator("#open button").click()
    page.wait_for_url("**/grade")
    context.close()
    context = browser.new_context()  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(f"{server.url}/login")
    page.goto(f"{server.url}/login#key={server.key}")  # into the tab that shows the door already
    page.wait_for_url("**/compare")
    context.close()


def test_answers_given_while_the_session_ended_wait_for_the_link(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    study = make_study()
    server = serve(study)
    user = window(server)
    page = user.compare()
    user.press("ArrowLeft")
    user.saved()
    study.store.people.sessions.end_all("you")
    server.app.state.web.accounts.forget()
    user.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#saved').dataset.state === 'stuck'")
    assert study.store.answers.count() == 1
    page.goto(f"{server.url}/login#key={server.key}")
    page.wait_for_url("**/compare")
    user.saved()
    assert study.store.answers.count() == 2
    user.errors[:] = [error for error in user.errors if "401" not in error]


def test_the_browser_is_opened_without_the_key_on_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.web import app

    opened: list[str] = []
    monkeypatch.setattr(app.webbrowser, "open", opened.append)
    app._show("http://127.0.0.1:1/login#key=secret")
    assert "secret" not in opened[0]
    file = Path(opened[0].removeprefix("file://"))
    assert "url=http://127.0.0.1:1/login#key=secret" in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
