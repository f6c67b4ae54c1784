"""Choosing pairs: what the asker's thread does itself in tests, and a process of its own does for `steelyard serve`.

With fifty people at work a pair has to be chosen every twenty milliseconds. Done in the page's process, every answer
would wait for Python's one lock between two steps of that arithmetic; a process that steps back a little behind the page
costs the same and holds up nobody. It only chooses: SQLite has one writer at a time, and one that is asked to step back
would make every answer wait for it, so the page's process puts the pairs up.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from steelyard.store.records import NewPair
from steelyard.study import Study
from steelyard.web.child import Child, answer, exactly
from steelyard.web.priority import step_back

__all__ = ["NEEDS_FEATURES", "Chooser", "choose"]

NEEDS_FEATURES = frozenset({"spread", "coreset"})
FEW = 12  # random pairs that keep people busy while features are computed
NICE = 5  # behind the page, before the trainer
TIMEOUT_SECONDS = 300.0


def choose(study: Study, n: int) -> list[NewPair] | None:
    """Choose n pairs, or None where the trainer is about to bring better ones than can be chosen here."""
    ask = study.config.ask
    strategy = ask.strategy if study.posterior is not None else ask.start
    if strategy in NEEDS_FEATURES:
        if len(study.store.pairs(limit=1, open=True)):
            return None
        strategy, n = "random", min(n, FEW)
    return study.choose(n, strategy=strategy)


class Chooser:
    """A process that chooses pairs when asked."""

    def __init__(self, study_folder: Path) -> None:
        self._child = Child(__name__, study_folder, timeout=TIMEOUT_SECONDS, task="choosing", threads=1)

    def choose(self, n: int) -> list[NewPair] | None:
        """As `choose`.

        Raises:
            StudyError: choosing failed, or the process ended.
        """
        chosen = self._child.ask(n.to_bytes(8, "little"))["pairs"]
        return None if chosen is None else [NewPair(**pair) for pair in chosen]

    def stop(self) -> None:
        """End the process."""
        self._child.stop()


def _main(folder: str) -> None:
    from steelyard.config import StudyConfig
    from steelyard.errors import SteelyardError

    step_back(NICE)
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # whatever a library prints must not look like an answer
    with Study.open(folder) as study:
        while True:
            n = int.from_bytes(exactly(sys.stdin.buffer, 8), "little")
            try:
                study.config = StudyConfig.load(study.folder / "study.toml")  # the page may have changed it
                chosen = choose(study, n)
                reply: dict[str, object] = {"pairs": chosen and [asdict(pair) for pair in chosen]}
            except SteelyardError as error:
                reply = {"error": str(error)}
            out.write(json.dumps(reply).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    answer(_main)
