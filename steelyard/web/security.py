"""What every response and request goes through: security headers, the Host check, ETags.

Plain ASGI, no framework: these run for every picture of the wall.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.web.problems import problem_response

__all__ = ["ETags", "Guard", "is_loopback"]

PROBES = frozenset({"/healthz", "/readyz"})
"""Asked by address, not by name; they say nothing that is worth protecting."""

_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or a Host without its port, is this machine only."""
    name = host.strip("[]").lower()
    return name in ("localhost", "::1") or (
        name.startswith("127.") and all(part.isdigit() for part in name.split("."))
    )


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.partition(":")[0]


class Guard:
    """Security headers on everything; Host checked before anything else looks at a request.

    Args:
        app: what is guarded.
        local: nobody signs in, so only requests meant for this very machine may pass. A page of another site whose
            name was pointed at 127.0.0.1 (DNS rebinding) carries its own name as Host.
        hosts: names the server is known by; empty takes any when people sign in.
        tls: the server speaks TLS itself, so browsers shall never come without again.
    """

    def __init__(self, app: ASGIApp, *, local: bool, hosts: Iterable[str] = (), tls: bool = False) -> None:
        self.app, self.local = app, local
        self.hosts = {host.lower() for host in hosts}
        self.headers = _HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        begun = time.perf_counter()

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                if not scope["path"].endswith("/session"):  # how long a password took is nobody's business
                    out["Server-Timing"] = f"total;dur={(time.perf_counter() - begun) * 1000:.1f}"
                for name, value in self.headers.items():
                    out.setdefault(name, value)
            await send(message)

        refused = None if scope["path"] in PROBES else self._refusal(headers)
        if refused is not None:
            status, detail, code = refused
            await problem_response(status, detail, code=code)(scope, receive, dressed)
            return

        await self.app(scope, receive, dressed)

    def _refusal(self, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        name = _name(host).lower()
        if self.local:
            if not (is_loopback(name) or name in self.hosts):
                return 421, "This server answers to 127.0.0.1 and localhost only.", "host"
            if "x-forwarded-for" in headers or "forwarded" in headers:
                return (
                    403,
                    "Behind a proxy people must sign in: start the server with login required.",
                    "proxy",
                )
        elif self.hosts and name not in self.hosts:
            return 421, "This server does not answer to that name.", "host"
        return None


class ETags:
    """An ETag for every JSON answer to a GET below /api, and 304 where the caller has it already."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith("/api/"):
            await self.app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("if-none-match", "")
        start: Message | None = None
        body = bytearray()

        async def tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                json = headers.get("content-type", "").startswith("application/json")
                if message["status"] == 200 and json and "etag" not in headers:
                    start = message
                    return
                await send(message)
                return
            if start is None:
                await send(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            headers = MutableHeaders(scope=start)
            headers["etag"] = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            headers.setdefault("cache-control", "private, no-cache")
            if headers["etag"] in [tag.strip() for tag in wanted.split(",")]:
                del headers["content-length"]
                start["status"] = 304
                body.clear()
            await send(start)
            await send({"type": "http.response.body", "body": bytes(body)})

        await self.app(scope, receive, tagged)
