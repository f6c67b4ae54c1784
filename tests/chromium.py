"""How the tests start Chromium: STEELYARD_CHROMIUM, or what is installed."""

from __future__ import annotations

import os
import shutil
from typing import Any

__all__ = ["chromium_options"]


def chromium_options() -> dict[str, Any]:
    """What Playwright needs to start it, also as root and without a GPU."""
    path = os.environ.get("STEELYARD_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
    return {"executable_path": path, "args": ["--no-sandbox", *quiet]}
