"""The names of strategies: what `ask.strategy` may say. `acquire` finds the functions behind them.

Ours are listed here; others come in by the entry point group `steelyard.strategies`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from steelyard.errors import did_you_mean

__all__ = [
    "ALIASES",
    "BUILT_IN",
    "GROUP",
    "IN_WORDS",
    "WEIGH_NO_PAIRS",
    "is_strategy",
    "plugins",
    "unknown_strategy",
]

GROUP = "steelyard.strategies"

BUILT_IN = {
    "random": "steelyard.acquire.random_pairs:random",
    "variance": "steelyard.acquire.variance:variance",
    "spread": "steelyard.acquire.spread:spread",
    "coreset": "steelyard.acquire.coreset:coreset",
    "pair_bald": "steelyard.acquire.pair_bald:pair_bald",
    "dopt": "steelyard.acquire.dopt:dopt",
    "epig": "steelyard.acquire.epig:epig",
    "guro": "steelyard.acquire.guro:guro",
    "entropy": "steelyard.acquire.entropy:entropy",
    "batch_bald": "steelyard.acquire.batch_bald:batch_bald",
    "asap": "steelyard.acquire.asap:asap",
    "clusters": "steelyard.acquire.clusters:clusters",
}
IN_WORDS = {
    "random": "pairs by chance",
    "variance": "pairs of the images whose scores are least certain, as in the paper",
    "spread": "pairs that are spread over all kinds of images",
    "coreset": "pairs of images unlike those asked about so far",
    "pair_bald": "the pair about whose answer the model disagrees most with itself",
    "dopt": "the pair that narrows the model down most",
    "epig": "the pair whose answer teaches most about the order of all images",
    "guro": "the pair whose probability the model knows least",
    "entropy": "the pair whose answer is hardest to predict",
    "batch_bald": "the pairs that together narrow the model down most",
    "asap": "the pair that the answers so far leave most open, whatever the images look like",
    "clusters": "pairs of images that each stand for many like them",
}
"""What each asks, for people."""

WEIGH_NO_PAIRS = ("random", "variance", "spread", "coreset", "asap", "clusters", "batch_bald")
"""Of ours, those that cannot tell what another opinion on a pair is worth, because they choose images or take a pair for new."""

ALIASES = {"ubs": "variance"}  # the paper's name for it


def plugins() -> dict[str, EntryPoint]:
    """What other packages bring, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def is_strategy(name: str) -> bool:
    """Is there a strategy of that name here? Plug-ins are looked up only for names that are not ours."""
    return name in BUILT_IN or name in ALIASES or name in plugins()


def unknown_strategy(name: str) -> str:
    """The sentence about a name that nobody has."""
    names = [*BUILT_IN, *ALIASES, *plugins()]
    return f"unknown strategy '{name}'{did_you_mean(name, names)}; there are {', '.join(sorted(names))}"
