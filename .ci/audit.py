"""Known holes in what is pinned, by pip-audit. Its data is on the internet: where that cannot be reached, this says so."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def main() -> int:
    """pip-audit's verdict: 0 nothing known, 1 holes, 3 it could not look."""
    if importlib.util.find_spec("pip_audit") is None:
        print("NOT AUDITED: pip-audit is not installed; run: pip install pip-audit")
        return 3
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", str(CONSTRAINTS)]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode and "Found" not in done.stderr + done.stdout:
        print(f"NOT AUDITED: pip-audit could not reach its data\n{done.stderr[-500:]}")
        return 3
    print(done.stderr, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
