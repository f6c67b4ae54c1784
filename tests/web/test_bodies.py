"""Bodies that are too long, too deep, too slow, or nobody's; and what one upload may cost."""

from __future__ import annotations

import io
import itertools
import json
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from PIL import Image

from steelyard.web import auth, bodies, heads
from tests.web.actors import Client, Enter, MakeStudy, Serve, Team


@pytest.fixture
def people(make_study: MakeStudy, serve: Serve, enter: Enter) -> Team:
    """On SQLite: lea is lead, kt compares, "" is a stranger."""
    server = serve(make_study(), {"lea": "lead", "kt": "annotator"})
    return lambda name: enter(server, name)


class Line:
    """Bytes out, bytes in, as slowly as the test likes."""

    def __init__(self, client: Client, path: str, *headers: str, kind: str = "application/json") -> None:
        host, port = client.server.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        known = [f"X-CSRF-Token: {client.headers.get('x-csrf-token', '')}"]
        known += [f"Cookie: {name}={value}" for name, value in client.cookies.items()]
        head = [
            f"POST {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Type: {kind}",
            *known,
            *headers,
        ]
        self.send("\r\n".join(head).encode() + b"\r\n\r\n")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> tuple[int, bytes]:
        """Status and what came with it."""
        got = self.socket.recv(65536)
        self.socket.close()
        return int(got.split(b" ")[1]), got


def test_a_strangers_body_is_not_read(people: Team) -> None:
    """The refusal comes before the first byte of the body is sent; nobody is even told to go on."""
    stranger = people("")
    for path in ("/api/v1/comparisons", "/api/v1/place", "/api/v1/annotators", "/nowhere"):
        line = Line(stranger, path, f"Content-Length: {60 << 20}", "Expect: 100-continue")
        status, got = line.reply()
        assert status == 401, path
        assert b"100 Continue" not in got
    endless = Line(stranger, "/api/v1/comparisons", "Transfer-Encoding: chunked")
    assert endless.reply()[0] == 401


def test_a_forged_request_is_refused_before_its_body(people: Team) -> None:
    kt = people("kt")
    kt.headers["x-csrf-token"] = "guess"
    assert Line(kt, "/api/v1/comparisons", f"Content-Length: {60 << 20}").reply()[0] == 403


def test_an_annotators_upload_is_refused_before_it_comes(people: Team) -> None:
    status, got = Line(people("kt"), "/api/v1/place", f"Content-Length: {30 << 20}").reply()
    assert (status, b'"role"' in got) == (403, True)


