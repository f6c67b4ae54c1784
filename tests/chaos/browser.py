"""A real Chromium whose user answers by keys; its profile outlives the browser, which may be killed at any moment."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.api import Api, Away, link_for
from tests.chaos.journal import Journal
from tests.chromium import chromium_options

__all__ = ["Browser"]

KEYS = {"ArrowLeft": "left", "ArrowRight": "right", "ArrowDown": "equal"}
SIGHT = (
    "() => { const now = [...document.querySelectorAll('.stage img.now')];"
    " return now.length === 2 && now.every((n) => n.complete && n.naturalWidth) ?"
    " now.map((n) => n.dataset.image).join() : '' }"
)
WAITING = "() => Object.keys(localStorage).filter((k) => k.startsWith('steelyard.queue')).length"


class Browser(threading.Thread):
    """Opens the page, answers, and starts again with the same profile whenever it was killed.

    Attributes:
        pressed: answers given by key.
        acknowledged: of which the server has acknowledged so many to the page.
        starts: how often the browser was started.
        interruptions: why it had to sit down again, and how often.
        waiting: entries in the page's storage when it was last looked at.
    """

    def __init__(self, port: int, admin: Api, name: str, folder: Path, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.url = f"http://127.0.0.1:{port}"
        self.admin, self.profile = admin, folder / "profile"
        self.journal = Journal(folder / f"{name}.jsonl")
        self.random = random.Random(seed)
        self.pressed = self.acknowledged = self.starts = self.failed = 0
        self.waiting = 0
        self.refused: list[str] = []
        self.interruptions: Counter[str] = Counter()
        self.halt = threading.Event()

    def run(self) -> None:
        """Answer until told to stop, then until everything has arrived."""
        from playwright.sync_api import Error, sync_playwright

        while not (self.halt.is_set() and self.waiting == 0 and self.starts):
            try:
                with sync_playwright() as playwright:
                    self._sit_down(playwright)
            except (Error, Away, OSError, AssertionError) as error:
                # Killed, or the server is away: sit down again.
                self._interrupted(error)
        self.journal.close()

    def _interrupted(self, error: Exception) -> None:
        self.interruptions[str(error).strip().partition("\n")[0][:120]] += 1
        self.halt.wait(0.3)

    def kill(self) -> bool:
        """kill -9 of every process of the browser; False where none runs."""
        found = [
            child
            for child in psutil.Process().children(recursive=True)
            if _has(child, f"--user-data-dir={self.profile}")
        ]
        for child in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(found, timeout=20)
        return bool(found)

    def _sit_down(self, playwright: Any) -> None:
        (self.profile / "SingletonLock").unlink(missing_ok=True)  # what a killed one leaves behind
        context = playwright.chromium.launch_persistent_context(str(self.profile), **chromium_options())
        self.starts += 1
        context.set_default_timeout(15_000)
        context.on("response", self._heard)
        context.on("requestfailed", lambda _: setattr(self, "failed", self.failed + 1))
        page = context.pages[0] if context.pages else context.new_page()
        try:
            self._enter(page)
            while not self.halt.is_set():
                self._answer(page)
            page.wait_for_function(f"() => ({WAITING})() === 0", timeout=30_000)
            self.waiting = 0
        finally:
            with contextlib.suppress(Exception):
                context.close()

    def _enter(self, page: Any) -> None:
        """Open the page. A server that cannot be reached is tried again, as a person does, with the same browser."""
        from playwright.sync_api import Error

        while True:
            try:
                page.goto(f"{self.url}/compare")
                if "/login" in page.url:
                    page.goto(f"{self.url}/login#link={link_for(self.admin, self.name)}")
                    page.wait_for_url("**/compare")
                return
            except Error as error:
                if "net::ERR_" not in str(error) or self.halt.is_set():
                    raise
                self._interrupted(error)

    def _answer(self, page: Any) -> None:
        from playwright.sync_api import TimeoutError as NothingYet

        try:
            page.wait_for_function(SIGHT, timeout=1_000)
        except NothingYet:
            if page.locator(".stage").count() == 0:  # an error page, or the door again
                self._enter(page)
            return
        page.wait_for_timeout(self.random.uniform(60, 400))  # a person looks
        page.keyboard.press(self.random.choice(list(KEYS)))
        self.pressed += 1
        self.waiting = page.evaluate(WAITING)

    def _heard(self, response: Any) -> None:
        request = response.request
        if request.method != "POST" or not request.url.endswith("/comparisons"):
            return
        body = request.post_data_json
        if response.status in (200, 201):
            self.acknowledged += 1
            self.journal.write("ack", kind="answer", **body)
        elif 400 <= response.status < 500 and response.status not in (401, 403, 429):
            self.refused.append(f"{response.status} for {body}")
            self.journal.write("refused", kind="answer", **body, status=response.status)
        else:
            self.failed += 1


def _has(process: psutil.Process, argument: str) -> bool:
    try:
        return argument in process.cmdline()
    except psutil.Error:
        return False
