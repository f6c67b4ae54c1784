"""How people get in: whether they sign in, through which proxies they come, how long they may stay away.

Put together once at the start, from the options of `steelyard serve` and the environment, and checked there.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from steelyard.environment import is_on
from steelyard.errors import ConfigError
from steelyard.web.addresses import read_public_url
from steelyard.web.oidc import ProviderSettings, read_provider
from steelyard.web.security import is_loopback

__all__ = ["Access", "Network", "read_access", "read_proxies"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
IDLE_HOURS = 12.0
LONGEST_HOURS = 14 * 24.0


@dataclass(frozen=True, slots=True)
class Access:
    """How people get in.

    Attributes:
        login: whether everybody signs in; without, one person works at this machine with the key of this start.
        idle_seconds: without a request, after which a login is over.
        proxies: from which `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
        header: the header in which a proxy names whoever signed in there; empty for none.
        create: whether people whom the proxy or the provider knows and the study does not become annotators.
        tls: whether the server itself speaks TLS.
        provider: the OpenID Connect provider that signs people on, or None.
        public: what every link begins with, as `addresses.read_public_url` gives it; empty where nobody said.
    """

    login: bool = False
    idle_seconds: float = IDLE_HOURS * 3600
    proxies: tuple[Network, ...] = ()
    header: str = ""
    create: bool = False
    tls: bool = False
    provider: ProviderSettings | None = None
    public: str = ""

    def trusts(self, address: str) -> bool:
        """Whether an address is that of a named proxy."""
        try:
            given = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(given, ipaddress.IPv6Address) and given.ipv4_mapped is not None:
            given = given.ipv4_mapped
        return any(given in network for network in self.proxies)


def read_proxies(names: Sequence[str]) -> tuple[Network, ...]:
    """Networks from addresses like 10.0.0.5 or 10.0.0.0/24.

    Raises:
        ConfigError: something else, or everybody.
    """
    networks = []
    for name in (part.strip() for text in names for part in text.split(",")):
        if not name:
            continue
        try:
            network = ipaddress.ip_network(name)
        except ValueError:
            raise ConfigError(
                f"a proxy is an address or a network, as in 10.0.0.5 or 10.0.0.0/24; not {name!r}"
            ) from None
        if network.prefixlen == 0:
            raise ConfigError(f"{name} is everybody: whoever comes could say they are somebody else")
        networks.append(network)
    return tuple(networks)


def read_access(
    *,
    login: bool | None,
    local: bool,
    proxies: Sequence[str] = (),
    header: str = "",
    create: bool = False,
    tls: bool = False,
    public_url: str = "",
    environment: Mapping[str, str] | None = None,
) -> Access:
    """How people get in, from options and what STEELYARD_LOGIN, …_PROXIES, …_AUTH_HEADER, …_AUTH_CREATE, …_IDLE_HOURS
    and …_PUBLIC_URL say; an option wins.

    Args:
        login: make everybody sign in, or nobody; None decides by the address.
        local: whether the server listens on this machine only.
        proxies: addresses or networks.
        header: the header that names the person.
        create: annotators for unknown names.
        tls: whether the server speaks TLS.
        public_url: under which people find the page.
        environment: `os.environ` by default.

    Raises:
        ConfigError: something cannot be read, or a header is believed from nobody in particular.
    """
    env: Mapping[str, Any] = os.environ if environment is None else environment
    networks = read_proxies(proxies or [env.get("STEELYARD_PROXIES", "")])
    name = header or env.get("STEELYARD_AUTH_HEADER", "")
    create = create or is_on("STEELYARD_AUTH_CREATE", env)
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}", name):
        raise ConfigError(f"--auth-header is the name of a header, as in X-Remote-User; not {name!r}")
    if name and not networks:
        raise ConfigError(
            f"--auth-header {name} is believed from named proxies only; say which with --proxy ADDRESS"
        )
    provider = read_provider(env)
    public = read_public_url(public_url or env.get("STEELYARD_PUBLIC_URL", ""))
    others = bool(public) and not is_loopback(urlsplit(public).hostname or "")
    if login is None:
        asked = is_on("STEELYARD_LOGIN", env)
        login = not local or bool(name) or provider is not None or others or asked
    if provider is not None and not login:
        raise ConfigError("STEELYARD_OIDC_ISSUER signs people on; it does not go with nobody signing in")
    if name and not login:
        raise ConfigError(f"--auth-header {name} says who signs in; it does not go with nobody signing in")
    if others and not login:
        raise ConfigError(f"others come to --public-url {public}; it does not go with nobody signing in")
    return Access(
        login=login, idle_seconds=_idle(env.get("STEELYARD_IDLE_HOURS", "")), proxies=networks, header=name,
        create=create, tls=tls, provider=provider, public=public,
    )  # fmt: skip


def _idle(text: str) -> float:
    if not text:
        return IDLE_HOURS * 3600
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not 0 < hours <= LONGEST_HOURS:
        raise ConfigError(
            f"STEELYARD_IDLE_HOURS is a number of hours up to {LONGEST_HOURS:.0f}, not {text!r}"
        )
    return hours * 3600
