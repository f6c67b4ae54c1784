"""Proxies: whom a server believes about where a request comes from and who sent it; and TLS without one."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from steelyard.errors import ConfigError
from steelyard.study import Study
from steelyard.web.access import Access, read_access, read_proxies
from steelyard.web.auth import digest
from steelyard.web.proxies import Proxied
from tests.waiting import until
from tests.web.actors import MakeStudy, Serve, Server

HERE = read_proxies(["127.0.0.1"])
ELSEWHERE = read_proxies(["10.9.9.9"])


def seen(proxies: str, peer: str, **headers: str | list[str]) -> tuple[str, str, bool]:
    """Address, scheme and whether a named proxy sent it, as the app sees a request."""

    found = {}

    async def app(scope, receive, send):  # type: ignore[no-untyped-def]
        found.update(scope)

    lines = [
        (name.replace("_", "-").encode(), value.encode())
        for name, values in headers.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    scope = {"type": "http", "client": (peer, 1), "scheme": "http", "headers": lines}
    middleware = Proxied(app, access=Access(login=True, proxies=read_proxies([proxies])))
    with pytest.raises(
        StopIteration
    ):  # nothing in it waits, so no loop is needed (a browser test may have left one)
        middleware(scope, None, None).send(None)  # type: ignore[arg-type]
    return found["client"][0], found["scheme"], bool(found.get("steelyard.by_proxy"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("10.0.0.5", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.5", "1.2.3.4, 203.0.113.7", "203.0.113.7"),  # the left one was sent by the client
        ("10.0.0.5", "203.0.113.7, 10.0.0.6", "203.0.113.7"),  # two proxies of ours
        ("10.0.0.5", ["1.2.3.4", "203.0.113.7"], "203.0.113.7"),  # two lines are one list
        ("10.0.0.5", "203.0.113.7:4711", "203.0.113.7"),
        ("10.0.0.5", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.5", "203.0.113.7, unknown", "10.0.0.5"),
        ("10.0.0.5", "", "10.0.0.5"),
        ("10.0.0.5", "10.0.0.9", "10.0.0.5"),
        ("::ffff:10.0.0.5", "203.0.113.7", "203.0.113.7"),
        ("192.0.2.1", "203.0.113.7", "192.0.2.1"),  # nobody's proxy
    ],
)
def test_the_right_most_address_that_is_no_proxy(peer: str, forwarded: str | list[str], address: str) -> None:
    assert seen("10.0.0.0/24", peer, x_forwarded_for=forwarded)[0] == address


def test_scheme_and_trust_come_from_named_proxies_only() -> None:
    assert seen("10.0.0.5", "10.0.0.5", x_forwarded_proto="https") == ("10.0.0.5", "https", True)
    assert seen("10.0.0.5", "10.0.0.5", x_forwarded_proto="javascript") == ("10.0.0.5", "http", True)
    assert seen("10.0.0.5", "10.0.0.6", x_forwarded_proto="https") == ("10.0.0.6", "http", False)
    assert seen("10.0.0.5", "10.0.0.5", forwarded="for=203.0.113.7") == ("10.0.0.5", "http", True)


@pytest.mark.parametrize("bad", ["proxy.example", "10.0.0.5/8", "0.0.0.0/0", "::/0", "10.0.0.5;10.0.0.6"])
def test_proxies_that_cannot_be_meant_are_refused(bad: str) -> None:
    with pytest.raises(ConfigError, match=bad.split("/")[0].split(";")[0]):
        read_proxies([bad])


def guess(server: Server, k: int, address: str) -> int:
    return httpx.post(
        f"{server.url}/api/v1/session", json={"name": "ada", "password": f"guess {k}"},
        headers={"X-Forwarded-For": address},
    ).status_code  # fmt: skip


def test_a_forged_address_brings_no_more_guesses(study: Study, serve: Serve) -> None:
    """Whoever writes another X-Forwarded-For with each guess is still one address."""
    server = serve(study, {"ada": "admin"})
    codes = [guess(server, k, f"203.0.113.{k}") for k in range(12)]
    assert codes == [401] * 10 + [429] * 2
    logged = {e.detail["address"] for e in study.store.audit.log() if e.action == "sign-in refused"}
    assert logged == {"127.0.0.1"}


def test_behind_a_named_proxy_each_address_counts_by_itself(study: Study, serve: Serve) -> None:
    study.store.people.add("ada")
    server = serve(study, access=Access(login=True, proxies=HERE))
    for k in range(9):
        guess(server, k, "203.0.113.1")
    assert guess(server, 9, "203.0.113.2") == 401
    logged = {e.detail["address"] for e in study.store.audit.log() if e.action == "sign-in refused"}
    assert logged == {"203.0.113.1", "203.0.113.2"}


def test_cookies_are_secure_where_the_proxy_speaks_tls(study: Study, serve: Serve) -> None:
    study.store.people.add("ada", link_hash=digest("link"))
    for proxies, secure in ((HERE, True), (ELSEWHERE, False)):
        server = serve(study, access=Access(login=True, proxies=proxies))
        reply = httpx.post(
            f"{server.url}/api/v1/session", json={"link": "link"}, headers={"X-Forwarded-Proto": "https"}
        )
        assert ("Secure" in reply.headers["set-cookie"]) == secure


# ---------------------------------------------------------------------- who signed in at the proxy


def test_the_proxy_says_who_it_is(study: Study, serve: Serve) -> None:
    study.store.people.add("lea", role="lead")
    server = serve(study, access=Access(login=True, proxies=HERE, header="X-Remote-User"))
    with httpx.Client(base_url=server.url, headers={"X-Remote-User": "lea"}) as lea:
        me = lea.get("/api/v1/me").json()
        assert (me["name"], me["role"], me["via"]) == ("lea", "lead", "proxy")
        assert lea.get("/ranking").status_code == 200
        assert lea.post("/api/v1/pairs/lease", json={}).status_code == 403, "a change needs its CSRF token"
        changed = lea.post("/api/v1/pairs/lease", json={}, headers={"X-CSRF-Token": me["csrf"]})
        assert changed.status_code == 200
        evil = {"X-CSRF-Token": me["csrf"], "Origin": "https://evil.example"}
        assert lea.post("/api/v1/pairs/lease", json={}, headers=evil).status_code == 403
        study.store.people.update("lea", active=False)
        server.app.state.web.accounts.forget()
        assert lea.get("/api/v1/me").status_code == 403


def test_nobody_but_the_proxy_says_who_it_is(study: Study, serve: Serve) -> None:
    study.store.people.add("ada", role="admin")
    for access in (
        Access(login=True, proxies=ELSEWHERE, header="X-Remote-User"),
        Access(login=True, header="X-Remote-User"),
        Access(login=True, proxies=HERE),
    ):
        server = serve(study, access=access)
        for name in ("X-Remote-User", "x-remote-user", "X_Remote_User", "Remote-User"):
            assert httpx.get(f"{server.url}/api/v1/me", headers={name: "ada"}).status_code == 401, (
                access,
                name,
            )


def test_who_is_unknown_is_refused_or_becomes_an_annotator(study: Study, serve: Serve) -> None:
    strict, kind = (
        serve(study, access=Access(login=True, proxies=HERE, header="X-Remote-User", create=create))
        for create in (False, True)
    )
    header = {"X-Remote-User": "new"}
    refused = httpx.get(f"{strict.url}/api/v1/me", headers=header)
    assert (refused.status_code, refused.json()["code"]) == (403, "unknown")
    assert study.store.people.all() == []
    made = httpx.get(f"{kind.url}/api/v1/me", headers=header).json()
    assert (made["name"], made["role"]) == ("new", "annotator")
    for odd in (b"a\tb", b"x" * 101, b"\xff\xfe"):
        assert httpx.get(f"{kind.url}/api/v1/me", headers={"X-Remote-User": odd}).status_code in (401, 403), (
            odd
        )
    twice = httpx.get(f"{kind.url}/api/v1/me", headers=[("X-Remote-User", "new"), ("X-Remote-User", "ada")])
    assert twice.status_code == 403
    assert [a.name for a in study.store.people.all()] == ["new"]
    said = httpx.get(f"{kind.url}/api/v1/me", headers={"X-Remote-User": "Jürgen".encode()}).json()
    assert said["name"] == "Jürgen"


def test_settings_come_from_options_or_the_environment() -> None:
    env = {
        "STEELYARD_PROXIES": "10.0.0.5,10.1.0.0/16",
        "STEELYARD_AUTH_HEADER": "X-User",
        "STEELYARD_IDLE_HOURS": "2",
    }
    access = read_access(login=None, local=True, environment=env)
    assert access.login
    assert (access.header, access.idle_seconds, len(access.proxies)) == ("X-User", 7200, 2)
    assert access.trusts("10.1.2.3")
    assert not access.trusts("10.2.2.3")
    assert read_access(login=None, local=True, environment={}).login is False
    for wrong, message in (
        ({"STEELYARD_AUTH_HEADER": "X-User"}, "--proxy"),
        ({"STEELYARD_AUTH_HEADER": "X User", "STEELYARD_PROXIES": "10.0.0.5"}, "X User"),
        ({"STEELYARD_IDLE_HOURS": "never"}, "never"),
        ({"STEELYARD_IDLE_HOURS": "0"}, "'0'"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_access(login=None, local=True, environment=wrong)


# ---------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_the_server_speaks_tls(make_study: MakeStudy, certificate: tuple[Path, Path]) -> None:
    study, (cert, key) = make_study(), certificate
    study.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "steelyard.cli", "serve", str(study.folder), "--port", "0", "--host", "0.0.0.0",
         "--tls-cert", str(cert), "--tls-key", str(key)],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "#link=" in line)
        url, _, secret = line.split(": ", 1)[1].strip().partition("/login#link=")
        assert url.startswith("https://")
        url = f"https://127.0.0.1:{httpx.URL(url).port}"  # the link is for others; the certificate is for this machine
        trust = ssl.create_default_context(cafile=str(cert))

        def sign_in() -> httpx.Response | None:
            try:
                return httpx.post(f"{url}/api/v1/session", json={"link": secret}, verify=trust, timeout=60)
            except httpx.TransportError:
                return None

        reply = until(sign_in, "an answer")
        assert reply is not None
        assert reply.status_code == 200
        assert "Secure" in reply.headers["set-cookie"]
        assert reply.headers["strict-transport-security"] == "max-age=31536000"
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=30)
    assert "plain HTTP" not in rest


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_plain_http_for_others_is_warned_of(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch, host: str, warned: bool
) -> None:
    import uvicorn

    from steelyard.web.app import serve
    from steelyard.web.heads import Heads

    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, **_: configs.append(self.config))
    study, said = make_study(), []
    serve(study.folder, host=host, port=0, train=False, say=said.append)
    assert any("plain HTTP" in line for line in said) == warned
    assert configs[0].proxy_headers is False, "uvicorn itself believes every program of this machine"
    assert configs[0].http is Heads, "uvicorn itself reads heads without an end"


@pytest.mark.parametrize(
    ("proxy", "warned"), [("127.0.0.1", True), ("127.0.0.0/8", True), ("10.0.0.5", False)]
)
def test_names_from_this_machine_are_warned_of(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch, proxy: str, warned: bool
) -> None:
    """A proxy on the same machine cannot be told from any other program there."""
    import uvicorn

    from steelyard.web.app import serve

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, **_: None)
    study, said = make_study(), []
    serve(
        study.folder,
        port=0,
        train=False,
        login=True,
        proxies=[proxy],
        auth_header="X-Remote-User",
        say=said.append,
    )
    assert any("claim to be anybody" in line for line in said) == warned


def test_a_certificate_that_cannot_be_used_is_named(study: Study, certificate: tuple[Path, Path]) -> None:
    from steelyard.web.app import serve

    cert, key = certificate
    for options in (
        {"tls_key": key},
        {"tls_cert": key},
        {"tls_cert": cert.with_name("none.pem"), "tls_key": key},
    ):
        with pytest.raises(ConfigError, match="pem"):
            serve(study.folder, **options)  # type: ignore[arg-type]
