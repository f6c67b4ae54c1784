"""Where a request really comes from, when it comes through a proxy.

`X-Forwarded-For` and `X-Forwarded-Proto` are believed only from the proxies that were named; of the addresses in the
former, the right-most that is no named proxy counts, for everything to the left of it was written by whoever sent it.
`Forwarded` is not read: which of two headers a proxy writes and which it passes on, nobody could tell.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from steelyard.web.access import Access

__all__ = ["BY_PROXY", "Proxied"]

BY_PROXY = "steelyard.by_proxy"
"""Key of a request's scope that says that a named proxy sent it."""


class Proxied:
    """Puts the client's own address and scheme into requests that come from a named proxy."""

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope["client"][0] if scope["type"] == "http" and scope.get("client") else ""
        if peer and self.access.trusts(peer):
            headers = Headers(scope=scope)
            scope = {**scope, BY_PROXY: True}
            address = self._client(headers.getlist("x-forwarded-for"))
            if address is not None:
                scope["client"] = (address, 0)
            scheme = headers.get("x-forwarded-proto", "").strip().lower()
            if scheme in ("http", "https"):
                scope["scheme"] = scheme
        await self.app(scope, receive, send)

    def _client(self, lines: list[str]) -> str | None:
        for part in reversed(",".join(lines).split(",")):
            address = _address(part)
            if address is None:
                return None  # “unknown”, or something that is no address: the proxy's own has to do
            if not self.access.trusts(address):
                return address
        return None


def _address(text: str) -> str | None:
    """An address without the port that some proxies write behind it."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None
