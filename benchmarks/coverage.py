"""Does the accuracy that a study states hold? Simulated studies against the truth.

    python benchmarks/coverage.py                      raters × repeats × late answers × annotators × choice
    python benchmarks/coverage.py --widths             half-width and coverage at 50, 100, 200, 400 answers, beside version 0.1's
    python benchmarks/coverage.py --set uc --seeds 50  on other images (drawn, uc, retina, crowd)

Every run is a study of its own on images sampled from the set, asked and learnt by the code that ships (`steelyard.loop`),
answered by virtual annotators (crowd: by real votes). The truth is the share of fresh answers about random pairs of the pool that
the model of the run agrees with. Constants of the estimate were chosen with other seeds (0 … 39, 2000 … 2013) of these sets; these
tables begin at seed 1000.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from steelyard.annotators import NoisyAnnotator, PerfectAnnotator, TieProneAnnotator, VirtualAnnotator
from steelyard.config import AskConfig, ranker_config
from steelyard.loop.chance import Chance, Purpose
from steelyard.loop.choose import next_pairs
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.learner import Learner
from steelyard.ranker.likelihood import curvature, slope
from steelyard.ranker.posterior import Posterior
from steelyard.trust.accuracy import Accuracy, estimate_accuracy, share_right
from steelyard.trust.evidence import judge, predict

BATCH = 20  # answers between two models, as on the page


@dataclass(frozen=True)
class Situation:
    """Who answers what: raters of each pair, share of pairs asked again, answers after the last model."""

    raters: int = 1
    repeats: float = 0.0
    late: int = 0
    annotator: str = "perfect"
    choice: str = "default"


class Outcome(NamedTuple):
    """One look at one simulated study."""

    answers: int
    truth: float
    stated: Accuracy
    before: tuple[float, float, float, int]  # what version 0.1 would have stated


class Images(NamedTuple):
    """Features and severities of a pool; `answering` overrides the virtual annotators (real votes)."""

    features: np.ndarray
    severity: np.ndarray
    answering: VirtualAnnotator | None = None


def run(
    images: Images,
    situation: Situation,
    *,
    seed: int,
    looks: Sequence[int] = (240,),
    components: int = 128,
) -> list[Outcome]:
    """A study from its first pair to its last look."""
    chance, rng = Chance(seed), np.random.default_rng([seed, 11])
    n = len(images.features)
    who = images.answering or _annotator(situation.annotator, images.severity)
    random = situation.choice == "random"
    ask = AskConfig(
        strategy="random" if random else "epig", start="random" if random else "spread", repeat_share=situation.repeats
    )  # fmt: skip
    learner = Learner(
        ranker_config(preset="features", backbone="none", components=min(components, images.features.shape[1])), images.features, seed=0
    )  # fmt: skip
    policy, state, rows = Policy(ask, n, learns_reserved=True), State(n), np.asarray(images.features)
    pairs, answers, drawn = np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0, dtype=bool)
    fresh = random_pairs(3_000, n, taken=PairSet(n), rng=rng)
    found = []

    def put(k: int) -> None:
        nonlocal pairs, answers, drawn
        choice = next_pairs(
            state, k, policy=policy, chance=chance, features=lambda: (rows, np.empty(0, dtype=np.int64))
        )
        state.put_up(choice.pairs)
        said = np.array([role == "random" for role in choice.roles])
        for _ in range(situation.raters):
            pairs, drawn = np.concatenate([pairs, choice.pairs]), np.concatenate([drawn, said])
            answers = np.concatenate([answers, who.answer(choice.pairs, rng)])

    for look in looks:
        while True:
            missing = look - len(pairs)
            if missing <= 0:
                break
            put(max(1, min(BATCH, missing) // situation.raters))
            clear = ~np.isnan(answers)
            ranker = learner.fit(pairs[clear], answers[clear])
            posterior = learner.posterior(ranker)
            state.believe(posterior)
        predictions = predict(
            posterior, pairs[clear], answers[clear], learns_reserved=True, pool=np.arange(n),
            rng=chance.rng(Purpose.POOL),
        )  # fmt: skip
        learnt = len(pairs)
        while len(pairs) < learnt + situation.late:
            put(max(1, BATCH // situation.raters))
        index = np.sort(pairs, axis=1)
        said = np.where(pairs[:, 0] > pairs[:, 1], 1.0 - answers, answers)
        stated = estimate_accuracy(
            judge(predictions, posterior, index, said, drawn), np.abs(predictions.pool_margin)
        )
        found.append(
            Outcome(
                learnt,
                _truth(posterior, fresh, who, rng),
                stated,
                _before(posterior, index, said, drawn),
            )
        )
    return found


def _truth(posterior: Posterior, pairs: np.ndarray, who: VirtualAnnotator, rng: np.random.Generator) -> float:
    difference = np.tile(posterior.difference(pairs)[0], 3)
    said = np.concatenate([who.answer(pairs, rng) for _ in range(3)])
    clear = ~np.isnan(said)
    return share_right(difference[clear], said[clear])[0]


def _before(
    posterior: Posterior, pairs: np.ndarray, answers: np.ndarray, drawn: np.ndarray
) -> tuple[float, float, float, int]:
    """Version 0.1: each random answer left out alone, learnt or not; Wilson's interval."""
    kept = drawn & ~np.isnan(answers)
    mean, variance = posterior.difference(pairs[kept])
    pull, bend = (posterior.share * f(mean, answers[kept], posterior.tau) for f in (slope, curvature))
    return share_right(mean - pull * variance / np.maximum(1 - bend * variance, 1e-6), answers[kept])


