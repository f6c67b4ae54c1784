"""What a deployment sets from outside: every variable that is read, and secrets by value or by file.

docs/operations.md has the table. A variable of another name is most likely a typing mistake, which would otherwise go
unnoticed in a compose file; secrets may lie in files, because an environment is seen by whoever may inspect a container.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from steelyard.errors import ConfigError, did_you_mean, why_not

__all__ = ["SECRETS", "VARIABLES", "is_on", "read_secret", "thread_limits", "unknown_variables"]

_PREFIX = "STEELYARD_"

SECRETS = (
    "STEELYARD_STORE_PASSWORD",
    "STEELYARD_METRICS_TOKEN",
    "STEELYARD_OIDC_CLIENT_SECRET",
    "STEELYARD_DICOMWEB_TOKEN",
)
"""Each may also be given as the name of a file that holds it, with `_FILE` behind its name."""

VARIABLES = frozenset(
    {
        *SECRETS,
        *(f"{name}_FILE" for name in SECRETS),
        "STEELYARD_HOST",
        "STEELYARD_PORT",
        "STEELYARD_PUBLIC_URL",
        "STEELYARD_HOSTS",
        "STEELYARD_TLS_CERT",
        "STEELYARD_TLS_KEY",
        "STEELYARD_PROXIES",
        "STEELYARD_LOGIN",
        "STEELYARD_AUTH_HEADER",
        "STEELYARD_AUTH_CREATE",
        "STEELYARD_IDLE_HOURS",
        "STEELYARD_OIDC_ISSUER",
        "STEELYARD_OIDC_CLIENT_ID",
        "STEELYARD_OIDC_LABEL",
        "STEELYARD_OIDC_NAME",
        "STEELYARD_OIDC_ROLES",
        "STEELYARD_OIDC_REDIRECT",
        "STEELYARD_STORE",
        "STEELYARD_STUDIES",
        "STEELYARD_PEOPLE",
        "STEELYARD_MODELS",
        "STEELYARD_IMAGES",
        "STEELYARD_CACHE",
        "STEELYARD_TRAIN",
        "STEELYARD_THREADS",
        "STEELYARD_WEIGHTS",
        "STEELYARD_LOG",
        "STEELYARD_UMASK",
    }
)
"""Every variable that Steelyard reads."""

_DEVELOPMENT = frozenset(
    f"{_PREFIX}{name}" for name in ("DATA", "CHROMIUM", "SCREENSHOTS", "BENCH_CACHE", "TRIED", "TEST_BOMB")
)
# Kubernetes tells every pod about every service of its namespace, and a service may well be called steelyard.
_KUBERNETES = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?$")
_YES, _NO = ("1", "true", "t", "yes", "y", "on"), ("", "0", "false", "f", "no", "n", "off")


def is_on(name: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether a switch is on; off without it.

    >>> is_on("STEELYARD_LOGIN", {"STEELYARD_LOGIN": "false"})
    False

    Raises:
        ConfigError: it is neither on nor off.
    """
    text = (os.environ if environment is None else environment).get(name, "").strip().lower()
    if text not in _YES + _NO:
        raise ConfigError(f"{name} is 1 (on) or 0 (off), not {text!r}")
    return text in _YES


def read_secret(name: str, environment: Mapping[str, str] | None = None) -> str:
    """A secret from its variable, or from the file that the variable with `_FILE` behind its name names; else empty.

    Raises:
        ConfigError: both are given, or the file cannot be read or is empty. The secret is in no message.
    """
    env: Mapping[str, str] = os.environ if environment is None else environment
    value, file = env.get(name, ""), env.get(f"{name}_FILE", "")
    if not file:
        return value
    if value:
        raise ConfigError(f"{name} and {name}_FILE are both set; leave one out")
    try:
        value = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        said = why_not(error) if isinstance(error, OSError) else f"{file} is no text"
        raise ConfigError(
            f"{name}_FILE names a file that holds the secret and nothing else: {said}"
        ) from None
    if not value or "\n" in value or "\0" in value:
        raise ConfigError(
            f"{name}_FILE names a file that holds the secret and nothing else; {file} "
            + ("has several lines" if value else "is empty")
        )
    return value


def thread_limits(threads: int) -> dict[str, str]:
    """The variables that limit what one process computes with; nothing for 0. They are read when libraries are loaded."""
    return (
        {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")} if threads else {}
    )


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that looks like ours and is not read; never its value.

    >>> unknown_variables({"STEELYARD_PUBLIC_URI": "https://severity.example.org"})
    ["STEELYARD_PUBLIC_URI is set, but nothing reads it – did you mean 'STEELYARD_PUBLIC_URL'?"]
    """
    found = sorted(
        name
        for name in environment
        if name.startswith(_PREFIX) and name not in VARIABLES | _DEVELOPMENT and not _KUBERNETES.search(name)
    )
    # By what stands behind the prefix, which would make every name look like every other.
    known = {name.removeprefix(_PREFIX): name for name in sorted(VARIABLES)}
    return [f"{name} is set, but nothing reads it{_nearest(name, known)}" for name in found]


def _nearest(name: str, known: dict[str, str]) -> str:
    said = did_you_mean(name.removeprefix(_PREFIX), known)
    return said.replace("'", f"'{_PREFIX}", 1) if said else "; docs/operations.md lists what is read"
