"""Is what is installed what was tested? Looks at constraints.txt and at this environment; asks nobody outside."""

from __future__ import annotations

import importlib.metadata as metadata
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, pinned, version = line.partition("==")
        if pinned:
            pins[name.strip().lower().replace("_", "-")] = version.split(";")[0].strip()
    installed = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in metadata.distributions()}
    wrong = [
        f"{name} {installed[name]} is installed, {version} was tested (constraints.txt)"
        for name, version in sorted(pins.items())
        if name in installed and installed[name].split("+")[0] != version.split("+")[0]
    ]
    for line in metadata.requires("steelyard") or []:
        name = line.split(";")[0].split("[")[0].split(">")[0].split("=")[0].strip().lower().replace("_", "-")
        if name in installed and name not in pins and name != "steelyard":
            wrong.append(f"{name} is a dependency without a pin in constraints.txt")
    check = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    if check.returncode:
        wrong += check.stdout.splitlines()
    print("\n".join(wrong) or f"{len(pins)} pinned versions, as installed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