def test_json_is_short(people: Team) -> None:
    kt = people("kt")
    assert Line(kt, "/api/v1/comparisons", f"Content-Length: {(64 << 10) + 1}").reply()[0] == 413
    for path in ("/api/v1/comparisons", "/api/v1/pairs/lease", "/api/v1/session"):
        long = kt.post(
            path, content=b'{"x": "' + b"y" * (64 << 10) + b'"}', headers={"Content-Type": "application/json"}
        )
        assert (long.status_code, long.json()["code"]) == (413, "size")
    fits = b'{"count": 1' + b" " * ((64 << 10) - 12) + b"}"
    reply = kt.post("/api/v1/pairs/lease", content=fits, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200


def chunks(total: int) -> Iterator[bytes]:
    for _ in range(total >> 16):
        yield b"x" * (1 << 16)


def test_a_body_that_does_not_say_its_length_is_counted(people: Team) -> None:
    """413 that arrives, not a connection that breaks."""
    lea = people("lea")
    picture = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    for path, kind, begin in (
        ("/api/v1/comparisons", "application/json", b""),
        ("/api/v1/session", "application/json", b""),
        ("/api/v1/place", "multipart/form-data; boundary=x", picture),
    ):
        content = itertools.chain([begin], chunks(40 << 20)) if begin else chunks(40 << 20)
        reply = lea.post(path, content=content, headers={"Content-Type": kind}, timeout=60)
        assert reply.status_code == 413, path
        assert lea.get("/api/v1/me").status_code == 200


DEEP = {
    "open": b"[" * 60_000,
    "objects": b'{"a":' * 12_000,
    "closed": b"[" * 30_000 + b"]" * 30_000,
    "inside": b'{"note": ' + b"[" * 200 + b"]" * 200 + b"}",
}


def test_deep_json_is_refused(people: Team) -> None:
    kt = people("kt")
    for path in ("/api/v1/comparisons", "/api/v1/session", "/api/v1/pairs/lease"):
        for name, body in DEEP.items():
            reply = kt.post(path, content=body, headers={"Content-Type": "application/json"})
            assert (reply.status_code, reply.json()["code"]) == (422, "body"), (path, name)


def test_brackets_in_text_are_text() -> None:
    bodies.check_nesting(json.dumps({"note": '[{"\\' * 5000}).encode())
    bodies.check_nesting(json.dumps([[1]] * 1000).encode())
    bodies.check_nesting(b'"\\\\"' + b"[]" * 1000)


def test_a_body_that_does_not_come_is_not_waited_for(
    make_study: MakeStudy, serve: Serve, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SECONDS", 0.3)
    client = enter(serve(make_study()))
    for path in ("/api/v1/comparisons", "/api/v1/session", "/api/v1/place"):
        kind = "multipart/form-data; boundary=x" if path.endswith("place") else "application/json"
        line = Line(client, path, "Content-Length: 1000", kind=kind)
        line.send(b"--x\r\nContent-Disposition: form-data")  # and no more
        assert line.reply()[0] == 408, path


def test_a_body_that_is_shorter_than_it_says_changes_nothing(people: Team) -> None:
    kt = people("kt")
    line = Line(kt, "/api/v1/pairs/lease", "Content-Length: 500")
    line.send(b'{"count": 3}')
    line.socket.shutdown(socket.SHUT_WR)
    line.socket.close()
    assert kt.get("/api/v1/me").status_code == 200


def test_the_sender_is_looked_up_once_a_request(people: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    kt = people("kt")
    web = kt.server.app.state.web
    looked: list[str] = []
    plain = web.store.people.sessions.find

    def counted(token: str, **more: Any) -> Any:
        looked.append(token)
        return plain(token, **more)

    monkeypatch.setattr(auth, "REMEMBER_SECONDS", -1.0)
    web.accounts.forget()
    monkeypatch.setattr(web.store.people.sessions, "find", counted)
    assert kt.post("/api/v1/pairs/lease", json={"count": 1}).status_code == 200
    assert len(looked) == 1


# ---------------------------------------------------------------------- what one upload may cost


def small_file_large_picture(width: int, height: int) -> bytes:
    """A PNG of some kilobytes with as many pixels as you like: a bit for each, of which unpacking makes three bytes."""
    out = io.BytesIO()
    Image.new("1", (width, height)).save(out, "PNG", compress_level=9)
    return out.getvalue()


def test_a_picture_that_unpacks_to_a_gigabyte_is_not_unpacked(people: Team) -> None:
    content = small_file_large_picture(9900, 9900)
    assert len(content) < 1 << 20
    reply = people("lea").post("/api/v1/place", files={"file": ("a.png", content, "image/png")})
    assert (reply.status_code, reply.json()["code"]) == (422, "image")
    assert "98 megapixels, more than the 40 allowed" in reply.json()["detail"]


def test_unpacking_costs_two_copies_of_the_pixels_and_no_more() -> None:
    """Pillow's own (4 bytes a pixel) and ours (3): a conversion step by step had six."""
    width, height = 4000, 4000
    code = """
import resource, sys
from steelyard.images.decode import decode
content = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rgb = decode(content)
assert rgb.shape == (4000, 4000, 3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    for mode in ("RGB", "RGBA", "I;16"):
        out = io.BytesIO()
        Image.new(mode, (width, height)).save(out, "PNG", compress_level=1)
        done = subprocess.run(
            [sys.executable, "-c", code], input=out.getvalue(), capture_output=True, check=True
        )
        assert int(done.stdout) * 1024 < 8.5 * width * height, mode


def test_pictures_are_placed_one_at_a_time_and_few_wait(
    people: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from steelyard.web.api import ranking

    lea = people("lea")
    at_once: list[int] = []
    running, go_on = [0], threading.Event()

    def slow(*_: object, **__: object) -> None:
        running[0] += 1
        at_once.append(running[0])
        go_on.wait(30)
        running[0] -= 1
        raise ranking.ImageError("<bytes>", "is empty")

    monkeypatch.setattr(ranking, "decode", slow)
    codes: list[int] = []

    def send() -> None:
        with httpx.Client(
            base_url=lea.server.url, cookies=dict(lea.cookies), headers=dict(lea.headers)
        ) as client:
            codes.append(
                client.post(
                    "/api/v1/place", files={"file": ("a.png", b"x", "image/png")}, timeout=60
                ).status_code
            )

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(codes) < 3:  # one is at work, four wait, the others are sent away
        threading.Event().wait(0.02)
    assert lea.get("/api/v1/me").status_code == 200, "answers do not wait for uploads"
    go_on.set()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [422] * 5 + [503] * 3
    assert max(at_once) == 1


def test_a_compressed_body_is_just_bytes(people: Team) -> None:
    """Nothing unpacks a body on the way in: a zip bomb stays small."""
    bomb = zlib.compress(b"[" * (10 << 20))
    reply = people("kt").post(
        "/api/v1/pairs/lease",
        content=bomb,
        headers={"Content-Type": "application/json", "Content-Encoding": "deflate"},
    )
    assert reply.status_code in (400, 422)


HEADS = {
    "address": (b"GET /", b"a" * 65536),
    "one header": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", b"a" * 65536),
    "many headers": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X: %s\r\n" % (b"a" * 200) * 300),
    "trailers": (
        b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"a" * 65536,
    ),
}


def open_line(client: Client) -> socket.socket:
    host, port = client.server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.parametrize("what", HEADS)
def test_a_head_without_an_end_is_not_read(people: Team, what: str) -> None:
    """Nobody has said who they are yet; 60 MB of it held everybody up for 15 s."""
    begin, more = HEADS[what]
    sent = 0
    with open_line(people("")) as line, suppress(ConnectionError):
        line.sendall(begin)
        while sent < 32 << 20:
            line.sendall(more)
            sent += len(more)
    assert sent < 16 << 20  # closed; some of it was still in the buffers of the sockets


def test_a_long_head_that_ends_is_answered(people: Team) -> None:
    reply = people("").get("/healthz", headers={"X-Groups": "a" * 40_000})
    assert reply.status_code == 200


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a"])
def test_a_head_that_does_not_come_is_not_waited_for(
    people: Team, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(heads, "SECONDS", 0.2)
    with open_line(people("")) as line:
        line.sendall(begun)
        assert line.recv(100) == b""
        assert people("").get("/healthz").status_code == 200
