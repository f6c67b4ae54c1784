"""A wire between the store and PostgreSQL that counts round trips: how often the store speaks and waits for a reply."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy.engine import make_url

__all__ = ["Wire", "wired"]


class Wire:
    """Passes bytes on in both directions.

    Attributes:
        url: of the store through this wire.
        trips: round trips so far, on all connections.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._socket = f"{parsed.query['host']}/.s.PGSQL.{parsed.query.get('port', parsed.port or 5432)}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        here = parsed.set(host="127.0.0.1", port=port, query={})
        self.url = here.render_as_string(hide_password=False)
        self.trips = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._socket)
            speaking = threading.Event()  # the store spoke last
            self._open += [near, far]
            for here, there, up in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pass, args=(here, there, up, speaking), daemon=True).start()

    def _pass(self, here: socket.socket, there: socket.socket, up: bool, speaking: threading.Event) -> None:
        try:
            while data := here.recv(65536):
                if up and not speaking.is_set():
                    self.trips += 1
                    speaking.set()
                elif not up:
                    speaking.clear()
                there.sendall(data)
        except OSError:
            pass
        finally:
            for end in (here, there):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Break every connection, as when the server is started anew; new ones can be made."""
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def close(self) -> None:
        """Take the wire away."""
        self._listener.close()
        self.cut()


@contextmanager
def wired(url: str) -> Iterator[Wire]:
    """A wire to a PostgreSQL that listens on a Unix socket."""
    wire = Wire(url)
    try:
        yield wire
    finally:
        wire.close()
