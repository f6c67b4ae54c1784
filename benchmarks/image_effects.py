"""What a part of its own for every compared image is worth: `[ranker] image_effects`, on and off, on the same answers.

    python benchmarks/image_effects.py crowd [--seeds 20] [--strategies random epig dopt] [--counts 50 … 2000]
    python benchmarks/image_effects.py uc [--seeds 2] [--times 0.25 1 3] [--flipped 0 0.2] [--data uc]
    python benchmarks/image_effects.py asking [--seeds 2] [--strategies random epig] [--data uc]
    python benchmarks/image_effects.py blind [--seeds 2]
    python benchmarks/image_effects.py simulated [--seeds 20]

`crowd`: real votes about 94 photos, asked as in `crowd_asking.py` but in batches: the next 20 pairs after every 20 answers, from 400
on the next 100; accuracy against the majority of all votes. `uc`: answers from the grades, some flipped, so many times as there are
training images; *Overall* on the other images and share of right orders among 20,000 random pairs of the compared ones, hardly any
of which was asked; 5 folds × seeds. `asking`: the same while a strategy chooses the pairs, up to half as many as training images; here `compared`
are all training images. `blind`: the same with 20 training images whose truth is another grade than their features show, and k
answers about each; share of right orders of pairs with one of them. `simulated`: scores from features and effects of deviation σ,
answers by the model; accuracy stated by left-out predictions less the accuracy that is, and how many 95% intervals of
differences hold. ± is 95%, over seeds on the crowd and in simulation, Student's over the folds' means elsewhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from _data import DATA, catalog, features, same
from crowd_asking import Crowd

from steelyard.acquire import choose
from steelyard.config import ConvexConfig
from steelyard.evaluate.accuracy import accuracy, draw_test_pairs
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.inputs import coarse_rows
from steelyard.ranker.learner import Learner
from steelyard.ranker.left_out import left_out
from steelyard.ranker.likelihood import outcomes
from steelyard.ranker.posterior import Posterior
from steelyard.splits import folds

OFF, ON = (ConvexConfig(backbone="none", image_effects=on) for on in (False, True))
BLIND = 20


def learnt(learner: Learner, pairs: np.ndarray, answers: np.ndarray) -> Posterior:
    """The posterior of the learner's images after these answers."""
    return learner.posterior(learner.fit(pairs, answers))


def deviation(posterior: Posterior) -> float:
    """σ of the effects, 0 where there are none."""
    return 0.0 if posterior.effects is None else posterior.effects.deviation


def over(values: np.ndarray) -> str:
    """Mean ± 95% over independent runs."""
    return f"{values.mean():+6.2f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def over_folds(values: np.ndarray, fold: np.ndarray) -> str:
    """Mean ± Student's 95% over the means of five folds."""
    means = np.array([values[fold == k].mean() for k in range(5)])
    return f"{values.mean():+6.2f} ± {2.776 * means.std(ddof=1) / np.sqrt(5):.2f}"


