"""Devices that signed in before, known by a cookie.

Whoever guesses at a name slows the name down for everybody – except for devices on which its owner has signed in
(OWASP calls this a device cookie). The cookie lets nobody in; it is a place of its own in the queue. There is one for
each name, so that a shared PC knows all who use it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from fastapi import Request, Response

__all__ = ["Devices"]

SECONDS = 400 * 24 * 3600  # browsers keep no cookie for longer


class Devices:
    """Makes and reads device cookies.

    Args:
        key: the study's own; cookies made with another one are worth nothing.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def hash_name(self, name: str) -> str:
        """A name as it is counted: keyed, for people type passwords where names belong."""
        return self._mac("name", name)

    def known(self, request: Request, name: str) -> str | None:
        """The device from which a request comes, if somebody signed in there with this name; None otherwise."""
        nonce, _, mac = request.cookies.get(self._cookie(name), "").partition(".")
        given, right = mac.encode("utf-8", "replace"), self._mac("device", name, nonce).encode()
        if not nonce or not hmac.compare_digest(given, right):
            return None
        return self._mac("count", nonce)

    def remember(self, request: Request, response: Response, name: str) -> None:
        """Let the browser keep that this name signed in on it."""
        if self.known(request, name) is not None:
            return
        nonce = secrets.token_hex(16)
        response.set_cookie(
            self._cookie(name), f"{nonce}.{self._mac('device', name, nonce)}", max_age=SECONDS, httponly=True,
            samesite="lax", path="/api/v1/session", secure=request.url.scheme == "https",
        )  # fmt: skip

    def _cookie(self, name: str) -> str:
        return f"steelyard_device_{self._mac('cookie', name)[:12]}"

    def _mac(self, *parts: str) -> str:
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._key[:64], digest_size=16).hexdigest()
