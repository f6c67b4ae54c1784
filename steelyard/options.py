"""`name:key=value:…`, as methods and annotators are written on the command line."""

from __future__ import annotations

from typing import Any

from steelyard.errors import ConfigError

__all__ = ["parse_options"]


def parse_options(spec: str) -> tuple[str, dict[str, Any]]:
    """A name and its options; numbers, true and false become what they look like.

    >>> parse_options("epig:start=spread:r=5")
    ('epig', {'start': 'spread', 'r': 5})

    Raises:
        ConfigError: a part is no key=value.
    """
    name, *parts = spec.split(":")
    options: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise ConfigError(f"'{part}' in '{spec}' is not an option; options look like scale=0.3")
        options[key] = _value(value)
    return name, options


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
