"""Where does a new picture fall? Asked of a process of its own, because the page's process never loads torch.

The process is started when the first picture comes and ends after some idle minutes.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.web.child import Child, answer, exactly

__all__ = ["Scorer"]

IDLE_SECONDS = 600.0
TIMEOUT_SECONDS = 120.0


class Scorer:
    """One scoring process, one picture at a time."""

    def __init__(self, study_folder: Path) -> None:
        self._child = Child(__name__, study_folder, timeout=TIMEOUT_SECONDS, task="scoring")
        self._idle: threading.Timer | None = None

    def place(self, rgb: NDArray[np.uint8]) -> dict[str, float]:
        """`score`, `uncertainty` and `rank` of a picture, as `Study.place`.

        Raises:
            StudyError: there is no model, or the process failed.
        """
        self._rest(None)
        try:
            reply = self._child.ask(struct.pack("<II", *rgb.shape[:2]), rgb.data.cast("B"))
        finally:
            self._rest(IDLE_SECONDS)
        return {key: float(reply[key]) for key in ("score", "uncertainty", "rank")}

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


def _main(folder: str) -> None:
    from steelyard.errors import SteelyardError
    from steelyard.study import Study

    out, sys.stdout = sys.stdout.buffer, sys.stderr  # whatever a library prints must not look like an answer
    with Study.open(folder) as study:
        while True:
            height, width = struct.unpack("<II", exactly(sys.stdin.buffer, 8))
            pixels = exactly(sys.stdin.buffer, height * width * 3)
            rgb = np.frombuffer(pixels, dtype=np.uint8).reshape(height, width, 3)
            try:
                reply: dict[str, object] = dict(study.place(rgb))
            except SteelyardError as error:
                reply = {"error": str(error)}
            out.write(json.dumps(reply).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    answer(_main)
