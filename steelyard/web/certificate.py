"""The certificate of a server that speaks TLS itself."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from steelyard.errors import ConfigError

__all__ = ["read_certificate"]


def read_certificate(cert: str | Path | None, key: str | Path | None) -> dict[str, Any]:
    """What uvicorn needs to speak TLS; nothing where no certificate is given.

    Raises:
        ConfigError: it cannot be read, or the key is not the certificate's.
    """
    if cert is None:
        if key is not None:
            raise ConfigError(f"--tls-key {key} needs its certificate; name it with --tls-cert FILE")
        return {}
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificate {cert} cannot be used{f' with the key {key}' if key else ''}: {error}; both are PEM files"
        ) from None
    return {"ssl_certfile": str(cert), "ssl_keyfile": str(key) if key else None}
