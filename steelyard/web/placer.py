"""Where does a new picture fall? Asked of a process of its own, because the page's process never loads torch.

The process is started when the first picture comes and ends after some idle minutes.
"""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from steelyard.study import Study
from steelyard.web.child import Child, answer, answer_requests, exactly

__all__ = ["Placer"]

IDLE_SECONDS = 600.0
TIMEOUT_SECONDS = 120.0


class Placer:
    """One process that scores new pictures, one at a time."""

    def __init__(self, study_folder: Path) -> None:
        self._child = Child(__name__, study_folder, timeout=TIMEOUT_SECONDS, task="scoring")
        self._idle: threading.Timer | None = None

    def place(self, rgb: NDArray[np.uint8]) -> dict[str, Any]:
        """`score`, `uncertainty`, `rank`, `scales`, `unlike`, `off_domain` and `domain_note` of a picture, as `Study.place`.

        Raises:
            StudyError: there is no model, or the process failed.
        """
        self._rest(None)
        try:
            reply = self._child.ask(struct.pack("<II", *rgb.shape[:2]), rgb.data.cast("B"))
        finally:
            self._rest(IDLE_SECONDS)
        found: dict[str, Any] = {key: float(reply[key]) for key in ("score", "uncertainty", "rank")}
        return found | {key: reply[key] for key in ("scales", "unlike", "off_domain", "domain_note")}

    def stop(self) -> None:
        """End the process."""
        self._rest(None)
        self._child.stop()

    def _rest(self, seconds: float | None) -> None:
        """End the process after so many idle seconds; None takes that back."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None
        if seconds is not None:
            self._idle = threading.Timer(seconds, self._child.stop)
            self._idle.daemon = True
            self._idle.start()


def _place(study: Study, request: BinaryIO) -> dict[str, object]:
    height, width = struct.unpack("<II", exactly(request, 8))
    rgb = np.frombuffer(exactly(request, height * width * 3), dtype=np.uint8).reshape(height, width, 3)
    return dict(study.place(rgb))


if __name__ == "__main__":
    answer(lambda folder: answer_requests(folder, _place))
