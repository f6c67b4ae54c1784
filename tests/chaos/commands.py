"""The command line at work beside the server: imports that may be killed, and portions of pairs put up ahead."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.chaos.journal import Journal
from tests.chaos.study import names

__all__ = ["Feeder", "Importer", "run"]


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of steelyard to its end."""
    return subprocess.run(
        [sys.executable, "-m", "steelyard.cli", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


class Importer(threading.Thread):
    """Imports one file after the other, each until the command says that it succeeded.

    Strategy and note of its answers name the file: a pair that was there already keeps its own strategy.

    Attributes:
        gate: held while the command runs, for those who need the disk to be quiet.
        running: the command, while one runs.
        done: files imported.
        file: number of the file that is being imported.
    """

    ROWS = 400

    def __init__(
        self,
        study: Path,
        folder: Path,
        environment: dict[str, str],
        seed: int,
        images: int,
        rest: float = 5.0,
    ) -> None:
        super().__init__(name="importer", daemon=True)
        self.study, self.folder, self.environment = study, folder, environment
        self.journal = Journal(folder / "importer.jsonl")
        self.random = random.Random(seed)
        self.rest, self._names = rest, names(images)
        self.gate = threading.Lock()
        self.running: subprocess.Popen[str] | None = None
        self.done = self.file = 0
        self.errors: list[str] = []
        self.halt = threading.Event()

    def run(self) -> None:
        """Import until told to stop; a file that was begun is finished."""
        while not self.halt.wait(self.rest):
            self.file += 1
            path = self._write(self.file)
            while not self._begin(path):
                if self.halt.wait(0.5) and len(self.errors) > 20:
                    return
        self.journal.close()

    def _write(self, number: int) -> Path:
        """A file of answers that nobody gave yet; its pairs are known by their strategy, its answers by their note."""
        path = self.folder / f"import-{number}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "left", "right", "answer", "annotator", "answered_at", "strategy", "note"])
            for k in range(self.ROWS):
                left, right = self.random.sample(self._names, 2)
                row = {"id": str(uuid.uuid4()), "answer": self.random.choice(("left", "right", "equal"))}
                at = time.time() + k / 1000
                rows.writerow(
                    [row["id"], left, right, row["answer"], "elsewhere", at, *[f"import-{number}"] * 2]
                )
                self.journal.write("send", kind="import", file=number, answered_at=at, **row)
        return path

    def _begin(self, path: Path) -> bool:
        with self.gate:
            return self._import(path)

    def _import(self, path: Path) -> bool:
        self.running = subprocess.Popen(
            [sys.executable, "-m", "steelyard.cli", "import", str(self.study), str(path)],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said, _ = self.running.communicate()
        code, self.running = self.running.returncode, None
        if code == 0:
            self.done += 1
            self.journal.write("ack", kind="imported", file=self.file)
        elif code > 0:
            self.errors.append(said.strip()[-300:])
        return code == 0


class Feeder(threading.Thread):
    """Puts pairs up in portions, so that choosing one by one is not what bounds the number of answers.

    The server's own chooser works whenever a portion is used up, until the next one comes.

    Args:
        used: gives how many answers were acknowledged so far.

    Attributes:
        gate: held while it puts pairs up.
    """

    def __init__(
        self, study: Path, environment: dict[str, str], portion: int, used: Callable[[], int]
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self.study, self.environment, self.portion, self.used = study, environment, portion, used
        self.fed = 0
        self.gate = threading.Lock()
        self.halt = threading.Event()

    def run(self) -> None:
        """Feed until told to stop."""
        while not self.halt.wait(0.5):
            if self.used() > self.fed * 1.1:
                words = ("next", str(self.study), "-n", str(self.portion), "--strategy", "random", "--json")
                with self.gate:
                    code = run(self.environment, *words).returncode
                self.fed += self.portion * (code == 0)
