"""Attacks by what is sent: poisoned pictures, endless bodies, injected headers and markup."""

from __future__ import annotations

import io
import struct
import zlib

import httpx
import numpy as np
from PIL import Image

from tests.web.actors import Client, Enter, MakeStudy, Serve, Team
from tests.web.raw import raw


def png_header(width: int, height: int) -> bytes:
    """A tiny PNG that says it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


def picture() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()


POISON = {
    "empty": b"",
    "text": b"not a picture",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "pickle": b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
    "bomb": png_header(100_000, 100_000),
    "cut": picture()[:40],
    "broken gif": b"GIF89a" + b"\xff" * 50,
    "postscript": b"%!PS-Adobe-3.0\n(r) file",
}


def test_poisoned_uploads_are_refused(local: Client) -> None:
    for name, content in POISON.items():
        reply = local.post("/api/v1/place", files={"file": ("../../evil.png", content, "image/png")})
        assert (reply.status_code, reply.json()["code"]) == (422, "image"), name


def test_oversized_uploads_are_refused(local: Client) -> None:
    large = local.post("/api/v1/place", files={"file": ("a.png", b"\0" * (33 << 20), "image/png")})
    assert large.status_code == 413
    cookie = "; ".join(f"{name}={value}" for name, value in local.cookies.items())
    claimed = raw(
        local.server,
        f"POST /api/v1/place HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nX-CSRF-Token: {local.csrf}\r\n"
        f"Content-Length: {1 << 40}\r\nConnection: close\r\n\r\n".encode(),
    )
    assert claimed.split(b" ")[1] == b"413"


def test_an_endless_body_is_cut_off(local: Client) -> None:
    def endless():  # type: ignore[no-untyped-def]
        for _ in range(80):
            yield b"x" * (1 << 20)

    try:
        reply = local.post(
            "/api/v1/comparisons", content=endless(), headers={"Content-Type": "application/json"}
        )
        assert reply.status_code in (400, 413, 422)
    except httpx.TransportError:
        pass  # the server hung up
    assert local.get("/api/v1/me").status_code == 200


def test_headers_cannot_be_injected(team: Team, make_study: MakeStudy) -> None:
    ada = team("ada")
    for name in ("a\r\nSet-Cookie: x=1", "a\nb", "a\x00b", "\x1b[31m"):
        assert ada.post("/api/v1/annotators", json={"name": name}).status_code == 422
    reply = ada.get("/login", params={"next": "/x\r\nSet-Cookie: a=b"})
    assert "set-cookie" not in reply.headers
    reply = ada.get("/compare%0d%0aSet-Cookie:%20a=b")
    assert "set-cookie" not in reply.headers


def test_a_studys_name_cannot_break_the_download_header(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study = make_study("s", name='a"; filename="evil.exe')
    reply = enter(serve(study)).get("/api/v1/export")
    assert reply.headers["content-disposition"] == 'attachment; filename="a---filename--evil-exe-answers.csv"'


def test_every_response_carries_the_policy(local: Client) -> None:
    for path in ("/compare", "/api/v1/me", "/nothing", "/api/v1/nothing"):
        headers = local.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers or "uvicorn" in headers["server"]
    page = local.get("/compare").text
    assert " style=" not in page
    assert " onclick=" not in page


def test_what_people_type_is_text_not_markup(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    evil = "<script>alert(1)</script>"
    study = make_study(
        "s", name=evil, page={"question": evil, "grades": tuple(f"{evil}{k}" for k in range(4))}
    )
    client = enter(serve(study))
    for page in ("/compare", "/grade", "/admin", "/ranking", "/progress", "/model"):
        text = client.get(page).text
        assert "<script>alert" not in text
        assert "alert(1)" in text
