"""Heads of requests: no longer and no slower than one of ours could be.

uvicorn's quick parser waits for the end of a head forever, and puts a long header together piece by piece: 60 MB without
an end held everybody else up for a quarter of a minute, from somebody who had not even said who they are.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_BYTES", "Heads"]

HEAD_BYTES = 64 << 10
"""Longest head; a browser's has one or two KB, a proxy's cookies and certificates a few more."""

SECONDS = 20.0
"""How long a head may take, from the connection or from its first byte."""


class Heads(HttpToolsProtocol):
    """A connection that is closed when what is not a body gets too long, or a head takes too long to come."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._passed = (
            0  # bytes since a message began or a part of its body came: head, chunk sizes, trailers
        )
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._come()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._passed += len(data)
        super().data_received(data)
        if self._passed > HEAD_BYTES and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.send_400_response("The head of this request is too long.")
            else:
                self.transport.close()

    def on_message_begin(self) -> None:
        self._passed = 0
        self._expect()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._come()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._passed = 0
        super().on_body(body)

    def _expect(self) -> None:
        self._come()
        self._late = asyncio.get_running_loop().call_later(SECONDS, self.transport.close)

    def _come(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
