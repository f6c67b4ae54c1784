"""Sixteen people at once, as real processes. Run as a script by test_concurrency.py; prints what each one saw.

python crowd.py work URL     everybody asks and tells until nothing is left; one follows the log meanwhile
python crowd.py open URL     everybody opens the store at the same moment
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair, new_id
from steelyard.store.store import Store

PEOPLE = 16
IMAGES = 30


def work(url: str, me: int) -> dict[str, Any]:
    """Ask, tell, tell twice, undo and tell again; choose pairs that others choose as well."""
    rng = np.random.default_rng(me)
    handed: set[int] = set()
    acknowledged: list[str] = []
    with Store.open(url, create=False) as store:
        # Everybody wants the same pairs in the store, half of them for two raters.
        wanted = [
            NewPair(i, j, raters=1 + (i + j) % 2) for i in range(IMAGES) for j in range(i) if (i * j) % 5 == 0
        ]
        order = rng.permutation(len(wanted))
        for part in np.array_split(order, 4):
            store.pairs.add_all([wanted[k] for k in part])
        while leased := store.pairs.lease(f"p{me}", int(rng.integers(1, 5)), seconds=600, rng=rng):
            handed.update(one.pair for one in leased)
            for one in leased:
                answer = list(Answer)[rng.integers(4)]
                said = NewComparison(one.pair, f"p{me}", answer, one.left, one.right)
                store.answers.add(said, require_lease=True)
                acknowledged.append(said.id)
                if rng.random() < 0.2:
                    assert not store.answers.add(said, require_lease=True).created
                if rng.random() < 0.1:
                    undo = new_id()
                    store.answers.undo(said.id, f"p{me}", id=undo)
                    acknowledged.append(undo)
    return {"handed": sorted(handed), "acknowledged": acknowledged}


def follow(url: str, done: Path) -> dict[str, Any]:
    """Read the log by its numbers while it grows; pairs likewise."""
    seen: list[str] = []
    pairs: list[int] = []
    last = 0
    with Store.open(url, create=False) as store:
        while True:
            ended = done.exists()
            for comparison in store.answers.log(after=last, limit=50):
                last = comparison.seq
                seen.append(comparison.id)
            pairs += store.pairs.columns(after_id=pairs[-1] if pairs else 0).id.tolist()
            if ended and last == store.answers.last_seq():
                return {"seen": seen, "pairs": pairs}
            time.sleep(0.005)


def open_store(url: str, me: int) -> dict[str, Any]:
    """Open, and leave a trace."""
    with Store.open(url) as store:
        store.settings.keep(f"p{me}", me)
    return {}


def main() -> None:
    """Fork a process for each person, wait, and print one JSON list."""
    kind, url = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        done = Path(place, "done")
        jobs: list[Callable[[], dict[str, Any]]]
        if kind == "work":
            jobs = [lambda me=me: work(url, me) for me in range(PEOPLE)]  # type: ignore[misc]
            follower = [start(lambda: follow(url, done), Path(place, "follower"))]
        else:
            jobs = [lambda me=me: open_store(url, me) for me in range(PEOPLE)]  # type: ignore[misc]
            follower = []
        children = [start(job, Path(place, str(me))) for me, job in enumerate(jobs)]
        failed = [child for child in children if os.waitpid(child, 0)[1]]
        done.touch()
        failed += [child for child in follower if os.waitpid(child, 0)[1]]
        if failed:
            sys.exit(f"{len(failed)} processes failed")
        saw = [json.loads(Path(place, str(me)).read_text()) for me in range(PEOPLE)]
        if follower:
            saw.append(json.loads(Path(place, "follower").read_text()))
        print(json.dumps(saw))


def start(job: Callable[[], dict[str, Any]], result: Path) -> int:
    """Run a job in a new process; its id."""
    child = os.fork()
    if child:
        return child
    try:
        result.write_text(json.dumps(job()))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
