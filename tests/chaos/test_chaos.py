"""Every kind of fault once, several at a time, while people answer: the short form of `make chaos`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, SHORT

ROOT = Path(__file__).parents[2]
SMALL = ["--short", "--images", "120", "--people", "3", "--trainer", "60", "--portion", "0", "--rest", "2"]


@pytest.mark.slow
@pytest.mark.timeout(600)  # most of it is waiting for processes to start, which a busy machine does slowly
@pytest.mark.parametrize(
    "store",
    [
        pytest.param("sqlite", marks=pytest.mark.browser),
        pytest.param("postgresql", marks=pytest.mark.postgres),
    ],
)
def test_nothing_acknowledged_is_lost_doubled_or_changed(store: str) -> None:
    browser = [] if store == "sqlite" else ["--no-browser"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.run", *SMALL, "--pace", "0.05", "--store", store, *browser],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=580,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["problems"] == [], found
    assert done.returncode == 0
    assert set(found["faults"]) == {name for group in SHORT[store] for name in group}
    counted = found["counted"]
    assert counted["acknowledged answer"] >= 20
    assert counted["rows in the log"] >= counted["acknowledged answer"] + counted["acknowledged undo"]
    assert found["failed attempts"] > 0, "people noticed the faults"


def test_every_kind_of_fault_is_in_the_short_form() -> None:
    short = {name for groups in SHORT.values() for group in groups for name in group}
    assert short <= set(FAULTS)
    assert {name.partition("-")[0] for name in FAULTS} - {"stop"} == {
        name.partition("-")[0] for name in short
    }
    parts = {f"kill-{part}" for part in ("server", "trainer", "chooser", "importer", "browser")}
    assert parts <= short
