"""A process that computes steps back behind those that answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os
from pathlib import Path
from steelyard.web.priority import step_back
step_back({nice})
group = Path("/proc/self/autogroup")
print(os.nice(0), group.read_text().split()[-1] if group.exists() else "none")
"""


@pytest.mark.parametrize("own_session", [True, False])
@pytest.mark.parametrize("nice", [0, 7])
def test_a_process_and_its_own_session_step_back(own_session: bool, nice: int) -> None:
    before = os.nice(0)
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(nice=nice)], capture_output=True, text=True, check=True, timeout=60,
        start_new_session=own_session,
    )  # fmt: skip
    niceness, group = done.stdout.split()
    assert int(niceness) == min(before + nice, 19)
    if not own_session and Path("/proc/self/autogroup").exists():
        assert (
            group == Path("/proc/self/autogroup").read_text(encoding="ascii").split()[-1]
        )  # not its to change
    elif nice and group != "none":
        assert group in ("0", "7")  # where a container forbids it, being nice is what is left
