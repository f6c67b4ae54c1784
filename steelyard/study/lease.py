"""The one lease that says who trains a study now, kept alive while somebody works under it.

Every fit holds it: the trainer of the page, a worker on another machine, `steelyard train` and `Study.fit` in a script. Whoever
is taken for dead loses it, and with it the right to give a model its name or to remove anything.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from steelyard.errors import SteelyardError, StudyError
from steelyard.progress import Pace, Progress, how_far
from steelyard.store.store import Store

__all__ = ["LeaseLost", "TrainerLease"]

LEASE_SECONDS = 30.0
BEAT_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
log = logging.getLogger("steelyard.trainer")


class LeaseLost(BaseException):
    """Somebody else trains now. A BaseException, so that nothing in a fit takes it for a failure of its own."""


class TrainerLease:
    """The right to train, under a name that no other process has.

    Args:
        store: of the study.
    """

    def __init__(self, store: Store) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._store = store
        self._lost = threading.Event()
        self._log: deque[str] = deque(maxlen=200)
        self._last_text = ""
        self._pace = Pace()
        self._state: dict[str, Any] = {}

    def claim(self) -> bool:
        """Take the lease if nobody has it."""
        self._lost.clear()
        return self._store.models.trainer.claim(self.owner, LEASE_SECONDS)

    def wait(self, seconds: float = PATIENCE_SECONDS, progress: Progress | None = None) -> None:
        """Take the lease as soon as nobody has it.

        Raises:
            StudyError: somebody else still trains after so many seconds.
        """
        end = time.monotonic() + seconds
        while not self.claim():
            holder = self._store.models.trainer.state().owner or "another trainer"
            if time.monotonic() >= end:
                raise StudyError(
                    f"this study is being trained by {holder}; wait until that is done (steelyard status shows the newest "
                    "model), then train again"
                )
            if progress is not None:
                progress(0, 0, f"waiting for {holder}, who trains now")
            time.sleep(0.2)

    @contextmanager
    def working(self, stage: str) -> Iterator[None]:
        """Keep the lease alive, and give it back at the end with a last word on how it went."""
        self._state = {
            "stage": stage,
            "done": 0,
            "total": 0,
            "text": "",
            "left": None,
            "started": time.time(),
        }
        self._log.clear()
        self._last_text = ""
        over = threading.Event()
        beat = threading.Thread(target=self._beat, args=(over,), name="heartbeat", daemon=True)
        beat.start()
        final: dict[str, Any] | None = None
        try:
            yield
            final = {**self._snapshot(), "stage": "done", "done": 0, "total": 0}
        except SteelyardError as error:
            self.say(str(error))
            final = {**self._snapshot(), "stage": "failed", "text": str(error), "done": 0, "total": 0}
            raise
        finally:
            over.set()
            beat.join(timeout=30)
            self.release(final)

    def release(self, last_word: dict[str, Any] | None = None) -> None:
        """Give the lease back, if it is still ours."""
        try:
            self._store.models.trainer.release(self.owner, last_word)
        except SteelyardError as error:
            log.warning("the lease was not given back, it runs out by itself: %s", error)

    def check(self) -> None:
        """Make sure that the lease is ours, for as long again.

        Raises:
            LeaseLost: somebody else has taken it.
        """
        if self._lost.is_set() or not self._renew():
            self._lost.set()
            raise LeaseLost

    def progress(self, done: int, total: int, text: str) -> None:
        """How far it is, for the page.

        Raises:
            LeaseLost: a heartbeat found that somebody else trains now.
        """
        if self._lost.is_set():
            raise LeaseLost
        if (stage := text.split(":")[0]) != self._last_text.split(":")[0]:
            self._pace = Pace()
        if text != self._last_text:
            self._last_text = text
            self.say(how_far(done, total, text) if text != stage else text)
        self._pace.reached(done, total)
        self._state = {
            **self._state, "done": int(done), "total": int(total), "text": text, "left": self._pace.left,
        }  # fmt: skip

    def say(self, text: str) -> None:
        """A line for the log on the page."""
        self._log.append(f"{time.strftime('%H:%M:%S')}  {text}")

    def _snapshot(self) -> dict[str, Any]:
        return {**self._state, "log": list(self._log)[-50:]}

    def _renew(self) -> bool:
        return self._store.models.trainer.heartbeat(self.owner, self._snapshot(), seconds=LEASE_SECONDS)

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(BEAT_SECONDS):
            try:
                held = self._renew()
            except (
                SteelyardError
            ) as error:  # a database that is away for a moment; the lease outlives a few beats
                log.warning("heartbeat failed: %s", error)
                continue
            if not held:
                self._lost.set()
                return
