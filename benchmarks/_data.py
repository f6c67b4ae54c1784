"""The real data of the benchmarks: catalogs, features computed once and kept, folds that leak nothing."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import steelyard as sy
from steelyard.evaluate.accuracy import TestPairs, draw_test_pairs
from steelyard.images.similar import fingerprints, near_duplicates
from steelyard.pairs import PairSet, form_pairs
from steelyard.ranker.features import extract
from steelyard.splits import Split, folds

DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
CACHE = Path(os.environ.get("STEELYARD_BENCH_CACHE", Path(tempfile.gettempdir()) / "steelyard-bench"))


def catalog(name: str) -> sy.Catalog:
    """`uc` (HyperKvasir ulcerative colitis) or `retina` (RetinaMNIST)."""
    if not DATA.is_dir():
        sys.exit(f"the data folder {DATA} is missing; name it with STEELYARD_DATA")
    if name == "uc":
        return sy.Catalog.from_hyperkvasir(DATA / "hyperkvasir_uc")
    return sy.Catalog.from_medmnist(DATA / "retinamnist" / "retinamnist.npz")


def features(images: sy.Catalog, **options: object) -> np.ndarray:
    """Backbone features, from the cache where they were computed before; says how fast where not."""
    started, computed = time.perf_counter(), 0

    def progress(done: int, total: int, text: str) -> None:
        nonlocal computed
        computed = done
        if sys.stderr.isatty():
            print(f"\r{done}/{total} {text}", end="" if done < total else "\n", file=sys.stderr)

    rows = extract(images, cache=CACHE, progress=progress, **options)  # type: ignore[arg-type]
    if computed:
        print(
            f"features of {computed} images computed: {computed / (time.perf_counter() - started):.1f} images/s"
        )
    return np.asarray(rows)


class Cell(NamedTuple):
    """One fold and seed: N pairs of all N training images, answered from the grades; test pairs as the paper draws them."""

    fold: int
    seed: int
    split: Split
    pairs: np.ndarray
    answers: np.ndarray
    validation: TestPairs
    test: TestPairs


def same(images: sy.Catalog) -> np.ndarray:
    """Near-duplicate labels, so that none is on both sides of a split."""
    return near_duplicates(fingerprints(images.read, len(images)))


def cells(
    grades: np.ndarray,
    alike: np.ndarray,
    *,
    seeds: int = 3,
    deal: int = 0,
    share: float = 1.0,
    size: int = 2000,
) -> Iterator[Cell]:
    """5 folds × seeds; pairs and answers are rows of the whole catalog, test pairs rows of the split's part."""
    count = int(grades.max()) + 1
    for fold, split in enumerate(folds(None, grades, n=len(grades), k=5, seed=deal, same=alike)):
        for seed in range(seeds):
            rng = np.random.default_rng([deal, fold, seed])
            chosen = split.train
            if share < 1:
                chosen = rng.choice(chosen, size=round(share * len(chosen)), replace=False)
            pairs = form_pairs(chosen, taken=PairSet(len(grades)), rng=rng)
            answers = (np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]) + 1) / 2
            parts = [
                draw_test_pairs(grades[rows], count, size=size, rng=rng)
                for rows in (split.validation, split.test)
            ]
            yield Cell(fold, seed, split, pairs, answers, *parts)


def best(function: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of some runs: the others waited for somebody else."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)
