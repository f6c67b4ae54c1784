"""A proxy that speaks TLS, as small as it can be: what Caddy or nginx does for the page, within a test."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_OWN = {"x-forwarded-for", "x-forwarded-proto", "connection", "transfer-encoding"}


@contextmanager
def tls_proxy(port: int, name: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """Terminate TLS before a server of this machine.

    Args:
        port: of the server.
        name: under which the page is found, in the certificate.
        folder: for the certificate.

    Yields:
        The port of the proxy, and the certificate to trust.
    """
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            sent = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
            sent |= {"X-Forwarded-For": self.client_address[0], "X-Forwarded-Proto": "https"}
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            line.request(self.command, self.path, body, sent)
            reply = line.getresponse()
            content = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in {*_OWN, "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            line.close()

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], cert
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
