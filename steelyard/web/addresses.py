"""Where people find the server: where it listens, and what stands before the path of every link it hands out.

`--public-url` (or STEELYARD_PUBLIC_URL) says it. Without it the address is that of this machine: the one listened on, or
its address in the network where it listens on all of them.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from urllib.parse import urlsplit

from fastapi import Request

from steelyard.errors import ConfigError, StudyError
from steelyard.web.security import is_loopback

__all__ = ["UNSPECIFIED", "in_links", "listen", "listening_address", "network_address", "read_public_url"]

UNSPECIFIED = ("0.0.0.0", "::", "")  # noqa: S104 - nobody binds to it here
"""Hosts that stand for every address of the machine."""

_EXPECTED = "the address people use, as in https://severity.example.org or http://10.0.0.5:8765"
# Set aside for documentation (RFC 5737, RFC 3849): nobody has them, and connecting a datagram socket sends nothing.
_FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def read_public_url(text: str) -> str:
    """An address as links begin with it: scheme, name and port, nothing behind; empty stays empty.

    >>> read_public_url("https://Severity.example.org/")
    'https://severity.example.org'

    Raises:
        ConfigError: it is no address, or there is more in it than the page can be found under.
    """
    given = text.strip()
    if not given:
        return ""
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"--public-url is {_EXPECTED}; not {given!r} ({error})") from None
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in given):
        raise ConfigError(f"--public-url is {_EXPECTED}; not {given!r}")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("--public-url goes into every link; leave the name and password before '@' out")
    if parts.query or parts.fragment or "?" in given or "#" in given:
        raise ConfigError(
            f"--public-url has nothing behind the name and port; leave '?' and '#' out of {given!r}"
        )
    if parts.path not in ("", "/"):
        raise ConfigError(
            f"--public-url has no path: the page lives at the root of its address, not under {parts.path!r}; give it a name of "
            "its own, as in https://severity.example.org"
        )
    return _url(parts.scheme, host, port)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on: whoever is quicker with the link than the server waits.

    Args:
        host: address of this machine, or a name of it.
        port: 0 takes a free one.

    Raises:
        ConfigError: there is no such port.
        StudyError: the port is taken or not allowed, or the address is not this machine's.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port is between 1 and 65535, or 0 for a free one; not {port}")
    where = f"cannot listen on {host}:{port}"
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen()
        return made
    except (OSError, UnicodeError) as error:
        made.close()
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            raise StudyError(
                f"{where}: the port is taken; stop what runs there, or choose another --port (0 takes a free one)"
            ) from None
        if code == errno.EACCES:
            raise StudyError(
                f"{where}: ports below 1024 are the administrator's; choose another --port"
            ) from None
        raise StudyError(
            f"{where}: {host!r} is no address of this machine ({error}); --host is 127.0.0.1 for this machine alone, 0.0.0.0 for "
            "everybody in the network"
        ) from None


def network_address(family: socket.AddressFamily | None = None) -> str | None:
    """This machine's address in its network, found without sending anything; None where there is no network.

    Args:
        family: only of this kind; None takes IPv4 where there is any.
    """
    for kind, far in _FAR:
        if family not in (None, kind):
            continue
        try:
            with socket.socket(kind, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                found = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
        except (OSError, ValueError):
            continue
        if not (found.is_loopback or found.is_unspecified or found.is_link_local):
            return str(found)
    return None


def listening_address(scheme: str, host: str, port: int) -> str:
    """The address of a server that listens on a host, as others of the network reach it where they can."""
    if host in UNSPECIFIED:
        host = network_address(socket.AF_INET if host == UNSPECIFIED[0] else None) or "127.0.0.1"
    return _url(scheme, host, port)


def in_links(request: Request, public: str, listening: str) -> str:
    """What a link begins with that somebody asked for on the page.

    Whoever sits at the server itself sees 127.0.0.1, which is another machine for everybody else.

    Args:
        request: theirs.
        public: what `--public-url` says; empty where it says nothing.
        listening: as `listening_address` says; empty where that is not known.
    """
    if public:
        return public
    if listening and is_loopback(request.url.hostname or ""):
        return listening
    return f"{request.url.scheme}://{request.url.netloc}"


def _url(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port is not None else ''}"
