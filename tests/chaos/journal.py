"""What somebody sent and what was acknowledged to them, on a disk that no fault touches."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["Journal", "read"]


class Journal:
    """One person's file, one line of JSON an event; an acknowledgement is on the disk before the next thing is sent."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, event: str, **what: Any) -> None:
        """Add a line."""
        self._file.write(json.dumps({"event": event, **what}) + "\n")
        self._file.flush()
        if event == "ack":
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Done."""
        self._file.close()


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every journal of a folder, by name."""
    return {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(folder.glob("*.jsonl"))
    }
