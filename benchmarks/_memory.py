"""How the memory of a process and its children moves: sampled in a thread, with the slope of a line through it."""

from __future__ import annotations

import threading
import time

import numpy as np
import psutil

SECONDS = 2.0
WARM = 0.3  # share of the time that caches may take to fill


class Memory:
    """Resident memory in MB, sampled until stopped."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._samples: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(SECONDS):
            total = 0
            for process in (self._process, *self._process.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self._samples.append((time.monotonic(), total / 2**20))

    def stop(self) -> None:
        """No more samples."""
        self._over.set()
        self._thread.join(timeout=10)

    def line(self) -> tuple[float, float, float]:
        """MB after the first 30 % of the time, MB at the end, and MB a minute in between (least squares)."""
        kept = np.array(self._samples[int(len(self._samples) * WARM) :])
        if len(kept) < 3:
            return float("nan"), float("nan"), float("nan")
        slope = float(np.polyfit(kept[:, 0], kept[:, 1], 1)[0]) * 60
        return float(kept[0, 1]), float(kept[-1, 1]), slope
