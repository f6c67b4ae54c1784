"""The API as the page uses it: one connection kept open, JSON in and out. All that knows routes is here."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Api", "Away", "Reply", "admit"]


class Away(Exception):
    """No reply: refused, cut, or too late. Whether the server did it nobody knows; send it again."""


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    body: Any
    request: str = ""

    @property
    def passing(self) -> bool:
        """Whether the page would try again by itself (static/api.js)."""
        return self.status == 429 or self.status >= 500


class Api:
    """Somebody at the API.

    Args:
        port: of the server, or of what stands in front of it.
        token: an API token; empty for nobody.
        timeout: seconds to wait for a reply.
    """

    def __init__(self, port: int, token: str = "", *, timeout: float = 10) -> None:
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._port, self._timeout = port, timeout
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send a request.

        Raises:
            Away: nothing came back, or not all of it.
        """
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        content = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, content, {**self._headers, **(headers or {})})
            response = self._connection.getresponse()
            raw = response.read()
            read = json.loads(raw) if raw else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise Away(f"{type(error).__name__}: {error}") from None
        cookie = response.getheader("Set-Cookie")
        if cookie:
            self._headers["Cookie"] = cookie.partition(";")[0]
        if response.will_close:
            self.close()
        return Reply(response.status, read, response.getheader("X-Request-ID") or "")

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ------------------------------------------------------------------ what the page does

    def sign_in(self, link: str) -> Api:
        """By the secret of a personal link."""
        reply = self.call("POST", "/api/v1/session", {"link": link})
        assert reply.status == 200, reply
        self._headers["X-CSRF-Token"] = reply.body["csrf"]
        return self

    def lease(self, count: int) -> Reply:
        """Take pairs."""
        return self.call("POST", "/api/v1/pairs/lease", {"count": count})

    def answer(self, body: dict[str, Any]) -> Reply:
        """Answer a pair."""
        return self.call("POST", "/api/v1/comparisons", body, headers={"Idempotency-Key": body["id"]})

    def undo(self, of: str, id: str) -> Reply:
        """Take an answer back."""
        return self.call(
            "POST", f"/api/v1/comparisons/{of}/undo", {"id": id}, headers={"Idempotency-Key": id}
        )

    def set_excluded(self, image: str, excluded: bool, id: str) -> Reply:
        """Take an image out, or in again."""
        body = {"excluded": excluded, **({"reason": "chaos"} if excluded else {})}
        return self.call("PATCH", f"/api/v1/images/{image}", body, headers={"Idempotency-Key": id})

    def images(self, limit: int) -> list[str]:
        """Ids of the first images, as this person sees them."""
        reply = self.call("GET", f"/api/v1/images?limit={limit}")
        assert reply.status == 200, reply
        return [image["id"] for image in reply.body["images"]]


def admit(port: int, first_link: str, people: dict[str, str]) -> tuple[dict[str, str], Api]:
    """Let the first admin make everybody's account; gives each person's API token, and the admin at the API."""
    first = Api(port).sign_in(first_link)
    made = first.call("POST", "/api/v1/tokens", {"label": "chaos"})
    assert made.status == 201, made
    admin = Api(port, made.body["token"])
    tokens = {}
    for name, role in people.items():
        added = admin.call("POST", "/api/v1/annotators", {"name": name, "role": role})
        assert added.status == 201, added
        person = Api(port).sign_in(link_for(admin, name))
        made = person.call("POST", "/api/v1/tokens", {"label": "chaos"})
        assert made.status == 201, made
        tokens[name] = made.body["token"]
    return tokens, admin


def link_for(admin: Api, name: str) -> str:
    """A new personal link, good for as often as the browser is killed; its secret."""
    reply = admin.call("POST", f"/api/v1/annotators/{name}/link", {"reusable": True})
    assert reply.status == 201, reply
    return str(reply.body["link"]).partition("#link=")[2]
