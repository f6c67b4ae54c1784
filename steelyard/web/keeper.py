"""Keeps SQLite's write-ahead log short, aside from the requests that fill it."""

from __future__ import annotations

import logging
import threading

from steelyard.errors import SteelyardError
from steelyard.store.store import Store

__all__ = ["Keeper"]

SECONDS = 2.0
log = logging.getLogger("steelyard.web")


class Keeper:
    """A thread that brings the log into the file every few seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it and wait for what it is doing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            try:
                self._store.checkpoint()
            except SteelyardError as error:  # the log only grows a little longer
                log.warning("the write-ahead log was not brought in: %s", error)
