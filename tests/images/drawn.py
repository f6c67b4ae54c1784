"""Files for the tests of layouts."""

from __future__ import annotations

from pathlib import Path

from PIL import Image


def draw(path: Path, value: int) -> None:
    """A picture of its own for each value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (value, 255 - value, 7)).save(path)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
