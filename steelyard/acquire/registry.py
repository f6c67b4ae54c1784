"""Strategies by name. `config/strategies.py` has the names, because `study.toml` says them; here are the functions."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from steelyard.acquire.choice import Strategy
from steelyard.config.strategies import ALIASES, BUILT_IN, GROUP, plugins, unknown_strategy
from steelyard.errors import AcquireError

__all__ = ["GROUP", "get_strategy", "strategies"]


def get_strategy(name: str) -> Strategy:
    """The strategy of that name.

    Plug-ins are looked up only for names that are not ours, so that asking for one pair stays quick.

    >>> get_strategy("random").__name__
    'random'

    Raises:
        AcquireError: there is none, or the plug-in cannot be loaded.
    """
    known = ALIASES.get(name, name)
    if known in BUILT_IN:
        module, function = BUILT_IN[known].split(":")
        return cast(Strategy, getattr(import_module(module), function))
    found = plugins().get(name)
    if found is None:
        raise AcquireError(unknown_strategy(name))
    try:
        strategy = found.load()
    except (ImportError, AttributeError) as error:
        raise AcquireError(f"strategy '{name}' ({found.value}) cannot be loaded: {error}") from error
    if not callable(strategy):
        raise AcquireError(f"strategy '{name}' ({found.value}) is {strategy!r}; a strategy is a function")
    return cast(Strategy, strategy)


def strategies() -> tuple[str, ...]:
    """All names, ours first, then those of installed plug-ins."""
    return (*BUILT_IN, *sorted(set(plugins()) - set(BUILT_IN) - set(ALIASES)))
