"""Some pairs chosen, some at random, some again: so that accuracy and agreement stay measurable."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.acquire.choice import Choice, Strategy, check_request
from steelyard.acquire.registry import get_strategy
from steelyard.errors import AcquireError, did_you_mean
from steelyard.pairs import PairSet, random_pairs

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["COMMON_OPTIONS", "choose"]

COMMON_OPTIONS = (
    "reselect",
    "noise",
    "balance",
    "features",
    "answered",
    "images",
    "candidates",
    "targets",
    "heard",
)
"""Options of a study that a strategy takes if it knows them and that are no mistake if it does not."""

RANDOM_REASON = "This pair was drawn by chance; such pairs tell how often the model is right."
REPEAT_REASON = "This pair was asked before; such pairs tell how well answers agree."


def choose(
    strategy: str | Strategy,
    posterior: Posterior | None,
    n: int,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    random_share: float = 0.0,
    repeat_share: float = 0.0,
    repeatable: ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
) -> Choice:
    """Choose n pairs: a share uniformly at random, a share of pairs asked before, the rest by a strategy.

    A share of a small n is a matter of luck: of single questions with `random_share=0.1` every tenth is random.

    Args:
        strategy: its name, or the function itself.
        posterior: what the model believes; None for strategies that need no model.
        n: pairs wanted.
        taken: pairs that may not be chosen anew; not changed.
        rng: source of randomness.
        random_share: share drawn uniformly from all free pairs: an unbiased sample to estimate accuracy with.
        repeat_share: share drawn from pairs that were asked before.
        repeatable: the pairs that may be asked again, shape (k, 2); all taken ones unless given.
        options: for the strategy. `reselect`, `noise`, `balance` and `features` are handed to strategies that
            know them; any other has to be known.

    Returns:
        The pairs in shuffled order of role, so that nobody can tell them apart by their place; `roles` says which
        is which. `second` are pairs that somebody else has answered and that the strategy chose all the same (option `heard`).

    Raises:
        AcquireError: unknown strategy or option, or shares outside 0 … 1.
    """
    for name, share in (("random_share", random_share), ("repeat_share", repeat_share)):
        if not 0 <= share <= 1:
            raise AcquireError(f"'{name}' is a share between 0 and 1, not {share}")
    if random_share + repeat_share > 1:
        raise AcquireError(
            f"'random_share' ({random_share}) and 'repeat_share' ({repeat_share}) add up to more than 1"
        )
    label = strategy if isinstance(strategy, str) else getattr(strategy, "__name__", repr(strategy))
    run = get_strategy(strategy) if isinstance(strategy, str) else strategy
    check_request(posterior, n, taken, strategy=label, model=False)
    known = _known_options(run, label, options or {})

    repeats = Choice.empty()
    if again := _share_of(n, repeat_share, rng):
        old = (
            taken.to_array() if repeatable is None else np.asarray(repeatable, dtype=np.int64).reshape(-1, 2)
        )
        repeats = _plain(old[rng.permutation(len(old))[:again]], REPEAT_REASON)
    drawn = _plain(
        random_pairs(
            min(_share_of(n, random_share, rng), n - len(repeats)), taken.size, taken=taken, rng=rng
        ),
        RANDOM_REASON,
    )
    rest = n - len(repeats) - len(drawn)
    blocked = taken
    if len(drawn) and rest:
        blocked = taken.copy()
        blocked.add(drawn.pairs)
    chosen = run(posterior, rest, taken=blocked, rng=rng, **known) if rest else Choice.empty()
    if known.get("heard") is not None:
        answered = blocked.contains(chosen.pairs).tolist()
        chosen = replace(chosen, roles=["second" if one else "chosen" for one in answered])
    if not len(repeats) and not len(drawn):
        return chosen
    mixed = Choice.join([
        chosen,
        Choice(drawn.pairs, drawn.scores, drawn.reasons, ["random"] * len(drawn)),
        Choice(repeats.pairs, repeats.scores, repeats.reasons, ["repeat"] * len(repeats)),
    ])  # fmt: skip
    # Merge at random places, but keep the strategy's own order among its picks.
    place = np.argsort(rng.permutation(len(mixed)), kind="stable")
    place[np.sort(np.flatnonzero(place < len(chosen)))] = np.arange(len(chosen))
    return mixed[place]


def _share_of(n: int, share: float, rng: np.random.Generator) -> int:
    """n · share, rounded up or down by luck so that it is right on average."""
    exact = n * share
    return int(exact) + int(rng.random() < exact - int(exact)) if share else 0


def _plain(pairs: NDArray[np.int64], reason: str) -> Choice:
    return Choice(pairs, np.zeros(len(pairs)), [reason] * len(pairs))


def _known_options(run: Strategy, label: str, options: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(run).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(options)
    names = [
        name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY and name not in ("taken", "rng")
    ]
    for name in options:
        if name not in names and name not in COMMON_OPTIONS:
            raise AcquireError(
                f"strategy '{label}' has no option '{name}'{did_you_mean(name, names)}; it knows {', '.join(names) or 'none'}"
            )
    return {name: value for name, value in options.items() if name in names}
