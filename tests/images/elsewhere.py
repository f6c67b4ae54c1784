"""Places elsewhere for tests: a folder behind a real web server that can go away and come back, and small pictures."""

from __future__ import annotations

import functools
import http.server
import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def png(k: int, size: int = 24) -> bytes:
    """A picture that gets brighter with k."""
    noise = np.random.default_rng(k).integers(0, min(30 + 8 * k, 255), (size, size, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "PNG")
    return out.getvalue()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class WebFolder:
    """A folder behind a web server, with pages of links in place of subfolders.

    Attributes:
        folder: what is served.
        asked: paths that somebody asked for, in order.
        fail: answer everything with this status while it is not 0.
        refuse: answer these paths with a status of their own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.fail = folder, 0
        self.asked: list[str] = []
        self.refuse: dict[str, int] = {}
        self._port = 0
        self._server: http.server.ThreadingHTTPServer | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def url(self) -> str:
        """The address, which stays the same."""
        return f"http://127.0.0.1:{self._port}"

    def write(self, path: str, content: bytes) -> None:
        """Put a file there."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)

    def start(self) -> None:
        """Come back, at the same address."""
        outer = self

        class Handler(_Quiet):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if status := outer.fail or outer.refuse.get(self.path):
                    self.send_error(status)
                else:
                    super().do_GET()

        handler = functools.partial(Handler, directory=str(self.folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def stop(self) -> None:
        """Go away: connections are refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
