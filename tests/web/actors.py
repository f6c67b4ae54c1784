"""Who acts in these tests: a running server, somebody at the API, somebody at the page."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from steelyard.images.synthetic import SyntheticImages
from steelyard.pairs import Answer
from steelyard.study import Study
from tests.waiting import until

N = 60
PATIENCE = 60.0  # seconds for a reply: a busy machine is no failure, and httpx's own 5 s are soon over on one
GRADES = (
    "Mayo 0: normal",
    "Mayo 1: mild redness",
    "Mayo 2: marked redness, erosions",
    "Mayo 3: ulcers, bleeding",
)


@dataclass
class Server:
    """A running server."""

    study: Study
    url: str
    secrets: dict[str, str] = field(default_factory=dict)
    app: Any = None

    def content(self, public: str) -> str:
        """The id in the store of an image that the page names."""
        row = self.app.state.web.ids.row(public)
        assert row is not None, public
        return str(self.study.catalog.ids[row])

    def public(self, row: int) -> str:
        """The name on the page of a catalog row."""
        return str(self.app.state.web.ids.at(row))

    def link(self, name: str) -> str:
        """The personal link of somebody."""
        return f"{self.url}/login#link={self.secrets[name]}"

    @property
    def key(self) -> str:
        """What the link of this start carries; empty where people sign in."""
        return str(self.app.state.web.accounts.key)

    def cookies(self) -> dict[str, str]:
        """The cookie of the one person at this machine; none where people sign in."""
        if not self.key:
            return {}
        reply = httpx.post(f"{self.url}/api/v1/session", json={"key": self.key}, timeout=PATIENCE)
        return dict(reply.cookies)


class Client(httpx.Client):
    """Somebody at the API: knows the server and carries the CSRF token."""

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(**{"base_url": server.url, "timeout": PATIENCE, **options})
        self.server = server

    @property
    def csrf(self) -> str:
        """The session's token."""
        return str(self.get("/api/v1/me").json()["csrf"])

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return str(self.server.app.state.web.accounts.cookie)

    def sign_in(self, name: str) -> Client:
        """Sign in by personal link."""
        reply = self.post("/api/v1/session", json={"link": self.server.secrets[name]})
        assert reply.status_code == 200, reply.text
        self.headers["X-CSRF-Token"] = reply.json()["csrf"]
        return self

    def lease(self, count: int = 1) -> list[dict[str, Any]]:
        """Pairs to answer, waited for until they are chosen."""
        reply: dict[str, Any] = {}

        def held() -> bool:
            asked = self.post("/api/v1/pairs/lease", json={"count": count})
            assert asked.status_code == 200, asked.text
            reply.update(asked.json())
            return len(reply["pairs"]) >= count or reply["state"] in ("done", "elsewhere")

        until(held, f"a lease of {count} pairs", seconds=30)
        pairs: list[dict[str, Any]] = reply["pairs"]
        return pairs

    def answer(self, pair: dict[str, Any], answer: str = "left", **more: Any) -> httpx.Response:
        """Answer a pair."""
        body = {
            "id": str(uuid.uuid4()),
            "pair": pair["id"],
            "left": pair["left"],
            "right": pair["right"],
            "answer": answer,
        }
        return self.post("/api/v1/comparisons", json={**body, **more})


def _is_lease(reply: Any) -> bool:
    return bool(reply.url.endswith("/api/v1/pairs/lease"))


