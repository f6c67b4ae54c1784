"""How long-running work says how far it is. Library code never prints; it calls what it was given."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress"]

Progress = Callable[[int, int, str], None]
"""Called as `progress(done, total, text)`."""
