"""A real server process that is told to stop: what it acknowledged is there, nobody's lease stays behind, exit code 0."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.study import Study
from tests.waiting import until
from tests.web.actors import MakeStudy


class Process:
    """`steelyard serve`, and what it writes."""

    def __init__(self, folder: Path, *options: str) -> None:
        # Without the answers of a trainer in the way, the lease below is the test's own.
        self.run = subprocess.Popen(
            [sys.executable, "-m", "steelyard.cli", "serve", str(folder), "--port", "0", *options],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.run.stderr is not None
        self.lines: list[str] = []
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.url or self.run.poll() is not None, "the server's start")
        assert self.url, self.lines

    def _read(self) -> None:
        assert self.run.stderr is not None
        for line in self.run.stderr:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(r"(http://127\.0\.0\.1:\d+)(\S*)", line):
                self.link, self.url = found[2], found[1]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.run.send_signal(how)
        code = self.run.wait(timeout=60)
        self._reader.join(timeout=10)
        assert self.run.stderr is not None
        self.run.stderr.close()
        return code


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Processes that end with the test."""
    running: list[Process] = []

    def begin(folder: Path, *options: str) -> Process:
        running.append(Process(folder, *options))
        return running[-1]

    yield begin
    for process in running:
        if process.run.poll() is None:
            process.run.kill()
            process.run.wait()


def sign_in(process: Process) -> httpx.Client:
    """The person at this machine."""
    client = httpx.Client(base_url=process.url, timeout=30)
    key = process.link.partition("#key=")[2]

    def csrf() -> str:
        try:
            return str(client.post("/api/v1/session", json={"key": key}).json()["csrf"])
        except httpx.TransportError:
            return ""

    client.headers["X-CSRF-Token"] = until(csrf, "an answer")
    return client


def answer(client: httpx.Client, pair: dict[str, Any], id: str) -> int:
    body = {"id": id, "pair": pair["id"], "left": pair["left"], "right": pair["right"], "answer": "left"}
    return client.post("/api/v1/comparisons", json=body).status_code


def test_told_to_stop_it_finishes_what_it_began(make_study: MakeStudy, start: Callable[..., Process]) -> None:
    study = make_study(
        refit_after=5
    )  # a fit after every five answers: the trainer is at work when the signal comes
    folder = study.folder
    study.close()
    process = start(folder, "--log-format", "json")
    client = sign_in(process)
    acknowledged: list[str] = []
    over = threading.Event()

    def work() -> None:
        k = 0
        try:
            while True:
                for pair in client.post("/api/v1/pairs/lease", json={"count": 6}).json().get("pairs", []):
                    k += 1
                    id = f"00000000-0000-4000-8000-{k:012d}"
                    if answer(client, pair, id) in (200, 201):
                        acknowledged.append(id)
        except (httpx.HTTPError, ValueError):
            over.set()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    until(lambda: len(acknowledged) >= 12, "twelve answers", seconds=120)
    with Study.open(folder) as watching:
        until(lambda: watching.store.models.trainer.state().owner, "the trainer's start", seconds=120)
    begun = time.monotonic()
    assert process.stop() == 0, process.lines
    assert time.monotonic() - begun < 45
    worker.join(timeout=30)
    client.close()
    with Study.open(folder) as again:
        assert set(acknowledged) <= {c.id for c in again.store.answers.log()}
        assert again.store.check() == []
        assert again.store.models.trainer.state().owner is None, "the lease was given back"
        assert again.store.models.trainer.claim("next", 30)
        again.store.models.trainer.release("next")
    written = [json.loads(line) for line in process.lines if line.startswith("{")]
    posted = [line for line in written if line.get("route") == "/api/v1/comparisons"]
    assert len(posted) >= len(acknowledged)
    assert not [line for line in written if line["level"] == "error"]
    assert "Traceback" not in "\n".join(process.lines)


def test_a_trainer_that_had_to_be_killed_leaves_no_lease_behind(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    from steelyard.web.trainer import TrainerProcess

    study = make_study()
    trainer = TrainerProcess(study.folder)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child.kill()
    child.wait()
    trainer._child = child  # type: ignore[assignment]
    assert study.store.models.trainer.claim("elsewhere:1:ab", 60)
    trainer.give_back(study.store)
    assert study.store.models.trainer.state().owner == "elsewhere:1:ab", "other people's leases are theirs"
    study.store.models.trainer.release("elsewhere:1:ab")
    assert study.store.models.trainer.claim(f"{socket.gethostname()}:{child.pid}:cd", 60)
    trainer.give_back(study.store)
    assert study.store.models.trainer.state().owner is None


def test_a_worker_told_to_stop_gives_its_lease_back(make_study: MakeStudy) -> None:
    study = make_study(ask={"budget": "200%", "start": "spread"})
    worker = subprocess.Popen(
        [sys.executable, "-c",
         "import sys, time, steelyard.study.questions as q\n"
         "q.Questions.draft_for_trainer = lambda *a, **k: time.sleep(60)\n"
         "from steelyard.cli import main\n"
         f"sys.argv = ['steelyard', 'worker', {str(study.folder)!r}]\nmain()"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    until(lambda: study.store.models.trainer.state().owner, "the worker's lease")
    worker.terminate()
    assert worker.wait(timeout=60) == 0
    assert study.store.models.trainer.state().owner is None