class Window:
    """A browser window at a server: opens pages, answers by key, and remembers what went wrong on the console."""

    def __init__(
        self, browser: Any, server: Server, *, size: tuple[int, int] = (1280, 800), **options: Any
    ) -> None:
        self.server = server
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        self.context.add_cookies(
            [{"name": name, "value": value, "url": server.url} for name, value in server.cookies().items()]
        )
        self.context.set_default_timeout(60_000)  # a machine may be busy; nothing here is about speed
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.leases: list[Any] = []
        self.fetched: list[str] = []
        self.page.on("requestfinished", lambda request: self.fetched.append(request.url))
        self.page.on("response", lambda reply: self.leases.append(reply) if _is_lease(reply) else None)
        self.page.on("framenavigated", self._elsewhere)

    def _elsewhere(self, frame: Any) -> None:
        # What an earlier page was given is gone with it.
        if frame == self.page.main_frame:
            self.leases.clear()
            self.fetched.clear()

    def _heard(self, message: Any) -> None:
        # A dead network is what some tests are about.
        if message.type == "error" and "ERR_INTERNET_DISCONNECTED" not in message.text:
            self.errors.append(message.text)

    def open(self, path: str) -> Any:
        """Go to a page of the server."""
        self.page.goto(self.server.url + path)
        return self.page

    def compare(self) -> Any:
        """The compare page with a pair in sight."""
        page = self.open("/compare")
        self.pair()
        return page

    def pair(self) -> tuple[str, str]:
        """The ids of the two images in sight, once they can be answered."""
        return self._pair_other_than(None)

    def _pair_other_than(self, before: tuple[str, str] | None) -> tuple[str, str]:
        """The pair in sight, once it is another one than before, both pictures are painted and keys answer it."""
        left, right = self.page.wait_for_function(
            "(before) => { const now = [...document.querySelectorAll('.stage img.now')];"
            " const ids = now.map((n) => n.dataset.image);"
            " return now.length === 2 && now.every((n) => n.complete && n.naturalWidth)"
            " && document.querySelector('.frames').ariaBusy === 'false'"
            " && (!before || ids[0] !== before[0] || ids[1] !== before[1]) && ids }",
            arg=before and list(before),
        ).json_value()
        return left, right

    def press(self, key: str) -> tuple[str, str]:
        """Answer the pair in sight by a key; gives the pair that comes next."""
        before = self.pair()
        self.page.keyboard.press(key)
        return self._pair_other_than(before)

    def stocked(self, pairs: int) -> None:
        """Wait until so many pairs are in the browser with their pictures: they can be answered without the server."""
        held: dict[int, tuple[str, str]] = {}
        read = 0
        while len(held) < pairs:
            if read == len(self.leases):
                self.page.wait_for_event("response", _is_lease)
            for pair in self.leases[read].json()["pairs"]:
                held[pair["id"]] = (pair["left"], pair["right"])
            read += 1
        missing = {id for pair in held.values() for id in pair}
        while missing := {id for id in missing if not any(id in url for url in self.fetched)}:
            self.page.wait_for_event("requestfinished")

    def saved(self) -> None:
        """Wait until everything has arrived."""
        self.page.wait_for_function("() => document.querySelector('#saved').dataset.state === 'saved'")
        self.page.wait_for_function(
            "() => !Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))"
        )

    def shot(self, name: str) -> Path:
        """A screenshot: into docs/images when STEELYARD_SCREENSHOTS is set, into a temporary folder otherwise."""
        folder = (
            Path(__file__).parents[2] / "docs" / "images"
            if os.environ.get("STEELYARD_SCREENSHOTS")
            else self.folder
        )
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        self.page.screenshot(path=str(path))
        if folder != self.folder:
            # A third of the bytes; other palettes make one grey of ground and panel.
            shown = Image.open(path).convert("RGB")
            shown.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2).save(path, optimize=True)
        assert path.stat().st_size > 5000
        return path

    folder = Path()


def answer_truly(study: Study, drawn: SyntheticImages, n: int, annotator: str) -> None:
    """Answer n pairs as their severities say, then train."""
    for pair in study.ask(n, annotator=annotator):
        left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
        worse = Answer.LEFT if drawn.severity[left] > drawn.severity[right] else Answer.RIGHT
        now = time.time()
        study.tell(pair, worse, annotator=annotator, shown_at=now - 2.5, answered_at=now)
    study.fit()


MakeStudy = Callable[..., Study]
Teach = Callable[..., None]
Serve = Callable[..., Server]
Enter = Callable[..., Client]
Team = Callable[[str], Client]
Open = Callable[..., Window]
"""What the fixtures give: `make_study`, `teach`, `serve`, `enter`, `team` and `window`."""
