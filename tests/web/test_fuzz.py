"""Whatever bytes arrive – broken JSON, odd headers, mutated pictures – the server refuses them in order: no 5xx, no traceback."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import logging
import re
import socket
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.web.actors import Client, Enter, MakeStudy, Serve, Teach

OFTEN = settings(
    max_examples=120,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
DEEP = 30_000
ODD = [
    b"", b"{", b"[]", b"null", b"\x00", b"\xff\xfe{}", b'"', b"{}" * 2, b"\xef\xbb\xbf{}", b"NaN",
    b'{"count": NaN}', b'{"count": Infinity}', b'{"count": -0}', b'{"count": 1e999}', b'{"count": 6.5}',
    b'{"count": ' + b"9" * 5000 + b"}", b'{"count": {"$gt": 0}}', b'{"count": 1, "count": 2}',
    b'{"count": "\\ud800"}', b'{"\\u0000": 1}', b'{"id": "\xc3\x28"}',
    b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"note": "' + b"x" * 60_000 + b'"}',
]  # fmt: skip
TYPES = [
    "application/json", "application/json; charset=utf-16", "text/plain", "", "application/x-www-form-urlencoded",
    "multipart/form-data", "multipart/form-data; boundary=x", "application/xml", "x" * 500, "application/json;;;",
]  # fmt: skip
IDS = [
    "1", "0", "-1", "99999999999999999999", "%00", "%ff", "..%2f..%2fetc%2fpasswd", "a" * 32, "A" * 32, "0" * 36,
    "%F0%9F%92%A9", "kt", "'--", "x" * 3000, "00000000-0000-4000-8000-000000000000",
]  # fmt: skip
HEADERS = [
    (), (("Content-Length", "5"),), (("Cookie", "steelyard_session=\xff"), ("Cookie", "steelyard_session=x")),
    (("If-None-Match", '"' * 200),), (("If-Match", "*"),), (("Idempotency-Key", "\x01"),), (("Idempotency-Key", "x" * 9000),),
    (("Accept-Encoding", "gzip;q=nan"),), (("Host", "evil.example"),), (("Range", "bytes=5-1"),),
    (("X-Forwarded-For", "::::"),), (("X-Request-ID", "\xff" * 300),), (("X-CSRF-Token", "\xe9"),),
    (("Authorization", "Bearer "), ("Authorization", "Basic x")), (("Origin", "null"),), (("Expect", "200-ok"),),
]  # fmt: skip


@pytest.fixture
def people(
    make_study: MakeStudy,
    teach: Teach,
    serve: Serve,
    enter: Enter,
) -> dict[str, Client]:
    """An annotator, a lead, an admin and nobody at a study that has a model."""
    study = make_study()
    teach(study, 12)
    server = serve(study, {"ada": "admin", "lea": "lead", "mo": "annotator"})
    return {"admin": enter(server, "ada"), "lead": enter(server, "lea"), "annotator": enter(server, "mo"), "nobody": enter(server)}  # fmt: skip


@contextlib.contextmanager
def no_errors(caplog: pytest.LogCaptureFixture) -> Any:
    """The server logged no error and no traceback."""
    with caplog.at_level(logging.WARNING):
        yield
    told = [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]
    assert [f"{r.name}: {r.getMessage()}" for r in told] == []


def send(client: Client, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> int:
    """A request as it is, past every client that would put it right; 0 where the server hung up."""
    connection = http.client.HTTPConnection("127.0.0.1", client.base_url.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        names = {name.lower() for name, _ in headers}
        if "host" not in names:
            connection.putheader("Host", f"127.0.0.1:{client.base_url.port}")
        if "content-length" not in names:
            connection.putheader("Content-Length", str(len(body)))
        for name, value in headers:
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(body)
        reply = connection.getresponse()
        content = reply.read()
        if (
            reply.status >= 400
            and path.startswith("/api/")
            and reply.getheader("Content-Type", "").startswith("application/")
        ):
            assert json.loads(content)["status"] == reply.status
        return reply.status
    except (http.client.HTTPException, ValueError, OSError):
        return 0
    finally:
        connection.close()


def known(client: Client) -> list[tuple[str, str]]:
    """Cookie and CSRF token of somebody who signed in."""
    jar = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    found = [("Cookie", jar), ("X-CSRF-Token", client.headers.get("X-CSRF-Token", ""))]
    return found if jar else []


def test_raw_bodies_headers_and_paths(people: dict[str, Client], caplog: pytest.LogCaptureFixture) -> None:
    document = people["admin"].get("/api/v1/openapi.json").json()
    # Signing out would end the session that the rest needs.
    routes = [
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if not (method == "delete" and "session" in path)
    ]
    seen: set[int] = set()

    @given(
        who=st.sampled_from(sorted(people)),
        route=st.sampled_from(routes),
        ids=st.sampled_from(IDS),
        body=st.sampled_from(ODD)
        | st.binary(max_size=200)
        | st.builds(_json, st.recursive(_leaf, _more, max_leaves=8)),
        kind=st.sampled_from(TYPES),
        more=st.sampled_from(HEADERS),
        query=st.sampled_from(
            ["", "?limit=1e9", "?cursor=%ff", "?limit=1&limit=2", "?" + "a=b&" * 500, "?count=%00", "?=&&"]
        ),
    )
    @settings(OFTEN, max_examples=400)
    def check(
        who: str, route: tuple[str, str], ids: str, body: bytes, kind: str, more: tuple[Any, ...], query: str
    ) -> None:
        method, path = route
        headers = [*known(people[who]), ("Content-Type", kind), *more]
        status = send(people[who], method, re.sub(r"\{\w+\}", ids, path) + query, headers, body)
        assert status < 500, (who, method, path, ids, body[:80], kind, more, query)
        seen.add(status)

    with no_errors(caplog):
        check()
    assert {401, 403, 404, 422} <= seen


_leaf = (
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20)
    | st.sampled_from(["left", "1", "0" * 32, "00000000-0000-4000-8000-000000000000"])
)  # fmt: skip
_FIELDS = ["id", "pair", "left", "right", "answer", "grade", "image", "name", "role", "password", "link", "label", "count",
           "exclude", "excluded", "reason", "note", "supersedes", "shown_at", "answered_at", "active", "expires"]  # fmt: skip


def _more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=6)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def test_what_is_no_http_at_all(people: dict[str, Client], caplog: pytest.LogCaptureFixture) -> None:
    port = people["nobody"].base_url.port

    @given(data=st.binary(min_size=1, max_size=300))
    @example(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n")
    @example(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    @example(
        b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"
    )
    @example(b"GET \x00 HTTP/9.9\r\n\r\n")
    @example(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    @settings(OFTEN)
    def check(data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port or 0), timeout=60) as line:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            reply = b""
            with contextlib.suppress(OSError):
                while part := line.recv(4096):
                    reply += part
        assert not re.match(rb"HTTP/1\.1 5", reply), (data, reply[:200])

    with no_errors(caplog):
        check()
    assert people["admin"].get("/api/v1/me").status_code == 200


def _pictures() -> list[bytes]:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    made = []
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        made.append(file.getvalue())
    return made


PICTURES = _pictures()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A picture with some bytes changed, cut out or doubled."""
    data = bytearray(draw(st.sampled_from(PICTURES)))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(data) - 1) | st.integers(0, min(80, len(data) - 1)))
        match draw(st.sampled_from(["set", "cut", "double", "end"])):
            case "set":
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 16))]
            case "double":
                data[at:at] = data[at : at + 32]
            case "end":
                del data[max(at, 8) :]
        if not data:
            break
    return bytes(data or b"\x00")


def test_mutated_pictures(people: dict[str, Client], caplog: pytest.LogCaptureFixture) -> None:
    seen: set[int] = set()

    @given(picture=mutated(), name=st.sampled_from(["a.png", "", "\x00", "../../x.png", "ä" * 300]))
    @settings(OFTEN)
    def check(picture: bytes, name: str) -> None:
        reply = people["lead"].post("/api/v1/place", files={"file": (name, picture, "image/png")})
        assert reply.status_code < 500, (reply.status_code, reply.text, picture)
        seen.add(reply.status_code)

    with no_errors(caplog):
        check()
    assert 422 in seen
