"""No telemetry means none: the whole loop with the network taken away, and nobody even tries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Python tells its audit hooks about every name looked up and every connection made, in every process and library that
# goes through it. A datagram socket that is only connected sends nothing (Ray asks so for its own address).
GUARD = """
import os, sys

def _guard(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        target = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        target = arguments[1]
        if isinstance(target, tuple):
            target = target[0]
        elif target is None or isinstance(target, (str, bytes)):
            return
        if event == "socket.connect" and arguments[0].type == 2:
            return
    elif event == "urllib.Request":
        target = arguments[0].split("/")[2].split(":")[0] if "://" in arguments[0] else ""
    else:
        return
    if isinstance(target, bytes):
        target = target.decode()
    if target in (None, "", "localhost", "::1", "0.0.0.0", "testserver", OWN) or str(target).startswith("127."):
        return
    with open(os.environ["STEELYARD_TRIED"], "a") as file:
        file.write(f"{event} {target} by {sys.argv[:3]}\\n")
    raise OSError(f"this machine has no network: {event} {target}")

import socket as _socket
OWN = _socket.gethostname()
sys.addaudithook(_guard)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_loop_runs_without_a_network_and_asks_for_none(tmp_path: Path) -> None:
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    (tmp_path / "work").mkdir()
    tried = tmp_path / "tried.txt"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "guard"), os.environ.get("PYTHONPATH", "")]),
        "STEELYARD_TRIED": str(tried),
        "TORCH_HOME": str(tmp_path / "hub"),
        "OMP_NUM_THREADS": "1",
    }
    for name in ("RAY_USAGE_STATS_ENABLED", "STEELYARD_WEIGHTS", "RAY_ADDRESS"):
        environment.pop(name, None)
    command = [sys.executable, str(Path(__file__).with_name("offline.py")), str(tmp_path / "work")]
    # Where we may, there really is no network; the guard notices those who try all the same.
    if (
        shutil.which("unshare")
        and subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0
    ):
        command = ["unshare", "-n", *command, "alone"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.strip().endswith('"done"')
    assert not tried.exists(), tried.read_text()


def test_the_guard_notices(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(GUARD)
    for attempt in (
        "import urllib.request; urllib.request.urlopen('https://example.org')",
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)",
    ):
        tried = tmp_path / "tried.txt"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STEELYARD_TRIED": str(tried)}
        done = subprocess.run(
            [sys.executable, "-c", attempt], capture_output=True, env=environment, check=False
        )
        assert done.returncode != 0
        assert tried.read_text()
        tried.unlink()
