"""Requests that no client library would send."""

from __future__ import annotations

import socket

from tests.web.actors import Server


def raw(server: Server, request: bytes) -> bytes:
    """Bytes in, bytes out: clients tidy up requests that an attacker would not."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(request)
        reply = b""
        while part := line.recv(65536):
            reply += part
    return reply
