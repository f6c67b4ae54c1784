"""A strategy says what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.acquire import needs, needs_of, strategies
from steelyard.errors import AcquireError


def test_every_strategy_of_ours_says_what_it_needs() -> None:
    declared = {name: set(needs_of(name)) for name in strategies()}
    assert declared.pop("random") == set()
    described = {"spread", "coreset", "clusters"}
    assert {name for name, what in declared.items() if what == {"features"}} == described
    assert declared.pop("asap") == {"answers"}
    assert {name for name, what in declared.items() if what == {"model"}} == set(declared) - described


def test_a_function_without_a_word_about_it_needs_nothing() -> None:
    def plain(posterior: Any, n: int, /, *, taken: Any, rng: Any) -> None: ...

    assert needs_of(plain) == frozenset()
    assert needs_of(needs("model")(plain)) == {"model"}


def test_mistakes_are_named() -> None:
    def deaf(posterior: Any, n: int, /, *, taken: Any, rng: Any) -> None: ...

    with pytest.raises(AcquireError, match="strategy 'deaf' needs features but has no keyword argument"):
        needs("features")(deaf)
    with pytest.raises(AcquireError, match="needs answers but has no keyword argument 'answered'"):
        needs("answers")(deaf)
    with pytest.raises(AcquireError, match="needs model or features or answers, not 'pixels'"):
        needs("pixels")  # type: ignore[arg-type]
    with pytest.raises(AcquireError, match="did you mean 'epig'"):
        needs_of("epgi")
