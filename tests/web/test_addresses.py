"""Where the server listens, and what its links begin with."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest

from steelyard.errors import ConfigError, StudyError
from steelyard.study import Study
from steelyard.web import addresses
from steelyard.web.access import Access, read_access
from steelyard.web.addresses import listen, listening_address, network_address, read_public_url
from tests.web.actors import Enter, MakeStudy, Serve


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("", ""),
        ("https://severity.example.org", "https://severity.example.org"),
        ("https://Severity.Example.org/", "https://severity.example.org"),
        ("http://10.0.0.5:8765", "http://10.0.0.5:8765"),
        ("http://[fd00::5]:8765", "http://[fd00::5]:8765"),
    ],
)
def test_a_public_url_is_scheme_name_and_port(given: str, read: str) -> None:
    assert read_public_url(given) == read


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("severity.example.org", "as in https://severity.example.org"),
        ("ftp://severity.example.org", "not 'ftp://severity.example.org'"),
        ("https://", "as in https://"),
        ("https://a.example/?study=1", "leave '?' and '#' out"),
        ("https://a.example/#x", "leave '?' and '#' out"),
        ("https://a.example/steelyard", "lives at the root"),
        ("https://ada:secret@a.example", "leave the name and password"),
        ("https://a.example:99999", "Port out of range"),
        ("https://a b.example", "not 'https://a b.example'"),
        ("https://[::1", "Invalid IPv6"),
    ],
)
def test_a_public_url_that_cannot_be_is_refused_in_a_sentence(given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        read_public_url(given)
    assert "secret" not in str(refused.value)


def test_whoever_names_a_public_url_has_people_sign_in() -> None:
    said = {"STEELYARD_PUBLIC_URL": "https://severity.example.org"}
    access = read_access(login=None, local=True, environment=said)
    assert access.login
    assert access.public == "https://severity.example.org"
    option = read_access(login=None, local=True, public_url="http://localhost:9000", environment=said)
    assert (option.login, option.public) == (False, "http://localhost:9000"), "a tunnel to this machine"
    with pytest.raises(ConfigError, match="nobody signing in"):
        read_access(login=False, local=True, environment=said)


def test_the_network_address_is_found_without_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[Any, ...]] = []

    class Probe:
        def __init__(self, family: int, kind: int) -> None:
            assert kind == socket.SOCK_DGRAM, "connecting it sends nothing"
            used.append((family,))

        def __enter__(self) -> Probe:
            return self

        def __exit__(self, *_: object) -> None: ...

        def connect(self, address: tuple[str, int]) -> None:
            used.append(address)

        def getsockname(self) -> tuple[str, int]:
            return "10.1.2.3", 40000

    monkeypatch.setattr(addresses.socket, "socket", Probe)
    assert network_address() == "10.1.2.3"
    assert len(used) == 2
    assert listening_address("http", "0.0.0.0", 8765) == "http://10.1.2.3:8765"
    assert listening_address("https", "192.168.0.7", 443) == "https://192.168.0.7:443"
    assert listening_address("http", "::1", 80) == "http://[::1]:80"


@pytest.mark.parametrize("why", [errno.ENETUNREACH, errno.EAFNOSUPPORT])
def test_a_machine_without_a_network_says_127_0_0_1(monkeypatch: pytest.MonkeyPatch, why: int) -> None:
    def none(*_: object) -> None:
        raise OSError(why, "no network")

    monkeypatch.setattr(addresses.socket, "socket", none)
    assert network_address() is None
    assert listening_address("http", "0.0.0.0", 8765) == "http://127.0.0.1:8765"


def _link(person: httpx.Client) -> str:
    made = person.post("/api/v1/annotators/kt/link", json={})
    assert made.json()["url"].endswith(made.json()["link"])
    return str(made.json()["url"]).removesuffix(made.json()["link"])


def test_personal_links_are_for_other_machines(study: Study, serve: Serve, enter: Enter) -> None:
    server = serve(study, {"ada": "admin", "kt": "annotator"})
    ada = enter(server, "ada")
    assert _link(ada) == server.url, "nothing else is known"
    server.app.state.web.listening = "http://10.1.2.3:8765"
    assert _link(ada) == "http://10.1.2.3:8765", "127.0.0.1 is another machine for everybody else"
    ada.headers["Host"] = "severity.example.org"
    assert _link(ada) == "http://severity.example.org", "a name that works for the admin"
    public = serve(study, access=Access(login=True, public="https://public.example"))
    ada.base_url = httpx.URL(public.url)
    assert _link(ada) == "https://public.example"


@pytest.mark.parametrize("port", [99999, -1, 65536])
def test_a_port_that_does_not_exist(port: int) -> None:
    with pytest.raises(ConfigError, match=f"between 1 and 65535, or 0 for a free one; not {port}"):
        listen("127.0.0.1", port)


def test_a_port_that_is_taken() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert port > 0
        with pytest.raises(StudyError, match=rf"127.0.0.1:{port}: the port is taken.*another --port"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.77", "no such host", "a..b"])
def test_a_host_that_is_not_this_machine(host: str) -> None:
    with pytest.raises(StudyError, match=r"no address of this machine.*--host is 127.0.0.1"):
        listen(host, 0)


def test_a_port_of_the_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(socket.socket):
        def bind(self, address: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(addresses.socket, "socket", Refused)
    with pytest.raises(StudyError, match="ports below 1024 are the administrator's"):
        listen("127.0.0.1", 80)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--port", "99999"], "not 99999"), (["--public-url", "ftp://x"], "--public-url is the address")],
)
def test_serve_says_it_in_one_line(make_study: MakeStudy, options: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli", "serve", str(make_study().folder), *options],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("public", ["", "https://severity.example.org"])
def test_the_first_link_says_where_others_find_it(make_study: MakeStudy, public: str) -> None:
    """What is printed at the start opens from another machine."""
    study = make_study()
    command = [
        sys.executable,
        "-m",
        "steelyard.cli",
        "serve",
        str(study.folder),
        "--host",
        "0.0.0.0",
        "--port",
        "0",
    ]
    environment = os.environ | {"STEELYARD_PUBLIC_URL": public}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert server.stderr is not None
    try:
        first = next(line for line in server.stderr if line.startswith(study.config.name))
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert "/login#link=" in first
    assert (public or f"http://{network_address() or '127.0.0.1'}:") in first
