"""Names of strategies. Ours are here; others come in by the entry point group `steelyard.strategies`."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from steelyard.acquire.choice import Strategy
from steelyard.errors import AcquireError, did_you_mean

__all__ = ["GROUP", "get_strategy", "strategies"]

GROUP = "steelyard.strategies"

_BUILT_IN = {
    "random": "steelyard.acquire.random_pairs:random",
    "variance": "steelyard.acquire.variance:variance",
    "spread": "steelyard.acquire.spread:spread",
    "coreset": "steelyard.acquire.coreset:coreset",
    "pair_bald": "steelyard.acquire.pair_bald:pair_bald",
    "dopt": "steelyard.acquire.dopt:dopt",
    "epig": "steelyard.acquire.epig:epig",
    "guro": "steelyard.acquire.guro:guro",
    "entropy": "steelyard.acquire.entropy:entropy",
}
_ALIASES = {"ubs": "variance"}  # the paper's name for it


def get_strategy(name: str) -> Strategy:
    """The strategy of that name.

    Plug-ins are looked up only for names that are not ours, so that asking for one pair stays quick.

    >>> get_strategy("random").__name__
    'random'

    Raises:
        AcquireError: there is none, or the plug-in cannot be loaded.
    """
    known = _ALIASES.get(name, name)
    if known in _BUILT_IN:
        module, function = _BUILT_IN[known].split(":")
        return cast(Strategy, getattr(import_module(module), function))
    plugins = _plugins()
    if name not in plugins:
        names = [*_BUILT_IN, *_ALIASES, *plugins]
        raise AcquireError(
            f"unknown strategy '{name}'{did_you_mean(name, names)}; there are {', '.join(sorted(names))}"
        )
    try:
        strategy = plugins[name].load()
    except (ImportError, AttributeError) as error:
        raise AcquireError(f"strategy '{name}' ({plugins[name].value}) cannot be loaded: {error}") from error
    if not callable(strategy):
        raise AcquireError(
            f"strategy '{name}' ({plugins[name].value}) is {strategy!r}; a strategy is a function"
        )
    return cast(Strategy, strategy)


def strategies() -> tuple[str, ...]:
    """All names, ours first, then those of installed plug-ins."""
    return (*_BUILT_IN, *sorted(set(_plugins()) - set(_BUILT_IN) - set(_ALIASES)))


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
