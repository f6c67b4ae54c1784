"""The real server: `steelyard serve` with the trainer and the chooser it starts, watched as systemd would."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from tests.chaos.api import Api, Away

__all__ = ["Server", "free_port"]

PARTS = {
    "trainer": "steelyard.web.trainer",
    "chooser": "steelyard.web.chooser",
    "placer": "steelyard.web.placer",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class Server:
    """One study served on one port; whoever ends it, it is started again while it is wanted.

    Args:
        study: its folder.
        log: file that takes everything the processes say.
        environment: for the processes, on top of our own.

    Attributes:
        starts: how often it was started.
        exits: exit code of each one that ended without being asked to.
    """

    def __init__(self, study: Path, log: Path, environment: dict[str, str]) -> None:
        self.study, self.log, self.port = study, log, free_port()
        self.starts = 0
        self.exits: list[int] = []
        self._environment = os.environ | {"STEELYARD_LOGIN": "1", "OMP_NUM_THREADS": "1"} | environment
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = False
        self._over = threading.Event()
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._watch, name="server watch", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Want it, and start it now."""
        with self._lock:
            self._wanted = True
            self._begin()

    def stop(self) -> int:
        """End it in good order (SIGTERM); gives its exit code."""
        with self._lock:
            self._wanted = False
            process = self._process
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return -signal.SIGKILL

    def kill(self, *, everything: bool = False, stay_down: bool = False) -> None:
        """kill -9 of the server, or of all its processes at the same time."""
        with self._lock:
            self._wanted = not stay_down
            process = self._process
            victims = self.family() if everything else []
            for victim in victims:
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            psutil.wait_procs(victims, timeout=20)

    def close(self) -> None:
        """End everything, at once."""
        self._over.set()
        self.kill(everything=True, stay_down=True)

    def _begin(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.starts += 1
        with self.log.open("ab") as log:
            log.write(f"---- start {self.starts}\n".encode())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "steelyard.cli", "serve", str(self.study), "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            with self._lock:
                if self._wanted and self._process is not None and self._process.poll() is not None:
                    self.exits.append(self._process.returncode)
                    self._over.wait(0.4)  # a service manager does not hurry either
                    self._begin()

    # ------------------------------------------------------------------ looking

    @property
    def pid(self) -> int | None:
        """Process id, None while it is down."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def children(self, part: str = "") -> list[psutil.Process]:
        """Its processes: trainer, chooser, placer – or one kind of them."""
        if self.pid is None:
            return []
        try:
            found = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        if not part:
            return found
        return [child for child in found if PARTS[part] in _command(child)]

    def family(self) -> list[psutil.Process]:
        """All processes at work on this study, those of servers killed earlier included."""
        return [
            process
            for process in psutil.process_iter()
            if str(self.study) in (words := _command(process))
            and any(part in words for part in PARTS.values())
        ]

    def pids(self) -> list[int]:
        """The server and all that it started."""
        return [] if self.pid is None else [self.pid, *(child.pid for child in self.children())]

    def answers(self) -> bool:
        """Whether it answers requests."""
        if self.pid is None:
            return False
        try:
            return Api(self.port).call("GET", "/api/v1/me").status < 500
        except Away:
            return False

    def heard(self, since: int = 0) -> str:
        """What was logged from a position on."""
        with self.log.open("rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")

    def first_link(self) -> str:
        """The secret of the link for the first admin, which the first start prints."""
        found = re.search(r"#link=(\S+)", self.heard())
        assert found, "the server printed no link for the first admin"
        return found.group(1)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
