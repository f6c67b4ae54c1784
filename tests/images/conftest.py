"""Places elsewhere, and no memory of hosts that were away in another test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.images import remote
from tests.images.elsewhere import WebFolder


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebFolder]:
    """A web server with an empty folder; nobody waits long for it."""
    monkeypatch.setattr(remote, "REST_SECONDS", 0.0)
    monkeypatch.setattr(remote, "REMEMBERED_SECONDS", 0.0)
    server = WebFolder(tmp_path / "web")
    yield server
    server.stop()
