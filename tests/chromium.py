"""How the tests start Chromium: STEELYARD_CHROMIUM, or what is installed."""

from __future__ import annotations

import os
import shutil
from typing import Any

__all__ = ["chromium_options"]

# The same engine without the windows, tabs and menus around it comes first: tests in it take less than half of the browser's processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium_options() -> dict[str, Any]:
    """What Playwright needs to start it, also as root and without a GPU."""
    path = os.environ.get("STEELYARD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
    return {"executable_path": path, "args": ["--no-sandbox", *quiet]}
