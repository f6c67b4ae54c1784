"""Kill a writer at a random moment, open the study again, count; many times. Run as a script by test_killed.py.

    python killing.py URL RUNS SEED FRESH

The writer says on a pipe what was acknowledged to it. Every FRESH-th run (0: none) starts with no study at all, so
that making one is interrupted too. Prints how many answers were acknowledged, or fails.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import alembic.command  # noqa: F401 - loaded once here, not in every writer
import numpy as np

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewImage, NewPair, new_id
from steelyard.store.store import Store


def write(store: Store, pipe: int, run: int) -> None:
    """Answer as fast as possible, undo now and then, and say so after each acknowledgement."""
    rng = np.random.default_rng(run)
    store.images.add_all([NewImage(row, f"{row:032x}") for row in range(40)])
    store.pairs.add_all([NewPair(i, j, repeat=run) for i in range(40) for j in range(i) if (i + j) % 20 == 0])
    while leased := store.pairs.lease("kt", 3, seconds=0.5, rng=rng):
        for one in leased:
            said = NewComparison(one.pair, "kt", Answer.LEFT, one.left, one.right)
            os.write(pipe, f"{store.answers.add(said, require_lease=True).id}\n".encode())
            if rng.random() < 0.2:
                os.write(
                    pipe, f"{store.answers.undo(said.id, 'kt', id=new_id(), lease_seconds=0.5).id}\n".encode()
                )


def kill_once(url: str, store: Store, run: int, rng: random.Random) -> list[str]:
    """Let a writer work for a while and kill it; what it had heard.

    Three of five writers are killed some time after their first answer. They take over `store`, which makes its own
    connections in a new process and has its statements compiled. The others open the study by themselves, and are
    killed some time after their start: while opening, creating, filling it.
    """
    starting = run % 5 >= 3
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write(Store.open(url) if starting else store, writing, run)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="ascii") as heard:
        lines = [] if starting else [heard.readline()]
        time.sleep(rng.uniform(0.0, 0.4 if starting else 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += heard
    return [line.strip() for line in lines if line.endswith("\n")]


def main() -> None:
    """The runs."""
    url, runs, seed, fresh = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    acknowledged: list[str] = []
    total = 0
    store = Store.open(url)
    for run in range(runs):
        if fresh and run % fresh == fresh - 1:
            store.close()
            for file in Path(url.removeprefix("sqlite:///")).parent.glob("study.db*"):
                file.unlink()
            acknowledged = []
        heard = kill_once(url, store, run, rng)
        acknowledged += heard
        total += len(heard)
        Store.open(url).close()
        log = [c.id for c in store.answers.log()]
        assert len(set(log)) == len(log)
        assert set(acknowledged) <= set(log), f"run {run} lost {len(set(acknowledged) - set(log))} answers"
        assert len(log) <= len(acknowledged) + run + 1, "at most the one that was being written is unheard of"
        problems = store.check()
        assert problems == [], problems
    print(total)


if __name__ == "__main__":
    main()
