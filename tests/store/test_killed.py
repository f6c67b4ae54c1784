"""kill -9 at random moments, 50 times: no acknowledged answer is lost, and the study always opens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_killing_the_writer_loses_nothing_that_was_acknowledged(url: str) -> None:
    done = subprocess.run(
        # PostgreSQL's tables are made before; a SQLite study is also killed while it is being made.
        [
            sys.executable,
            str(Path(__file__).with_name("killing.py")),
            url,
            "50",
            "1",
            "5" if url.startswith("sqlite") else "0",
        ],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 30, "writers were killed while writing, not before"
