"""Signing in: limits that hold however many come at once, links and tokens that end, sessions that time out."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from steelyard.store import schema
from steelyard.study import Study
from steelyard.web.access import Access
from steelyard.web.auth import Accounts, counted, digest
from tests.web.actors import Client, Enter, Serve, Team

GOOD = "correct horse battery"


def set_password(admin: Client, name: str, password: str = GOOD) -> None:
    reply = admin.post(f"/api/v1/annotators/{name}/password", json={"password": password})
    assert reply.status_code == 204, reply.text


# ---------------------------------------------------------------------- guessing


def test_fifty_guesses_at_once_are_ten(team: Team, study: Study) -> None:
    """Fifty clients press at the same moment; as many passwords are looked at as one by one."""
    ada = team("ada")
    set_password(ada, "mo")
    looked_at = 0
    accounts = ada.server.app.state.web.accounts
    verify = accounts.passwords.verify

    def counting(known: str | None, password: str) -> bool:
        nonlocal looked_at
        looked_at += 1
        return bool(verify(known, password))

    accounts.passwords.verify = counting
    gate = threading.Barrier(50)

    def guess(k: int) -> int:
        with httpx.Client(base_url=ada.server.url, timeout=60) as client:
            gate.wait()
            return client.post("/api/v1/session", json={"name": "mo", "password": f"guess {k}"}).status_code

    with ThreadPoolExecutor(50) as pool:
        codes = Counter(pool.map(guess, range(50)))
    assert codes == {401: 10, 429: 40}
    assert looked_at == 10
    refused = [e for e in study.store.audit.log() if e.action == "sign-in refused"]
    assert len(refused) == 10


def test_a_restart_and_a_second_server_forget_no_guess(team: Team, study: Study, serve: Serve) -> None:
    anon = team("")
    for k in range(10):
        anon.post("/api/v1/session", json={"name": "ada", "password": f"guess {k}"})
    second = serve(study, access=Access(login=True))
    late = httpx.post(f"{second.url}/api/v1/session", json={"name": "ada", "password": "guess"})
    assert late.status_code == 429


def test_the_right_person_gets_in_while_somebody_guesses(team: Team) -> None:
    """A device that signed in before has a place of its own; so has everybody else behind the same address."""
    ada, kt = team("ada"), team("")
    for name in ("kt", "mo"):
        set_password(ada, name)
    assert kt.post("/api/v1/session", json={"name": "kt", "password": GOOD}).status_code == 200
    attacker = team("")
    for k in range(12):
        attacker.post("/api/v1/session", json={"name": "kt", "password": f"guess {k}"})
    assert attacker.post("/api/v1/session", json={"name": "kt", "password": GOOD}).status_code == 429
    assert kt.post("/api/v1/session", json={"name": "kt", "password": GOOD}).status_code == 200
    assert attacker.post("/api/v1/session", json={"name": "mo", "password": GOOD}).status_code == 200


def test_a_device_cookie_of_somebody_else_or_made_up_helps_nobody(team: Team) -> None:
    ada, mo = team("ada"), team("mo")
    set_password(ada, "kt")
    [(name, value)] = [(c.name, c.value) for c in mo.cookies.jar if c.name.startswith("steelyard_device_")]
    kts = ada.server.app.state.web.accounts.devices._cookie("kt")
    assert kts != name
    attacker = team("")
    for k in range(10):
        attacker.post("/api/v1/session", json={"name": "kt", "password": f"guess {k}"})
    for forged in (value, "x.y", "ü.", ".", "a" * 32 + "." + "0" * 32):
        attacker.cookies.clear()
        reply = httpx.post(
            f"{ada.server.url}/api/v1/session", json={"name": "kt", "password": GOOD},
            headers={"Cookie": f"{kts}={forged}".encode()},
        )  # fmt: skip
        assert reply.status_code == 429, forged


def test_a_right_link_works_whatever_others_send(team: Team, study: Study) -> None:
    anon = team("")
    codes = {anon.post("/api/v1/session", json={"link": f"guess {k}"}).status_code for k in range(40)}
    assert codes == {401}
    refused = [e for e in study.store.audit.log() if e.action == "sign-in refused"]
    assert len(refused) == 10, "strangers do not fill a log that is kept for ever"
    assert team("kt").get("/api/v1/me").json()["name"] == "kt"


def test_a_password_typed_as_a_name_is_written_nowhere(team: Team, study: Study) -> None:
    team("").post("/api/v1/session", json={"name": "my secret words", "password": "kt"})
    with study.store.database.reading() as connection:
        kept = connection.execute(sa.select(schema.attempts)).all()
    assert len(kept) == 1
    assert "my secret words" not in repr(kept) + repr(study.store.audit.log())


def test_an_address_of_ipv6_counts_as_its_network() -> None:
    assert counted("2001:db8::1") == counted("2001:db8::ffff:1") == "2001:db8::/64"
    assert counted("::ffff:10.0.0.9") == counted("10.0.0.9") == "10.0.0.9"
    assert counted("unknown") == "unknown"


def test_a_flood_of_passwords_leaves_threads_for_others() -> None:
    from steelyard.web.passwords import AT_ONCE, WAITING, Passwords
    from steelyard.web.problems import Problem

    passwords = Passwords()
    taken = [passwords._room.acquire(blocking=False) for _ in range(AT_ONCE + WAITING)]
    assert all(taken)
    with pytest.raises(Problem) as busy:
        passwords.verify(None, "guess")
    assert busy.value.status == 503


# ---------------------------------------------------------------------- passwords


@pytest.mark.parametrize(
    "weak",
    ["password12", "1234567890", "qwertyuiop", "steelyard2024", "mo-mo-mo-mo", "iloveyou123", "aaaaaaaaaaaa"],
)
def test_common_passwords_are_refused(team: Team, weak: str) -> None:
    reply = team("ada").post("/api/v1/annotators/mo/password", json={"password": weak})
    assert (reply.status_code, reply.json()["code"]) == (422, "password")
    assert "too easy to guess" in reply.json()["detail"]
    assert weak not in reply.text


def test_the_longest_password_is_taken_and_a_short_one_is_not(team: Team) -> None:
    ada = team("ada")
    long = "".join(chr(97 + k * k % 26) for k in range(256))
    set_password(ada, "mo", long)
    assert team("").post("/api/v1/session", json={"name": "mo", "password": long}).status_code == 200
    assert ada.post("/api/v1/annotators/mo/password", json={"password": "Xk9#mPq2v"}).status_code == 422


def test_a_short_password_of_before_goes_on_working(team: Team, study: Study) -> None:
    from argon2 import PasswordHasher

    weak = PasswordHasher(time_cost=1, memory_cost=1024).hash("short")
    study.store.people.update("mo", password_hash=weak)
    mo = team("")
    assert mo.post("/api/v1/session", json={"name": "mo", "password": "short"}).status_code == 200
    assert mo.get("/api/v1/me").status_code == 200, "hashing it anew signs nobody out"
    assert study.store.people.get("mo").password_hash != weak
    assert team("").post("/api/v1/session", json={"name": "mo", "password": "short"}).status_code == 200


def test_a_changed_password_ends_everything_else_but_not_ones_own_session(team: Team, enter: Enter) -> None:
    kt, elsewhere = team("kt"), team("kt")
    token = kt.post("/api/v1/tokens", json={"label": "script"}).json()["token"]
    program = enter(kt.server, headers={"Authorization": f"Bearer {token}"})
    assert program.get("/api/v1/me").status_code == 200
    mo = team("mo")
    set_password(kt, "kt")
    assert kt.get("/api/v1/me").status_code == 200
    assert kt.post("/api/v1/pairs/lease", json={"count": 1}).status_code == 200, "its CSRF token too"
    assert elsewhere.get("/api/v1/me").status_code == 401
    assert program.get("/api/v1/me").status_code == 401
    assert team("").post("/api/v1/session", json={"link": kt.server.secrets["kt"]}).status_code == 401
    assert mo.get("/api/v1/me").status_code == 200
    set_password(team("ada"), "kt", "another horse battery")
    assert kt.get("/api/v1/me").status_code == 401, "an admin's change ends that one as well"


def test_signing_out_everywhere(team: Team) -> None:
    kt, elsewhere, mo = team("kt"), team("kt"), team("mo")
    assert mo.delete("/api/v1/annotators/kt/sessions").status_code == 403
    assert kt.delete("/api/v1/annotators/kt/sessions").status_code == 204
    assert {client.get("/api/v1/me").status_code for client in (kt, elsewhere)} == {401}
    assert team("ada").delete("/api/v1/annotators/mo/sessions").status_code == 204
    assert mo.get("/api/v1/me").status_code == 401


# ---------------------------------------------------------------------- links


def test_a_link_works_once_and_for_a_week(team: Team, study: Study) -> None:
    ada = team("ada")
    made = ada.post("/api/v1/annotators/mo/link").json()
    secret = made["link"].partition("#link=")[2]
    assert made["expires"] == pytest.approx(time.time() + 7 * 86400, abs=60)
    gate = threading.Barrier(8)

    def use(_: int) -> int:
        gate.wait()
        return httpx.post(f"{ada.server.url}/api/v1/session", json={"link": secret}, timeout=60).status_code

    with ThreadPoolExecutor(8) as pool:
        assert Counter(pool.map(use, range(8))) == {200: 1, 401: 7}
    info = next(a for a in ada.get("/api/v1/annotators").json()["annotators"] if a["name"] == "mo")
    assert (info["has_link"], info["link_expires"]) == (False, None)


def test_a_link_whose_reply_was_lost_is_good_for_the_same_browser(team: Team, study: Study) -> None:
    """It is used up, and the browser never heard of it: it comes again by the same name, and nobody else does."""
    ada = team("ada")

    def make() -> str:
        return str(ada.post("/api/v1/annotators/mo/link").json()["link"].partition("#link=")[2])

    def use(secret: str, key: str | None) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        return team("").post("/api/v1/session", json={"link": secret}, headers=headers)

    secret, key, other = make(), str(uuid.uuid4()), str(uuid.uuid4())
    assert use(secret, key).status_code == 200
    again = use(secret, key)
    assert (again.status_code, again.json()["name"], again.json()["needs_password"]) == (200, "mo", True)
    assert {use(secret, name).status_code for name in (None, other)} == {401}
    assert use("another-" + secret, key).status_code == 401
    study.store.people.update("mo", active=False)
    assert use(secret, key).status_code == 401
    study.store.people.update("mo", active=True)
    assert study.store.people.take_link(digest(secret), change=key, now=time.time() + 200) is None
    set_password(ada, "mo")
    assert use(secret, key).status_code == 401, "another password ends what came before"


def test_a_link_that_is_over_lets_nobody_in(team: Team, study: Study) -> None:
    ada = team("ada")
    body = {"days": 1, "reusable": True}
    secret = ada.post("/api/v1/annotators/mo/link", json=body).json()["link"].partition("#link=")[2]
    for _ in range(2):
        assert team("").post("/api/v1/session", json={"link": secret}).status_code == 200
    study.store.people.set_link("mo", digest(secret), expires=time.time() - 1)
    assert team("").post("/api/v1/session", json={"link": secret}).status_code == 401
    never = ada.post("/api/v1/annotators/mo/link", json={"days": None, "reusable": True}).json()
    assert never["expires"] is None


def test_whoever_comes_by_a_link_that_works_once_is_asked_for_a_password(team: Team) -> None:
    ada = team("ada")
    secret = ada.post("/api/v1/annotators/mo/link").json()["link"].partition("#link=")[2]
    mo = team("")
    me = mo.post("/api/v1/session", json={"link": secret}).json()
    assert me["needs_password"] is True
    mo.headers["X-CSRF-Token"] = me["csrf"]
    set_password(mo, "mo")
    again = team("").post("/api/v1/session", json={"name": "mo", "password": GOOD}).json()
    assert again["needs_password"] is False


def test_a_second_password_under_the_name_of_the_first_is_not_called_set(team: Team) -> None:
    ada, key = team("ada"), {"Idempotency-Key": str(uuid.uuid4())}

    def put(password: str) -> int:
        path = "/api/v1/annotators/mo/password"
        return ada.post(path, json={"password": password}, headers=key).status_code

    assert [put(GOOD), put(GOOD), put(f"{GOOD} and another")] == [204, 204, 409]
    assert team("").post("/api/v1/session", json={"name": "mo", "password": GOOD}).status_code == 200


# ---------------------------------------------------------------------- tokens


def program(team: Team, enter: Enter, owner: str, **what: Any) -> Client:
    person = team(owner)
    token = person.post("/api/v1/tokens", json={"label": "script", **what}).json()["token"]
    return enter(person.server, headers={"Authorization": f"Bearer {token}"})


def test_a_token_does_what_its_scope_says_on_every_route(team: Team, enter: Enter) -> None:
    read, answer = (program(team, enter, "ada", scope=scope) for scope in ("read", "answer"))
    answering = {"/api/v1/pairs/lease", "/api/v1/comparisons", "/api/v1/comparisons/{id}/undo", "/api/v1/grades",
                 "/api/v1/grades/{id}/undo", "/api/v1/instructions", "/api/v1/warmup/skip"}  # fmt: skip
    for path, methods in read.get("/api/v1/openapi.json").json()["paths"].items():
        filled = path.replace("{id}", "0" * 32).replace("{name}", "mo")
        for method in methods:
            if path == "/api/v1/session" or method == "get":
                continue
            code = read.request(method, filled, json={}).status_code
            assert code == 403, (method, path, code)
            code = answer.request(method, filled, json={}).status_code
            assert (code == 403) == (path not in answering), (method, path, code)
    assert read.get("/api/v1/ranking").status_code == 200
    assert answer.get("/api/v1/ranking").status_code == 403, "whoever answers is blind"
    [pair] = answer.lease()
    assert answer.answer(pair).status_code == 201


def test_a_token_makes_no_token_that_may_more(team: Team, enter: Enter, study: Study) -> None:
    for scope in ("read", "answer"):
        weak = program(team, enter, "ada", scope=scope)
        for path, body in (
            ("/api/v1/tokens", {"label": "more", "scope": "full"}),
            ("/api/v1/annotators/ada/password", {"password": GOOD}),
        ):
            reply = weak.post(path, json=body)
            assert (reply.status_code, reply.json()["code"]) == (403, "scope")
    assert [token.label for token in study.store.people.tokens.all()] == ["script", "script"]


def test_a_token_does_not_outlive_itself(team: Team, enter: Enter, study: Study) -> None:
    """Whoever finds a script's token has it until it ends or is revoked, and never becomes the person, who can sign."""
    for owner in ("ada", "lea", "kt"):
        found = program(team, enter, owner, scope="full")
        for path, body in (
            ("/api/v1/tokens", {"label": "for ever", "days": None}),
            (f"/api/v1/annotators/{owner}/password", {"password": GOOD}),
            (f"/api/v1/annotators/{owner}/link", {}),
        ):
            assert found.post(path, json=body).status_code == 403, (owner, path)
        assert study.store.people.get(owner).password_hash is None
    assert {token.label for token in study.store.people.tokens.all()} == {"script"}
    admin = program(team, enter, "ada", scope="full")
    assert admin.post("/api/v1/annotators/mo/link").status_code == 201, (
        "adding people is what scripts are for"
    )


