"""A process that computes steps back behind those that answer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from steelyard.web.priority import step_back

# A process may have no such file (not Linux, no autogroups) or an empty one (the system's first session).
CODE = """
import os
from pathlib import Path
from steelyard.web.priority import step_back
def session():
    group = Path("/proc/self/autogroup")
    return (group.read_text().split() if group.exists() else []) or ["none"]
before = os.nice(0), session()[-1]
step_back({nice})
print(*before, os.nice(0), session()[-1])
"""


@pytest.mark.parametrize("own_session", [True, False])
@pytest.mark.parametrize("nice", [0, 7])
def test_a_process_and_its_own_session_step_back(own_session: bool, nice: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(nice=nice)], capture_output=True, text=True, timeout=60,
        start_new_session=own_session,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    nice_before, session_before, nice_after, session_after = done.stdout.split()
    assert int(nice_after) == max(int(nice_before), nice)
    if own_session and nice and session_before != "none":
        # Where a container forbids it, being nice is what is left.
        assert session_after in (session_before, str(nice))
    else:
        assert session_after == session_before  # not its to change


def test_a_session_that_may_not_step_back_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may refuse (EPERM, or EAGAIN when asked too often): the work must still begin."""

    def refuse(*_args: object, **_kwargs: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    asked: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr("os.nice", lambda more: asked.append(more) or 0)
        patch.setattr("os.getsid", lambda _pid: os.getpid())
        patch.setattr("pathlib.Path.exists", lambda _path: True)
        patch.setattr("pathlib.Path.write_text", refuse)
        step_back(7)
    assert asked[-1] == 7
