"""Annotators at the API, a thread each: one holds a few pairs, answers one a second, and takes more when few are left.

    echo '["TOKEN", "TOKEN"]' | python benchmarks/_crowd.py URL SECONDS

Nothing but the standard library: the client runs on the cores that it measures, and should leave them to the server.
Prints JSON: `shares` (milliseconds by route, as the server itself measures them), `acknowledged` (ids), `requests`,
`failures`, and `cpu`, seconds of processor time of this client.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
import uuid
from typing import Any

EVERY = 1.0  # seconds from one answer to the next
ARRIVE = 1 / 25  # seconds between two people who sit down
LEASE, ANSWER = "/api/v1/pairs/lease", "/api/v1/comparisons"


class Person(threading.Thread):
    """One annotator, until it is over."""

    def __init__(self, number: int, host: str, token: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(number)
        # Fifty people do not press their keys in step.
        self._first = number * ARRIVE + self._random.uniform(0, 6)
        self._over = over
        self._connection = http.client.HTTPConnection(host, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._held: list[dict[str, Any]] = []
        self.shares: dict[str, list[float]] = {LEASE: [], ANSWER: []}
        self.acknowledged: list[str] = []
        self.requests = self.failures = 0

    def run(self) -> None:
        """Answer at a steady pace: late answers do not push the next ones back."""
        due = time.monotonic() + self._first
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + EVERY, time.monotonic())
            self._turn()
        self._connection.close()

    def _turn(self) -> None:
        if len(self._held) < 3:
            reply = self._post(LEASE, {"count": 6})
            known = {pair["id"] for pair in self._held}
            self._held += [pair for pair in (reply or {}).get("pairs", []) if pair["id"] not in known]
        # What a page does with the reply is not measured; that people are not metronomes is.
        if not self._held or self._over.wait(self._random.uniform(0, 0.3)):
            return
        pair, now = self._held.pop(0), time.time()
        body = {"id": str(uuid.uuid4()), "pair": pair["id"], "left": pair["left"], "right": pair["right"],
                "answer": "left", "shown_at": now - 2, "answered_at": now}  # fmt: skip
        if self._post(ANSWER, body) is not None:
            self.acknowledged.append(str(body["id"]))

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The document that came back; None where the request failed, which is counted."""
        self.requests += 1
        try:
            self._connection.request("POST", path, json.dumps(body), self._headers)
            reply = self._connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens another
            self.failures += 1
            return None
        if timing := reply.headers.get("Server-Timing"):
            self.shares[path].append(float(timing.partition("dur=")[2]))
        if reply.status not in (200, 201):
            self.failures += 1
            return None
        document: dict[str, Any] = json.loads(text)
        return document


def main() -> None:
    """Let everybody answer for a while, then tell."""
    url, seconds = sys.argv[1], float(sys.argv[2])
    over = threading.Event()
    tokens = json.load(sys.stdin)
    people = [Person(k, url.removeprefix("http://"), token, over) for k, token in enumerate(tokens)]
    for person in people:
        person.start()
    time.sleep(seconds)
    over.set()
    for person in people:
        person.join()
    shares = {path: [ms for person in people for ms in person.shares[path]] for path in (LEASE, ANSWER)}
    found = {
        "shares": shares,
        "acknowledged": [id for person in people for id in person.acknowledged],
        "requests": sum(person.requests for person in people),
        "failures": sum(person.failures for person in people),
        "cpu": time.process_time(),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
