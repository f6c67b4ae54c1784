"""Do the 90% intervals of grades hold 90%? Coverage, width and calibrated probabilities, on images of unseen groups.

    python benchmarks/grade_sets.py [--data uc retina drawn] [--seeds 40] [--answers 300] [--graded 50 100 300]
                                    [--chosen random] [--first 0]

A quarter of the groups (patients; near-duplicates where there are none) is put aside. On the rest a study is held: pairs as the
default chooses them, answers from the grades (drawn images: from the severity, with noise). Some images of the pool are graded,
drawn at random or as `suggest_grading` picks them; a scale is calibrated and says 90% intervals of all others.

*before* is 0.1: the scale learns from scores of images that the head has learnt from, and the interval is the central 90% of its
distribution. *after* are conformal sets on groups left out (`steelyard/trust/grade_sets.py`). *size* counts grades in an interval;
*exact* is the share of single grades that are right, which no interval can cover less than; ECE is of P(grade > k), all k.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from _data import CACHE, catalog, features, same

from steelyard.acquire import choose
from steelyard.annotators import NoisyAnnotator, PerfectAnnotator
from steelyard.config import ranker_preset
from steelyard.images.synthetic import draw
from steelyard.pairs import PairSet
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.features import extract
from steelyard.ranker.grades import GradeScale
from steelyard.ranker.reduction import Reduction
from steelyard.study.scores import spread_over_scores
from steelyard.trust.grade_sets import calibrated_scale
from steelyard.trust.without_groups import scores_without_groups

TIES = ranker_preset("quick").ties
METHODS = ("ordinal", "isotonic", "rounding")


class Data(NamedTuple):
    """Features, grades, group numbers, and what answers are made from."""

    features: np.ndarray
    grades: np.ndarray
    groups: np.ndarray
    values: np.ndarray


class Held(NamedTuple):
    """A study: what was asked and answered, in rows of all images."""

    data: Data
    reduction: Reduction
    rows: np.ndarray
    pool: np.ndarray
    unseen: np.ndarray
    pairs: np.ndarray
    answers: np.ndarray


@lru_cache
def load(name: str) -> Data:
    """A data set by name."""
    if name == "drawn":
        kept = CACHE / "drawn-3000-96-12.npz"
        if not kept.exists():
            drawn = draw(3000, size=96, seed=12)
            rows = extract(drawn.images, image_size=96, flips=False)
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.savez(kept, features=rows, grades=drawn.grades, groups=drawn.groups, severity=drawn.severity)
        with np.load(kept) as found:
            groups = np.unique(found["groups"], return_inverse=True)[1]
            return Data(found["features"], found["grades"], groups, found["severity"])
    images = catalog(name)
    grades = np.asarray(images.grades)
    return Data(features(images), grades, np.unique(same(images), return_inverse=True)[1], grades * 1.0)


def hold(data: Data, seed: int, answers: int, *, noise: float = 0.0, most: int = 1500) -> Held:
    """A study on three quarters of the groups, in four rounds."""
    rng = np.random.default_rng([11, seed])
    aside = rng.permutation(data.groups.max() + 1)[: (data.groups.max() + 1) // 4]
    unseen = np.flatnonzero(np.isin(data.groups, aside))
    pool = np.setdiff1d(np.arange(len(data.grades)), unseen)
    if len(pool) > most:  # whole groups, as a smaller hospital would have them
        order = rng.permutation(np.unique(data.groups[pool]))
        pool = pool[np.isin(data.groups[pool], order[: len(order) * most // len(pool)])]
    raw = data.features[pool]
    reduction = Reduction.fit(raw)
    every = reduction.transform(data.features)
    spread = data.values.std()
    annotator = NoisyAnnotator(data.values, scale=noise * spread) if noise else PerfectAnnotator(data.values)
    taken, rows = PairSet(len(pool)), every[pool]
    pairs, said, head = np.empty((0, 2), dtype=np.int64), np.empty(0), None
    for upto in np.linspace(0, answers, 5)[1:].astype(int):
        posterior = None if head is None else head.posterior(rows=rows)
        chosen = choose(
            "spread" if head is None else "epig", posterior, upto - len(pairs), taken=taken, rng=rng,
            options={"features": raw},
        ).pairs  # fmt: skip
        taken.add(chosen)
        pairs = np.concatenate([pairs, chosen])
        said = np.concatenate([said, annotator.answer(pool[chosen], rng)])
        head = ConvexHead.fit(raw, pairs, said, reduction=reduction, rows=rows, ties=TIES, start=head)
    return Held(data, reduction, every, pool, unseen, pool[pairs], said)


def measure(held: Held, graded: int, method: str, seed: int, chosen: str = "random") -> dict[str, Any]:
    """Coverage, width and calibration of one scale, before and after; images of unseen groups, and the rest of the pool."""
    data, G = held.data, int(held.data.grades.max()) + 1
    rng = np.random.default_rng([12, seed, graded])
    if chosen == "random":
        known = np.sort(rng.choice(held.pool, min(graded, len(held.pool) // 2), replace=False))
    else:
        known = spread_over_scores(_fit(held, None).posterior(rows=held.rows), held.pool, graded, rng)
    taught = None
    if method == "rounding":
        taught = np.full(len(data.grades), np.nan)
        taught[known] = data.grades[known]
    posterior = _fit(held, taught).posterior(rows=held.rows)
    mean, std = posterior.mean, np.sqrt(posterior.variance)
    honest = scores_without_groups(posterior, known, data.groups, held.pairs, held.answers, taught=taught)
    old = GradeScale("rounding", G) if method == "rounding" else GradeScale.fit(
        mean[known], data.grades[known], G, method  # type: ignore[arg-type]
    )  # fmt: skip
    new = calibrated_scale(*honest, data.grades[known], data.groups[known], G, method)  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for place, rows in (("unseen", held.unseen), ("pool", np.setdiff1d(held.pool, known))):
        true = data.grades[rows]
        for name, scale in (("before", old), ("after", new)):
            said = scale.predict(mean[rows], std[rows])
            inside = (said.low <= true) & (true <= said.high)
            exceed = 1.0 - np.cumsum(said.probabilities, axis=1)[:, :-1]
            found[place, name] = {
                "coverage": inside.mean(), "size": (said.high - said.low + 1).mean(), "exact": (said.grades == true).mean(),
                "ece": ece(exceed.ravel(), (true[:, None] > np.arange(G - 1)).ravel()),
                "by grade": [inside[true == g].mean() if (true == g).any() else np.nan for g in range(G)],
            }  # fmt: skip
    return found


def ece(stated: np.ndarray, happened: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error in equal bins."""
    place = np.clip((stated * bins).astype(int), 0, bins - 1)
    gaps = np.bincount(place, stated - happened, minlength=bins)
    return float(np.abs(gaps).sum() / len(stated))


