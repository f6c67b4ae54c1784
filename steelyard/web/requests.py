"""The outermost layer: every request gets an id, one line in the log and its place in the metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.web.logs import request_id

__all__ = ["HEADER", "STUDY", "Requests", "route_of"]

HEADER = "X-Request-ID"
API = "/api/v1"
STUDY = "steelyard.study"
"""Key of a request's scope that names the study it is for, where several are served."""
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
# Asked every few seconds by machines, or once a picture: worth a line only to somebody who looks for trouble.
_OFTEN = frozenset({"/healthz", "/readyz", "/metrics", "/static"})
log = logging.getLogger("steelyard.request")

Observe = Callable[[str, str, int, float], None]


class Requests:
    """Names requests, logs them and counts them.

    Args:
        app: what answers.
        observe: told route template, method, status and seconds of each.
    """

    def __init__(self, app: ASGIApp, *, observe: Observe | None = None) -> None:
        self.app, self.observe = app, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        given = Headers(scope=scope).get(HEADER, "")
        # A proxy's id joins two logs; anything else in it could forge lines in ours.
        name = given if _SANE.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = name
        token = request_id.set(name)
        status = 500

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = name
            await send(message)

        try:
            await self.app(scope, receive, named)
        finally:
            seconds = time.perf_counter() - begun
            route = route_of(scope)
            who = scope["state"].get("principal")
            facts = {
                "method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 1),
                "role": who.role if who is not None else "-", **({"study": scope[STUDY]} if STUDY in scope else {}),
            }  # fmt: skip
            level = logging.DEBUG if route in _OFTEN and status < 500 else logging.INFO
            log.log(level, "request", extra={"facts": facts})
            if self.observe is not None:
                self.observe(route, scope["method"], status, seconds)
            request_id.reset(token)


def route_of(scope: Scope) -> str:
    """The template of the route that answered, `(none)` where none did: never what was typed."""
    route = scope.get("route")
    path = getattr(route, "path", None)
    if isinstance(path, str):
        # Newer versions of FastAPI leave the prefix of an included router out.
        api = scope["path"].startswith(API + "/") and not path.startswith(API)
        return API + path if api else path
    return "/static" if scope.get("path", "").startswith("/static/") else "(none)"
