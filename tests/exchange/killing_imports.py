"""Kill an importer at a random moment, open the study again, count; many times. Run as a script by test_importing.py.

    python killing_imports.py STUDY RUNS ANSWERS

Every run has a file of its own. Prints how many runs were killed before the end, or fails.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from steelyard.exchange import import_file
from steelyard.study import Study


def make_file(path: Path, name: str, answers: int, rng: random.Random) -> Path:
    """Answers of one person."""
    lines = ["left,right,answer,annotator"]
    for _ in range(answers):
        i, j = rng.sample(range(40), 2)
        lines.append(f"i{i}.png,i{j}.png,left,{name}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def main() -> None:
    """The runs."""
    folder, runs, answers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(7)
    cut = 0
    with Study.open(folder) as study:
        started = time.monotonic()
        import_file(study, make_file(folder / "whole.csv", "whole", answers, rng))
        takes = time.monotonic() - started
        for run in range(runs):
            file = make_file(folder / f"{run}.csv", f"run{run}", answers, rng)
            child = os.fork()
            if child == 0:
                try:
                    import_file(study, file)
                finally:
                    os._exit(0)
            time.sleep(rng.uniform(0, 1.2 * takes))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            there = study.store.answers.count(f"run{run}")
            assert there in (0, answers), f"run {run} left {there} of {answers} answers"
            entries = [e for e in study.store.audit.log() if e.detail.get("file") == file.name]
            assert len(entries) == bool(there), "an entry in the audit log exactly when there are answers"
            assert study.store.pairs.open_count() == 0, "no pair without its answer"
            assert len(study.store.pairs.all()) <= len(study.store.answers.log())
            assert study.store.check() == []
            cut += not there
            assert import_file(study, file).added == answers - there
    print(cut)


if __name__ == "__main__":
    main()
