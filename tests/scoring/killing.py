"""Workers and drivers that do not live to see the end; imported by their processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from steelyard.scoring import part, run
from steelyard.scoring.part import Job, PartDone

FATAL = 2  # the part


def killed_once(task: tuple[Job, int]) -> PartDone:
    """Whoever is the first to score this part dies of it, half-way."""
    job, number = task
    marker = job.output.parent / "killed"
    if number == FATAL and not marker.exists():
        (job.output / f".part-000002.parquet.0.{os.getpid()}.unfinished").write_bytes(b"half")
        marker.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return part.score_part(task)


def stuck(task: tuple[Job, int]) -> PartDone:
    """Scores up to this part, says so, and waits to be killed."""
    job, number = task
    if number == FATAL:
        (job.output / ".part-000002.parquet.0.unfinished").write_bytes(b"half")
        (job.output.parent / "stuck").touch()
        time.sleep(600)
    return part.score_part(task)


if __name__ == "__main__":
    from steelyard.study import Study

    study, source, output = sys.argv[1:]
    run.score_part = stuck
    with Study.open(study) as opened:
        run.score_many(opened, source, Path(output), part=5, jobs=1)
