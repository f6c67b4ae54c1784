"""Which pairs a study puts up next: what is believed in, new pairs with their reasons out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.belief import Belief
from steelyard.config import AskConfig, StudyConfig
from steelyard.errors import StudyError
from steelyard.images.catalog import Catalog
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import NewPair
from steelyard.store.store import Store
from steelyard.study.inputs import missing_files

__all__ = ["batch_size", "choose_pairs"]

_FEW = 8  # pairs; fewer are chosen from a smaller search, which finds as good a one in a fraction of the time


def batch_size(missing: int, ask: AskConfig, belief: Belief, images: int) -> int:
    """How many pairs to choose when `missing` are: the whole start or round at once, or one by one."""
    if belief.posterior is None:
        start = round(ask.start_share * images) - len(belief.taken)
        return max(missing, start)
    return max(missing, round(ask.round_share * images)) if ask.mode == "rounds" else missing


def choose_pairs(
    n: int,
    *,
    strategy: str | None,
    config: StudyConfig,
    belief: Belief,
    store: Store,
    catalog: Catalog,
    features: Callable[[], tuple[NDArray[Any], NDArray[np.int64]]],
) -> list[NewPair]:
    """Choose n new pairs; nothing is put up yet.

    Args:
        n: pairs wanted.
        strategy: how; None takes the study's own.
        config: of the study.
        belief: up to date.
        store: for excluded images and earlier repeats.
        catalog: what is compared.
        features: computes rows to measure distances in, for the strategies that need them, and tells which images
            could not be read.

    Raises:
        StudyError: not one file of the images is where it was.
    """
    rows: NDArray[Any] | None = None
    left_out = np.union1d(store.excluded_rows(), belief.absent)
    name = strategy or (config.ask.strategy if belief.posterior is not None else config.ask.start)
    if name in ("spread", "coreset"):
        rows, absent = features()
        left_out = np.union1d(left_out, absent)
    chosen = _chosen(n, name, config, belief, store, catalog, rows, left_out)
    asked = np.unique([row for pair in chosen for row in (pair.first, pair.second)]).astype(np.int64)
    if len(missing_files(catalog, asked)):
        # Nobody can be asked about a picture that is gone. One is seldom alone: look at all, once, and choose again.
        gone = missing_files(catalog, np.arange(len(catalog)))
        if len(gone) == len(catalog):
            raise StudyError(
                f"not one of the {len(catalog)} images is where it was; is the folder mounted? "
                "If it has moved: steelyard relocate"
            )
        left_out = np.union1d(left_out, gone)
        chosen = _chosen(n, name, config, belief, store, catalog, rows, left_out)
    return chosen


def _chosen(
    n: int,
    name: str,
    config: StudyConfig,
    belief: Belief,
    store: Store,
    catalog: Catalog,
    features: NDArray[Any] | None,
    left_out: NDArray[np.int64],
) -> list[NewPair]:
    """New pairs of images that are not left out."""
    from steelyard.acquire import choose

    if len(catalog) - len(left_out) < 2:
        return []
    ask = config.ask
    options: dict[str, Any] = {"noise": ask.noise, "reselect": ask.reselect}
    if features is not None:
        options["features"] = features
    elif n <= _FEW:  # somebody waits for the answer
        options |= {"images": 1_500, "candidates": 6_000, "targets": 1_000}
    pool, posterior, taken = _pool(belief, left_out, len(catalog))
    if pool is not None and "features" in options:
        options["features"] = options["features"][pool]
    choice = choose(
        name, posterior, n, taken=taken, rng=np.random.default_rng([config.seed, len(belief.taken), 1]),
        random_share=ask.random_share, repeat_share=ask.repeat_share if len(belief.taken) else 0.0,
        options=options,
    )  # fmt: skip
    pairs = choice.pairs if pool is None else pool[choice.pairs]
    number = 0 if belief.model is None else belief.model.round + 1
    repeats = _repeat_numbers(pairs, choice.roles, store, catalog)
    return [
        NewPair(
            int(i), int(j), number, "random" if role == "random" else name, reason, float(score),
            reserved=role == "random", raters=ask.raters, repeat=repeat,
        )
        for (i, j), role, reason, score, repeat in zip(
            pairs.tolist(), choice.roles, choice.reasons, choice.scores.tolist(), repeats, strict=True
        )
    ]  # fmt: skip


def _pool(
    belief: Belief, left_out: NDArray[np.int64], images: int
) -> tuple[NDArray[np.int64] | None, Posterior | None, PairSet]:
    """Rows that may be asked about (None: all), and the belief about them."""
    if not len(left_out):
        return None, belief.posterior, belief.taken
    rows = np.setdiff1d(np.arange(images), left_out)
    place = np.full(images, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    old = place[belief.taken.to_array()]
    taken = PairSet(len(rows), old[(old >= 0).all(axis=1)])
    return rows, None if belief.posterior is None else belief.posterior.rows(rows), taken


def _repeat_numbers(
    pairs: NDArray[np.int64], roles: Sequence[str], store: Store, catalog: Catalog
) -> list[int]:
    numbers = []
    for (i, j), role in zip(pairs.tolist(), roles, strict=True):
        repeat = 0
        while role == "repeat" and store.find_pair(str(catalog.ids[i]), str(catalog.ids[j]), repeat):
            repeat += 1
        numbers.append(repeat)
    return numbers
