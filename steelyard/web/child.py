"""A process beside the page's own that answers one request at a time.

What computes – choosing pairs, placing a new picture – must neither hold up an answer on its way to the disk nor bring
torch into the page's process. The process is started by the first request and again after a crash.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from steelyard.environment import thread_limits
from steelyard.errors import SteelyardError, StudyError
from steelyard.study import Study

__all__ = ["Child", "answer", "answer_requests", "exactly"]

STOP_SECONDS = 1.0


class Child:
    """One process, one request at a time; several threads may ask.

    Args:
        module: run with `python -m`; reads requests from stdin and writes one line of JSON for each, where `error` holds a
            message if it could not be done.
        study_folder: its only argument.
        timeout: seconds after which a request is given up and the process ended.
        task: what it does, for messages.
        threads: it computes with; 0 leaves the default.
    """

    def __init__(
        self, module: str, study_folder: Path, *, timeout: float, task: str, threads: int = 0
    ) -> None:
        self._command = [sys.executable, "-m", module, str(study_folder)]
        self._timeout, self._task = timeout, task
        self._environment = os.environ | thread_limits(threads)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, *request: bytes | memoryview) -> dict[str, Any]:
        """The reply to a request, which may come in parts: a large one need not be copied to be put together.

        Raises:
            StudyError: the process says why not, or it ended.
        """
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            watch = threading.Timer(self._timeout, process.kill)
            watch.daemon = True
            watch.start()
            try:
                for part in request:
                    process.stdin.write(part)
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = b""
            finally:
                watch.cancel()
            if not line:
                self._end()
                raise StudyError(
                    f"the {self._task} process ended; try again, and see the server's log if it stays so"
                )
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise StudyError(str(reply["error"]))
        return reply

    def stop(self) -> None:
        """End the process; what it was asked a moment ago is answered, what takes longer is given up."""
        process = self._process
        if not self._lock.acquire(timeout=STOP_SECONDS):
            if process is not None:
                process.kill()  # whoever waits for its answer reads the end of the line
            self._lock.acquire()
        try:
            self._end()
        finally:
            self._lock.release()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment,
                # Ctrl+C at the terminal is for the server, which then ends this process.
                start_new_session=True,
            )  # fmt: skip
        return self._process

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was still to be written is for nobody
                    pipe.close()
        self._process = None


def answer(main: Callable[[str], None]) -> None:
    """Run the process's side: a server that is gone ends it quietly, a study that cannot be opened with a sentence."""
    try:
        main(sys.argv[1])
    except BrokenPipeError:
        os._exit(0)  # without another try to write what nobody reads
    except SteelyardError as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr, flush=True)
        sys.exit(2)


def answer_requests(folder: str, reply: Callable[[Study, BinaryIO], dict[str, object]]) -> None:
    """Answer one request after another until the server has gone.

    Args:
        folder: of the study.
        reply: reads a request and says what to answer.
    """
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # whatever a library prints must not look like an answer
    with Study.open(folder) as study:
        while True:
            try:
                said = reply(study, sys.stdin.buffer)
            except SteelyardError as error:
                said = {"error": str(error)}
            out.write(json.dumps(said).encode() + b"\n")
            out.flush()


def exactly(file: BinaryIO, n: int) -> bytearray:
    """n bytes of a request; ends this process when the server has gone."""
    data = bytearray(n)
    rest = memoryview(data)
    while rest:
        got = file.readinto(rest)  # type: ignore[attr-defined]
        if not got:
            sys.exit(0)
        rest = rest[got:]
    return data
