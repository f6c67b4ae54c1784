"""A disk of its own for the study: it can be filled to the last byte and made read-only."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Disk"]


class Disk:
    """A tmpfs where we may mount one; otherwise a plain folder with limits on the processes instead.

    Args:
        folder: mount point.
        megabytes: size of the disk.

    Attributes:
        mounted: whether it is a file system of its own. If not, "full" is a limit on the size of files of the given
            processes (RLIMIT_FSIZE), and "read-only" takes the right to write from the folder.
    """

    def __init__(self, folder: Path, megabytes: int = 512) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "steelyard-chaos", str(folder)]
        try:
            self.mounted = subprocess.run(mount, capture_output=True, timeout=30).returncode == 0
        except OSError:
            self.mounted = False

    @property
    def kind(self) -> str:
        """In words, for the report."""
        return "tmpfs" if self.mounted else "limits on processes (no right to mount)"

    def fill(self, pids: Iterable[int]) -> None:
        """Leave no room for another byte."""
        if self.mounted:
            with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as file:
                for size in (1 << 20, 4096, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"\0" * size):
                            pass
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    def clear(self, pids: Iterable[int]) -> None:
        """Give the room back."""
        if self.mounted:
            self._filler.unlink(missing_ok=True)
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def read_only(self) -> bool:
        """Refuse every change. The kernel does so only while nobody has a file open for writing: False if somebody has."""
        if self.mounted:
            command = ["mount", "-o", "remount,ro", str(self.folder)]
            return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
        self._rights(0o500)
        return True

    def writable(self) -> None:
        """Take changes again."""
        if self.mounted:
            subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True, timeout=30)
        else:
            self._rights(0o700)

    def remove(self) -> None:
        """Unmount it; what is on it is gone."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False, timeout=30)

    def _rights(self, mode: int) -> None:
        for folder, _, files in os.walk(self.folder):
            for name in files:
                (Path(folder) / name).chmod(mode & 0o600)
            Path(folder).chmod(mode)