def _fit(held: Held, taught: np.ndarray | None) -> ConvexHead:
    return ConvexHead.fit(
        held.data.features, held.pairs, held.answers, reduction=held.reduction, rows=held.rows, ties=TIES, grades=taught
    )  # fmt: skip


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", nargs="+", default=["uc", "retina", "drawn"], choices=["uc", "retina", "drawn"]
    )
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--answers", type=int, default=300)
    parser.add_argument("--graded", type=int, nargs="+", default=[50, 100, 300])
    parser.add_argument("--chosen", default="random", choices=["random", "suggested"])
    options = parser.parse_args()
    for name in options.data:
        data = load(name)
        found: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for seed in range(options.first, options.first + options.seeds):
            held = hold(data, seed, options.answers, noise=0.3 if name == "drawn" else 0.0)
            for method in METHODS:
                for graded in options.graded:
                    found.setdefault((method, graded), []).append(
                        measure(held, graded, method, seed, options.chosen)
                    )
        print(
            f"\n{name}: {len(data.grades)} images, {options.answers} answers, {options.seeds} seeds, graded {options.chosen}; "
            "coverage of 90% intervals (± of the mean over seeds), grades in them, ECE"
        )
        print(
            f"{'':16s}  unseen groups: before                after                          pool: before   after         exact"
        )
        for (method, graded), cells in found.items():
            print(f"{method:9s}{graded:6d}   {_row(cells)}")
        worst = found[METHODS[0], options.graded[-1]]
        by_grade = np.nanmean([cell["unseen", "after"]["by grade"] for cell in worst], axis=0)
        print(
            f"by grade ({METHODS[0]}, {options.graded[-1]} graded, after): "
            + " ".join(f"{c:.1%}" for c in by_grade)
        )


def _row(cells: list[dict[str, Any]]) -> str:
    def figure(place: str, name: str, what: str) -> np.ndarray:
        return np.array([cell[place, name][what] for cell in cells])

    said = []
    for name in ("before", "after"):
        covered = figure("unseen", name, "coverage")
        error = covered.std() / np.sqrt(len(covered))
        said.append(
            f"{covered.mean():.1%} ± {error:.1%} size {figure('unseen', name, 'size').mean():.2f} ECE {figure('unseen', name, 'ece').mean():.3f}"
        )
    pool = "   ".join(f"{figure('pool', name, 'coverage').mean():.1%}" for name in ("before", "after"))
    return f"{said[0]}   {said[1]}   {pool}   {figure('unseen', 'after', 'exact').mean():.1%}"


if __name__ == "__main__":
    main()
