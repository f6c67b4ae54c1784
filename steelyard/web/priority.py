"""Stepping back, so that whoever answers never waits for whoever computes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["step_back"]


def step_back(nice: int) -> None:
    """Let everything else on this machine go first, down to a niceness; call it in a process that has a session of its own.

    Linux weighs processes against each other within a session and sessions against each other, so a process that is only
    nice still takes as large a turn as everything outside its session together – the disk's own threads among them,
    which answers wait for. So the session steps back as well, where there is such a thing.
    """
    if not nice or not hasattr(os, "nice"):
        return
    os.nice(max(0, nice - os.nice(0)))
    group = Path("/proc/self/autogroup")
    if os.getsid(0) != os.getpid() or not group.exists():
        return
    try:
        group.write_text(str(min(nice, 19)), encoding="ascii")
    except OSError:  # not allowed here; being nice is what is left
        return
