"""Choosing pairs: what the asker's thread does itself in tests, and a process of its own does for `steelyard serve`.

With fifty people at work a pair has to be chosen every twenty milliseconds. Done in the page's process, every answer
would wait for Python's one lock between two steps of that arithmetic; a process that steps back a little behind the page
costs the same and holds up nobody.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from steelyard.study import Study
from steelyard.web.child import Child, exactly

__all__ = ["FEW", "NEEDS_FEATURES", "Chooser", "put_up"]

NEEDS_FEATURES = frozenset({"spread", "coreset"})
FEW = 12  # random pairs that keep people busy while features are computed
NICE = 5  # behind the page, before the trainer
TIMEOUT_SECONDS = 300.0


def put_up(study: Study, n: int) -> int:
    """Choose n pairs and put them up; gives how many were, or −1 where the trainer is about to bring better ones."""
    ask = study.config.ask
    strategy = ask.strategy if study.posterior is not None else ask.start
    if strategy in NEEDS_FEATURES:
        if len(study.store.pairs(limit=1, open=True)):
            return -1
        strategy, n = "random", min(n, FEW)
    return len(study.propose(n, strategy=strategy))


class Chooser:
    """A process that puts pairs up when asked."""

    def __init__(self, study_folder: Path) -> None:
        self._child = Child(__name__, study_folder, timeout=TIMEOUT_SECONDS, task="choosing")

    def put_up(self, n: int) -> int:
        """As `put_up`.

        Raises:
            StudyError: choosing failed, or the process ended.
        """
        return int(self._child.ask(n.to_bytes(8, "little"))["made"])

    def stop(self) -> None:
        """End the process."""
        self._child.stop()


def _main(folder: str) -> None:
    from steelyard.config import StudyConfig
    from steelyard.errors import SteelyardError

    if hasattr(os, "nice"):
        os.nice(NICE)
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # whatever a library prints must not look like an answer
    with Study.open(folder) as study:
        while True:
            n = int.from_bytes(exactly(sys.stdin.buffer, 8), "little")
            try:
                study.config = StudyConfig.load(study.folder / "study.toml")  # the page may have changed it
                reply: dict[str, object] = {"made": put_up(study, n)}
            except SteelyardError as error:
                reply = {"error": str(error)}
            out.write(json.dumps(reply).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
