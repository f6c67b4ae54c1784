"""What a strategy needs besides the pairs that were asked: a model, features of the images, or the answers themselves.

A strategy says so itself, so that whoever calls one – a study, the trainer, an experiment – need not know it by name:

    @needs("features")
    def far_apart(posterior, n, /, *, taken, rng, features): ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from steelyard.acquire.registry import get_strategy
from steelyard.errors import AcquireError

__all__ = ["Need", "needs", "needs_of"]

Need = Literal["model", "features", "answers"]
_HANDED_OVER = {"features": "features", "answers": "answered"}
AnyStrategy = TypeVar("AnyStrategy", bound=Callable[..., Any])


def needs(*what: Need) -> Callable[[AnyStrategy], AnyStrategy]:
    """Declare what a strategy needs: `model`, a posterior; `features`, a row for each image as keyword argument `features`;
    `answers`, the pairs that were answered and what was said as keyword argument `answered`.

    Raises:
        AcquireError: a need that is not known, or features or answers without an argument to hand them over in.
    """
    for need in what:
        if need not in get_args(Need):
            raise AcquireError(f"a strategy needs {' or '.join(get_args(Need))}, not {need!r}")

    def declare(strategy: AnyStrategy) -> AnyStrategy:
        parameters = inspect.signature(strategy).parameters.values()
        for need, argument in _HANDED_OVER.items():
            if need in what and not any(p.name == argument or p.kind is p.VAR_KEYWORD for p in parameters):
                name = getattr(strategy, "__name__", repr(strategy))
                raise AcquireError(f"strategy '{name}' needs {need} but has no keyword argument '{argument}'")
        strategy.needs = frozenset(what)  # type: ignore[attr-defined]  # functions take attributes
        return strategy

    return declare


def needs_of(strategy: str | Callable[..., Any]) -> frozenset[str]:
    """What a strategy declared; nothing where it declared nothing, as plug-ins of 0.1.

    >>> sorted(needs_of("spread")), sorted(needs_of("epig")), sorted(needs_of("random"))
    (['features'], ['model'], [])

    Raises:
        AcquireError: there is no strategy of that name.
    """
    found = get_strategy(strategy) if isinstance(strategy, str) else strategy
    declared: frozenset[str] = getattr(found, "needs", frozenset())
    return declared