def test_a_token_ends(team: Team, enter: Enter, study: Study) -> None:
    kt = team("kt")
    made = kt.post("/api/v1/tokens", json={"label": "default"}).json()
    assert (made["scope"], made["expires"]) == ("full", pytest.approx(time.time() + 90 * 86400, abs=60))
    study.store.people.tokens.add(digest("over"), "kt", "over", expires=time.time() - 1)
    over = enter(kt.server, headers={"Authorization": "Bearer over"})
    assert over.get("/api/v1/me").status_code == 401
    assert kt.post("/api/v1/tokens", json={"label": "x", "days": 0}).status_code == 422
    assert kt.post("/api/v1/tokens", json={"label": "x", "days": None}).json()["expires"] is None


# ---------------------------------------------------------------------- sessions


def idle_since(study: Study, hours: float) -> None:
    with study.store.database.writing() as connection:
        connection.execute(sa.update(schema.sessions).values(used=time.time() - hours * 3600))


def test_a_session_that_nobody_uses_ends(team: Team, study: Study) -> None:
    kt = team("kt")
    accounts: Accounts = kt.server.app.state.web.accounts
    idle_since(study, 11.9)
    accounts.forget()
    assert kt.get("/api/v1/me").status_code == 200, "which counts as use"
    accounts.forget()
    idle_since(study, 0.5)
    assert kt.get("/api/v1/me").status_code == 200
    with study.store.database.reading() as connection:
        [used] = connection.execute(sa.select(schema.sessions.c.used)).scalars()
    assert used == pytest.approx(time.time(), abs=60)
    idle_since(study, 12.1)
    accounts.forget()
    assert kt.get("/api/v1/me").status_code == 401


def test_the_time_out_is_the_studys_choice(study: Study, serve: Serve, enter: Enter) -> None:
    study.store.people.add("kt", link_hash=digest("link"))
    server = serve(study, access=Access(login=True, idle_seconds=600))
    server.secrets["kt"] = "link"
    kt = enter(server, "kt")
    idle_since(study, 0.2)
    server.app.state.web.accounts.forget()
    assert kt.get("/api/v1/me").status_code == 401


def test_another_role_counts_at_once(team: Team) -> None:
    ada, lea = team("ada"), team("lea")
    assert lea.get("/api/v1/ranking").status_code == 200
    ada.patch("/api/v1/annotators/lea", json={"role": "annotator"})
    assert lea.get("/api/v1/ranking").status_code == 401
    assert team("lea").get("/api/v1/ranking").status_code == 403


def test_a_cookie_of_another_name_is_nobody(team: Team) -> None:
    kt = team("kt")
    reply = httpx.get(f"{kt.server.url}/api/v1/me", cookies={"steelyard_local_0": kt.cookies[kt.cookie]})
    assert reply.status_code == 401
