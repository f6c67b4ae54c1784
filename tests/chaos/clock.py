"""The wall clock of the processes under test, which can be set while they run."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

__all__ = ["Clock"]


class Clock:
    """Compiles `clock.c` and holds the file that says how far ahead the clock is.

    Args:
        folder: where library and file go; every user of the machine must be able to read there.
    """

    def __init__(self, folder: Path) -> None:
        self._library, self._file = folder / "clock.so", folder / "clock"
        source = Path(__file__).with_name("clock.c")
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(source)], check=True, timeout=60
        )
        self._file.write_bytes(struct.pack("l", 0))
        for path in (self._library, self._file):
            path.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What a process must be started with to live by this clock."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def set(self, ahead: int) -> None:
        """Move it so many seconds away from the true time, at once for every process."""
        # In place: the processes have this very file mapped.
        with self._file.open("r+b") as file:
            file.write(struct.pack("l", ahead))
            file.flush()
            os.fsync(file.fileno())
