"""A worker on another machine, as a process: `remote_worker.py STORE MODELS CACHE [slow|held]`. Leases are short, so that tests need not wait.

A slow one stops in the middle of putting its first model up, and waits there to be killed; one that is held goes on when a
line comes in.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from steelyard.study import lease
from steelyard.study.remote import RemoteStudy
from steelyard.study.shelf import Shelf
from steelyard.web import trainer

if __name__ == "__main__":
    store, models, cache, *how = sys.argv[1:]
    lease.LEASE_SECONDS, lease.BEAT_SECONDS, trainer.POLL_SECONDS = 2.0, 0.3, 0.1
    trainer.RETRY_SECONDS = 1.0
    if how:
        put = Shelf.put

        def half_of_it(shelf: Shelf, name: str, file: Path) -> Any:
            if name.endswith("rows.npy"):
                print(f"stuck at {name}", flush=True)
                if how == ["slow"]:
                    time.sleep(600)
                sys.stdin.readline()
            return put(shelf, name, file)

        Shelf.put = half_of_it  # type: ignore[method-assign]
    trainer.run_worker(RemoteStudy(store, models, Path(cache)), nice=False)
