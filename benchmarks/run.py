"""Run every benchmark (or those named), one after the other: `make bench BENCH="kcenter draws_cost"`.

Each prints ratios measured side by side in one run; the machine is noisy, so seconds alone mean little.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NEED_ARGUMENTS = ("run", "against", "by_round", "before_after", "densenet_weights", "selection")


def main() -> int:
    """Run them; the exit code is the number that failed."""
    known = {
        path.stem: path
        for path in sorted(HERE.glob("*.py"))
        if path.stem not in NEED_ARGUMENTS and not path.stem.startswith("_")
    }
    wanted = sys.argv[1:] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        print(f"\n=== {name}", flush=True)
        failed += subprocess.run([sys.executable, str(known[name])], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
