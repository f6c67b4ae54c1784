"""Folders that nobody may look into: root, who runs tests in a container, may look into all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def close(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    """Refuse to list this folder, with this number of an error."""
    scandir = os.scandir

    def refusing(path: Any = ".") -> Any:
        if Path(path) == folder:
            raise OSError(number, os.strerror(number), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