def right(scores: np.ndarray, truth: np.ndarray, pairs: np.ndarray) -> float:
    """Share of pairs with a true order that the scores have too."""
    real = np.sign(truth[pairs[:, 0]] - truth[pairs[:, 1]])
    said = np.sign(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    return float(np.mean(np.where(said == 0, 0.5, said == real)[real != 0]))


def replay(
    crowd: Crowd, seed: int, strategy: str, counts: list[int], config: ConvexConfig
) -> tuple[list[list[float]], bool]:
    """Accuracy and σ at some numbers of answers, and whether any model on the way had effects."""
    learner, taken = Learner(config, crowd.rows), PairSet(len(crowd.rows))
    rng, votes = np.random.default_rng([seed, 5]), np.random.default_rng([seed, 77])
    pairs, answers, belief, found = np.empty((0, 2), dtype=np.int64), np.empty(0), None, []
    start, ever = "random" if strategy == "random" else "spread", False
    while len(answers) < counts[-1]:
        many = min(
            next(c for c in counts if c > len(answers)) - len(answers), 20 if len(answers) < 400 else 100
        )
        new = choose(
            start if belief is None else strategy, belief, many, taken=taken, rng=rng,
            options={"features": coarse_rows(crowd.rows)},
        ).pairs  # fmt: skip
        taken.add(new)
        pairs, answers = np.concatenate([pairs, new]), np.append(answers, crowd.annotator.answer(new, votes))
        if strategy != "random" or len(answers) in counts:
            belief = learnt(learner, pairs, answers)
            ever |= deviation(belief) > 0
        if len(answers) in counts and belief is not None:
            found.append([crowd.right(belief.mean), deviation(belief)])
    return found, ever


def on_the_crowd(options: argparse.Namespace) -> None:
    """Print a line for each strategy and number of answers."""
    crowd = Crowd()
    print("strategy  answers    off     on   on − off, points   mean σ   studies with σ > 0")
    for strategy in options.strategies:
        runs = []
        for seed in range(options.seeds):
            with_them, ever = replay(crowd, seed, strategy, options.counts, ON)
            # Where no model had effects, the run without them is the same one.
            plain = replay(crowd, seed, strategy, options.counts, OFF)[0] if ever else with_them
            runs.append((plain, with_them))
        tables = np.array(runs).transpose(1, 0, 2, 3)
        for k, count in enumerate(options.counts):
            off, on, spread = tables[0][:, k, 0], tables[1][:, k, 0], tables[1][:, k, 1]
            print(
                f"{strategy:8s} {count:8d}   {off.mean():.3f}  {on.mean():.3f}   {over(100 * (on - off))}   "
                f"{spread.mean():6.2f}   {np.mean(spread > 0):.0%}",
                flush=True,
            )


Cell = tuple[int, np.ndarray, np.ndarray, np.ndarray, np.random.Generator]


def dealt(name: str, seeds: int) -> Iterator[Cell]:
    """Fold, features, grades, training rows and randomness; the test rows are all others."""
    images = catalog(name)
    assert images.grades is not None
    rows, grades = features(images), np.asarray(images.grades)
    for fold, split in enumerate(folds(None, grades, n=len(grades), k=5, seed=0, same=same(images))):
        for seed in range(seeds):
            yield fold, rows, grades, split.train, np.random.default_rng([fold, seed, 13])


def asked(
    grades: np.ndarray, rows: np.ndarray, n: int, flipped: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of some rows, answered from the grades; flipped ones say left or right at random."""
    pairs = random_pairs(n, len(grades), taken=PairSet(len(grades)), rng=rng, rows=np.sort(rows))
    answers = (np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]) + 1) / 2
    wrong = rng.random(n) < flipped
    answers[wrong] = rng.random(int(wrong.sum())) < 0.5
    return pairs, answers


def on_grades(options: argparse.Namespace) -> None:
    """Print a line for each number of answers and share of flipped ones."""
    print(
        "flipped  answers   new images: off     on   on − off, points   compared: off     on   on − off, points   mean σ"
    )
    for flipped in options.flipped:
        for times in options.times:
            found, count = [], 0
            for fold, rows, grades, train, rng in dealt(options.data, options.seeds):
                count = round(times * len(train))
                pairs, answers = asked(grades, train, count, flipped, rng)
                seen = np.unique(pairs)
                fresh = random_pairs(20_000, len(grades), taken=PairSet(len(grades)), rng=rng, rows=seen)
                test = np.setdiff1d(np.arange(len(grades)), train)
                drawn = draw_test_pairs(grades[test], int(grades.max()) + 1, size=4000, rng=rng)
                line: list[float] = [fold]
                for config in (OFF, ON):
                    belief = learnt(Learner(config, rows, pool=np.sort(train)), pairs, answers)
                    line += [
                        accuracy(belief.mean[test], grades[test], drawn).overall,
                        right(belief.mean, grades, fresh),
                    ]
                found.append([*line, deviation(belief)])
            table = np.array(found)
            new, own = 100 * (table[:, 3] - table[:, 1]), 100 * (table[:, 4] - table[:, 2])
            means = table.mean(axis=0)
            print(
                f"{flipped:7.1f} {count:8d}         {means[1]:.3f}  {means[3]:.3f}   {over_folds(new, table[:, 0])}         "
                f"{means[2]:.3f}  {means[4]:.3f}   {over_folds(own, table[:, 0])}   {means[5]:.2f}",
                flush=True,
            )


def on_chosen_pairs(options: argparse.Namespace) -> None:
    """Print a line for each share of labels, pairs chosen by a strategy in rounds of 5% with the model of the same kind."""
    marks = [round(0.05 * k, 2) for k in range(1, 11)]
    print(
        "strategy  labels   new images: off     on   on − off, points   compared: off     on   on − off, points"
    )
    for strategy in options.strategies:
        found = []
        for fold, rows, grades, train, rng in dealt(options.data, options.seeds):
            test = np.setdiff1d(np.arange(len(grades)), train)
            drawn = draw_test_pairs(grades[test], int(grades.max()) + 1, size=4000, rng=rng)
            fresh = random_pairs(20_000, len(train), taken=PairSet(len(train)), rng=rng)
            seed, curves = int(rng.integers(2**31)), []
            for config in (OFF, ON):
                learner, taken = Learner(config, rows, pool=np.sort(train)), PairSet(len(train))
                chance, pool, curve = np.random.default_rng(seed), np.sort(train), []
                pairs, belief = np.empty((0, 2), dtype=np.int64), None
                for mark in marks:
                    new = choose(
                        strategy if belief is not None or strategy == "random" else "spread",
                        None if belief is None else belief.rows(pool), round(mark * len(pool)) - len(pairs),
                        taken=taken, rng=chance, options={"features": rows[pool]},
                    ).pairs  # fmt: skip
                    taken.add(new)
                    pairs = np.concatenate([pairs, pool[new]])
                    said = (np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]) + 1) / 2
                    belief = learnt(learner, pairs, said)
                    new_images = accuracy(belief.mean[test], grades[test], drawn).overall
                    curve.append([new_images, right(belief.mean, grades, pool[fresh])])
                curves.append(curve)
            found.append((fold, curves))
        fold_of, table = (
            np.array([f for f, _ in found]),
            np.array([c for _, c in found]),
        )  # cells, config, marks, 2
        for k, mark in [*enumerate(marks), (slice(None), "mean")]:  # type: ignore[list-item]
            here = table[:, :, k].reshape(len(table), 2, -1, 2).mean(axis=2)
            cells = [
                f"{here[:, 0, c].mean():.3f}  {here[:, 1, c].mean():.3f}   {over_folds(100 * (here[:, 1, c] - here[:, 0, c]), fold_of)}"
                for c in (0, 1)
            ]
            print(f"{strategy:8s} {mark!s:>7s}         {cells[0]}         {cells[1]}", flush=True)


def on_blind_spots(options: argparse.Namespace) -> None:
    """Print a line for each number of answers about an image whose features mislead."""
    print(
        "answers about each   pairs with one: off     on   on − off, points   other pairs: off     on   on − off, points"
    )
    for many in options.about:
        found = []
        for fold, rows, grades, train, rng in dealt("uc", options.seeds):
            truth = grades.copy()
            blind = rng.choice(train, BLIND, replace=False)
            truth[blind] = (grades[blind] + rng.integers(1, grades.max() + 1, BLIND)) % (grades.max() + 1)
            plain = np.setdiff1d(train, blind)
            pairs, answers = asked(truth, plain, len(plain), 0.0, rng)
            partners = np.stack([rng.choice(plain, many, replace=False) for _ in blind])
            about = np.stack([np.repeat(blind, many), partners.ravel()], axis=1)
            pairs = np.concatenate([pairs, about])
            answers = np.append(answers, (np.sign(truth[about[:, 0]] - truth[about[:, 1]]) + 1) / 2)
            others = np.setdiff1d(plain, partners)
            mixed = np.stack([np.repeat(blind, len(others)), np.tile(others, BLIND)], axis=1)
            fresh = random_pairs(20_000, len(grades), taken=PairSet(len(grades)), rng=rng, rows=plain)
            line: list[float] = [fold]
            for config in (OFF, ON):
                scores = learnt(Learner(config, rows, pool=np.sort(train)), pairs, answers).mean
                line += [right(scores, truth, mixed), right(scores, truth, fresh)]
            found.append(line)
        table = np.array(found)
        means = table.mean(axis=0)
        gains = [over_folds(100 * (table[:, k + 2] - table[:, k]), table[:, 0]) for k in (1, 2)]
        print(
            f"{many:18d}             {means[1]:.3f}  {means[3]:.3f}   {gains[0]}            {means[2]:.3f}  {means[4]:.3f}   {gains[1]}",
            flush=True,
        )


def in_simulation(options: argparse.Namespace) -> None:
    """Print a line for each σ and number of answers: is what is stated true?"""
    print(
        " σ   answers   effects   mean σ̂    stated − true accuracy, points   new pairs right   95% hold: compared   new images"
    )
    for own in (0.0, 1.0, 2.0):
        for count in (100, 400, 1200):
            for config, name in ((OFF, "off"), (ON, "on")):
                found = [simulated(seed, own, count, config) for seed in range(options.seeds)]
                table = np.array(found)
                print(
                    f"{own:.1f} {count:8d}   {name:7s}   {table[:, 0].mean():.2f}        {over(100 * (table[:, 1] - table[:, 2]))}       "
                    f"           {table[:, 2].mean():.3f}              {table[:, 3].mean():.3f}             {table[:, 4].mean():.3f}",
                    flush=True,
                )


def simulated(seed: int, own: float, count: int, config: ConvexConfig) -> list[float]:
    """σ̂, accuracy stated and true on random pairs of compared images, coverage of compared and of new images' differences."""
    rng = np.random.default_rng([seed, count])
    rows = rng.standard_normal((260, 20))
    scores = rows @ rng.normal(0, 2 / np.sqrt(20), 20) + rng.normal(0, own, 260)
    old, new = np.arange(130), np.arange(130, 260)
    pairs = random_pairs(count, 260, taken=PairSet(260), rng=rng, rows=old)
    gaps = scores[pairs[:, 0]] - scores[pairs[:, 1]]
    answers = (rng.random(count) < outcomes(gaps)[:, 0]).astype(float)
    belief = learnt(Learner(config.with_changes(ties="half"), rows), pairs, answers)
    honest = left_out(belief, pairs, answers)
    truth = np.sign(scores[honest.pairs[:, 0]] - scores[honest.pairs[:, 1]])
    stated = float(np.mean(np.sign(honest.mean) == truth))
    taken = PairSet(260)
    taken.add(pairs)
    fresh = random_pairs(3_000, 260, taken=taken, rng=rng, rows=old)
    held = []
    assert belief.temper is not None
    scale = belief.temper.scale
    wide = scale if belief.temper.spread is None else belief.temper.spread
    for some in (fresh, random_pairs(3_000, 260, taken=PairSet(260), rng=rng, rows=new)):
        mean, variance = belief.difference(some)
        real = scores[some[:, 0]] - scores[some[:, 1]]
        held.append(float(np.mean(np.abs(scale * mean - real) < 1.96 * wide * np.sqrt(variance))))
    return [deviation(belief), stated, right(belief.mean, scores, fresh), *held]


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["crowd", "uc", "asking", "blind", "simulated"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--data", default="uc")
    parser.add_argument("--strategies", nargs="+", default=["random", "epig", "dopt"])
    parser.add_argument("--counts", type=int, nargs="+", default=[50, 100, 200, 300, 400, 1000, 2000])
    parser.add_argument("--times", type=float, nargs="+", default=[0.25, 1.0, 3.0])
    parser.add_argument("--flipped", type=float, nargs="+", default=[0.0, 0.2])
    parser.add_argument("--about", type=int, nargs="+", default=[3, 10, 30])
    options = parser.parse_args()
    assert DATA.is_dir() or options.what == "simulated", f"{DATA} is missing; name it with STEELYARD_DATA"
    run = {
        "crowd": on_the_crowd,
        "uc": on_grades,
        "asking": on_chosen_pairs,
        "blind": on_blind_spots,
        "simulated": in_simulation,
    }
    options.seeds = options.seeds or (20 if options.what in ("crowd", "simulated") else 2)
    run[options.what](options)


if __name__ == "__main__":
    main()
