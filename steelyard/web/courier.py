"""Fetches models that were trained elsewhere while people answer, aside from the requests that wait for none of it."""

from __future__ import annotations

import logging
import threading

from steelyard.errors import SteelyardError
from steelyard.study import Study

__all__ = ["Courier"]

SECONDS = 2.0
log = logging.getLogger("steelyard.web")


class Courier:
    """A thread that looks for announced models every few seconds; none where the study shares nothing."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        if self._study.sharing.shelf is None:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it and wait for what it is doing; half a model is left under no model's name."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

    def _run(self) -> None:
        said = ""
        while not self._stop.wait(SECONDS):
            try:
                self._study.sharing.fetch()
                said = ""
            except Exception as error:  # whatever it was: without this thread no model would come any more
                if str(error) != said:
                    unforeseen = not isinstance(error, SteelyardError)
                    log.error("%s; the model before it is used until then", error, exc_info=unforeseen)
                said = str(error)