def _annotator(name: str, severity: np.ndarray) -> VirtualAnnotator:
    # Near ties are as frequent on each set as among people: about a third of random pairs of a tie-prone person.
    spread = float(np.std(severity))
    if name == "noisy":
        return NoisyAnnotator(severity, scale=0.6 * spread)
    if name == "tie_prone":
        return TieProneAnnotator(severity, threshold=0.5 * spread, scale=0.25 * spread)
    return PerfectAnnotator(severity)


class _Votes:
    """Draws one of the real votes about a pair."""

    def __init__(self, path: Path, images: int) -> None:
        self.share = np.full((images, images, 3), np.nan)
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                i, j = int(row["first"]), int(row["second"])
                votes = np.array([float(row[name]) for name in ("first_wins", "equal", "second_wins")])
                if votes.sum():
                    self.share[i, j] = votes / votes.sum()
                    self.share[j, i] = self.share[i, j, ::-1]

    def answer(self, pairs: Any, rng: np.random.Generator) -> np.ndarray:
        share = self.share[np.asarray(pairs)[:, 0], np.asarray(pairs)[:, 1]]
        luck = rng.random(len(share))
        said = np.where(luck < share[:, 0], 1.0, np.where(luck < share[:, 0] + share[:, 1], 0.5, 0.0))
        return np.where(np.isnan(share[:, 0]), np.nan, said)


def images_of(name: str, size: int) -> Callable[[int], Images]:
    """Samples a pool of a set by seed."""
    import _data

    if name == "crowd":
        rows = np.load(_data.DATA / "crowd_colour" / "features.npy")
        votes = _Votes(_data.DATA / "crowd_colour" / "votes.csv", len(rows))
        return lambda seed: Images(rows, np.zeros(len(rows)), votes)
    if name == "drawn":
        from steelyard.images.synthetic import draw
        from steelyard.ranker.features import extract

        kept = _data.CACHE / "coverage-drawn.npz"
        if not kept.exists():
            made = draw(1_000, size=96, seed=14)
            rows = extract(made.images, image_size=96, flips=False)
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.savez(kept, rows=rows, severity=made.severity)
        with np.load(kept) as file:
            rows, severity = file["rows"], file["severity"]
    else:
        catalog = _data.catalog(name)
        rows, severity = _data.features(catalog), np.asarray(catalog.grades, dtype=np.float64)

    def sample(seed: int) -> Images:
        chosen = np.random.default_rng([seed, 12]).choice(len(rows), min(size, len(rows)), replace=False)
        return Images(rows[chosen], severity[chosen])

    return sample


