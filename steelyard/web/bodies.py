"""Bodies: nobody's is read before we know whose it is, and nobody's is longer, deeper or slower than it has to be.

FastAPI reads and parses a whole body before it asks who sent it. This layer comes first: it recognises the sender, refuses
strangers without reading a byte, and then reads at most as much as the route takes – while it counts, because a chunked
body says its length only at the end. What it learnt about the sender is handed on, so that nothing is looked up twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.errors import SteelyardError
from steelyard.store.records import Role
from steelyard.web.context import maybe, nobody
from steelyard.web.problems import Problem, answered

__all__ = ["JSON_BYTES", "NESTING", "UPLOAD_BYTES", "Bodies"]

JSON_BYTES = 64 << 10
"""Longest JSON body; the longest that a page sends has a few hundred bytes."""

UPLOAD_BYTES = 32 << 20
"""Longest picture to be placed."""

NESTING = 32
"""Deepest JSON; ours has three levels."""

SECONDS = 20.0
"""How long a JSON body may take, and how long an upload may be silent."""

_FRAME = 64 << 10  # what multipart writes around an upload
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class _Upload:
    """A route that takes more than JSON, and who may use it."""

    most: int
    role: Role


_UPLOADS = {"/api/v1/place": _Upload(UPLOAD_BYTES + _FRAME, "lead")}
_OPEN = ("POST", "/api/v1/session")  # whoever signs in is not known yet


class Bodies:
    """Recognises the sender, then reads the body within its limits.

    Args:
        app: what answers.
        seconds: how long a JSON body may take, and how long an upload may be silent; None is `SECONDS`.
    """

    def __init__(self, app: ASGIApp, *, seconds: float | None = None) -> None:
        self.app, self.seconds = app, SECONDS if seconds is None else seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        upload = _UPLOADS.get(scope["path"])
        try:
            await self._admit(request, upload)
            most = upload.most if upload else JSON_BYTES
            _check_length(Headers(scope=scope), most)
            if upload is None:
                body = await self._read(receive, most)
                check_nesting(body)
                reader = _replayed(body, receive)
            else:
                reader = self._counted(receive, most)
        except (Problem, HTTPException, SteelyardError) as error:
            await (await answered(request, error))(scope, receive, send)
            return
        await self.app(scope, reader, send)

    async def _admit(self, request: Request, upload: _Upload | None) -> None:
        if (request.method, request.url.path) == _OPEN:
            return
        who = await maybe(request)
        if who is None:
            raise nobody(request)
        if upload is not None and not who.may(upload.role):
            raise Problem(403, f"This needs the role “{upload.role}”; yours is “{who.role}”.", code="role")

    async def _read(self, receive: Receive, most: int) -> bytes:
        """A whole body, within its length and its time."""
        body = bytearray()

        async def all_of_it() -> None:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "The connection ended before the body did.", code="body")
                body.extend(message.get("body", b""))
                if len(body) > most:
                    raise _too_long(most)
                if not message.get("more_body"):
                    return

        try:
            await asyncio.wait_for(all_of_it(), self.seconds)
        except asyncio.TimeoutError:
            raise _too_slow() from None
        return bytes(body)

    def _counted(self, receive: Receive, most: int) -> Receive:
        """A body that is counted while it comes; it goes to a file as it does, not to memory."""
        got = 0

        async def counted() -> Message:
            nonlocal got
            try:
                message = await asyncio.wait_for(receive(), self.seconds)
            except asyncio.TimeoutError:
                raise _as_http(_too_slow()) from None
            if message["type"] == "http.request":
                got += len(message.get("body", b""))
                if got > most:
                    raise _as_http(_too_long(most))
                if not message.get("more_body"):
                    done.set()
            return message

        done = asyncio.Event()

        async def reading() -> Message:
            # Afterwards the server only listens for the other side hanging up, for as long as it takes to answer.
            return await (receive() if done.is_set() else counted())

        return reading


def check_nesting(body: bytes, most: int = NESTING) -> None:
    """Refuse JSON that is nested deeper than anything of ours: parsers go down as deep as it says.

    Raises:
        Problem: 422.

    >>> check_nesting(b'{"text": "[[[[[[[[[["}', most=2)
    >>> check_nesting(b"[[[1]]]", most=2)
    Traceback (most recent call last):
    ...
    steelyard.web.problems.Problem: The body is nested more than 2 levels deep.
    """
    if body.count(b"[") + body.count(b"{") <= most:
        return
    depth, quoted, escaped = 0, False, False
    for byte in body:
        if quoted:
            if escaped:
                escaped = False
            elif byte == 0x5C:  # a backslash
                escaped = True
            elif byte == 0x22:
                quoted = False
        elif byte == 0x22:
            quoted = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            if depth > most:
                raise Problem(422, f"The body is nested more than {most} levels deep.", code="body")
        elif byte in (0x5D, 0x7D):
            depth -= 1


def _check_length(headers: Headers, most: int) -> None:
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        raise _too_long(most)


def _too_long(most: int) -> Problem:
    shown = f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} KB"
    return Problem(413, f"The body is longer than the {shown} that this address takes.", code="size")


def _too_slow() -> Problem:
    return Problem(
        408, "The body came too slowly; send it again.", code="slow", headers={"Connection": "close"}
    )


def _as_http(problem: Problem) -> HTTPException:
    # FastAPI turns whatever goes wrong while a form is read into a 400, except this.
    return HTTPException(problem.status, problem.detail, problem.headers)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once; then whatever comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
