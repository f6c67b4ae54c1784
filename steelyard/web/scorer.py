"""Where does a new picture fall? Asked of a process of its own, because the page's process never loads torch.

The process is started when the first picture comes and ends after some idle minutes.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError

__all__ = ["Scorer"]

IDLE_SECONDS = 600.0
TIMEOUT_SECONDS = 120.0


class Scorer:
    """One scoring process, one picture at a time."""

    def __init__(self, study_folder: Path) -> None:
        self.folder = study_folder
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._idle: threading.Timer | None = None

    def place(self, rgb: NDArray[np.uint8]) -> dict[str, float]:
        """`score`, `uncertainty` and `rank` of a picture, as `Study.place`.

        Raises:
            StudyError: there is no model, or the process failed.
        """
        with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            child = self._running()
            assert child.stdin is not None
            assert child.stdout is not None
            watch = threading.Timer(TIMEOUT_SECONDS, child.kill)
            watch.daemon = True
            watch.start()
            try:
                child.stdin.write(struct.pack("<II", *rgb.shape[:2]) + rgb.tobytes())
                child.stdin.flush()
                line = child.stdout.readline()
            except OSError:
                line = b""
            finally:
                watch.cancel()
            if not line:
                self._end()
                raise StudyError(
                    "the scoring process ended; try again, and see the server's log if it stays so"
                )
            self._idle = threading.Timer(IDLE_SECONDS, self.stop)
            self._idle.daemon = True
            self._idle.start()
        reply = json.loads(line)
        if "error" in reply:
            raise StudyError(str(reply["error"]))
        return {key: float(reply[key]) for key in ("score", "uncertainty", "rank")}

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "steelyard.web.scorer", str(self.folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        return self._child

    def _end(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        self._child = None


def _exactly(file: BinaryIO, n: int) -> bytes:
    data = bytearray()
    while len(data) < n:
        part = file.read(n - len(data))
        if not part:
            sys.exit(0)  # the server has gone
        data += part
    return bytes(data)


def _main(folder: str) -> None:
    from steelyard.errors import SteelyardError
    from steelyard.study import Study

    out, sys.stdout = sys.stdout.buffer, sys.stderr  # whatever a library prints must not look like an answer
    with Study.open(folder) as study:
        while True:
            height, width = struct.unpack("<II", _exactly(sys.stdin.buffer, 8))
            pixels = _exactly(sys.stdin.buffer, height * width * 3)
            rgb = np.frombuffer(pixels, dtype=np.uint8).reshape(height, width, 3).copy()
            try:
                reply: dict[str, object] = dict(study.place(rgb))
            except SteelyardError as error:
                reply = {"error": str(error)}
            out.write(json.dumps(reply).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