def line(outcomes: Iterable[Outcome]) -> str:
    """Coverage, bias and half-width of what was stated, of how many runs, beside version 0.1."""
    all_of = list(outcomes)
    told = [o for o in all_of if not np.isnan(o.stated.estimate)]
    old = [o for o in all_of if o.before[3]]
    if not told:
        return f"{len(all_of):5d}    –      –      –      –"
    covered = np.mean([o.stated.low <= o.truth <= o.stated.high for o in told])
    bias = np.mean([o.stated.estimate - o.truth for o in told])
    half = np.mean([(o.stated.high - o.stated.low) / 2 for o in told])
    then = np.mean([o.before[1] <= o.truth <= o.before[2] for o in old])
    was, half_was = (
        np.mean([o.before[0] - o.truth for o in old]),
        np.mean([(o.before[2] - o.before[1]) / 2 for o in old]),
    )
    truth = np.mean([o.truth for o in all_of])
    return (
        f"{len(told):4d}/{len(all_of):<4d} {truth:.3f}   {covered:6.1%} {100 * bias:+6.2f} {100 * half:6.1f}   "
        f"{then:6.1%} {100 * was:+6.2f} {100 * half_was:6.1f}"
    )


HEAD = f"{'told':>9} {'truth':>5}   {'covers':>6} {'bias':>6} {'±':>6}   {'0.1':>6} {'bias':>6} {'±':>6}"


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--set", default="drawn", choices=("drawn", "uc", "retina", "crowd"))
    options.add_argument("--seeds", type=int, default=40)
    options.add_argument("--first", type=int, default=1000)
    options.add_argument("--images", type=int, default=200)
    options.add_argument("--answers", type=int, default=200)
    options.add_argument("--components", type=int, default=128)
    options.add_argument("--widths", action="store_true", help="at 50, 100, 200 and 400 answers")
    given = options.parse_args()
    sample = images_of(given.set, given.images)
    seeds = range(given.first, given.first + given.seeds)
    people = ("real votes",) if given.set == "crowd" else ("perfect", "noisy", "tie_prone")
    print(f"{given.set}, {given.images} images, {given.seeds} studies a line\n")
    started = time.monotonic()
    every: list[Outcome] = []
    if given.widths:
        print(f"{'choice':8} {'annotator':10} {'answers':>7} {HEAD}")
        for choice, annotator in itertools.product(("default", "random"), people):
            looks = (50, 100, 200, 400)
            runs = [
                run(sample(s), Situation(annotator=annotator, choice=choice), seed=s, looks=looks, components=given.components)
                for s in seeds
            ]  # fmt: skip
            for k, look in enumerate(looks):
                every += [one[k] for one in runs]
                print(f"{choice:8} {annotator:10} {look:7d} {line(one[k] for one in runs)}", flush=True)
    else:
        print(f"{'raters':>6} {'repeats':>7} {'late':>4} {'annotator':10} {'choice':8} {HEAD}")
        for raters, repeats, late, annotator, choice in itertools.product(
            (1, 2, 3), (0.0, 0.3), (0, 60), people, ("default", "random")
        ):
            situation = Situation(raters, repeats, late, annotator, choice)
            cell = [
                o
                for s in seeds
                for o in run(
                    sample(s), situation, seed=s, looks=(given.answers,), components=given.components
                )
            ]
            every += cell
            print(f"{raters:6d} {repeats:7.1f} {late:4d} {annotator:10} {choice:8} {line(cell)}", flush=True)
    print(f"\nall together: {line(every)}   ({time.monotonic() - started:.0f} s)", file=sys.stdout)


if __name__ == "__main__":
    main()
