"""Asking people who err: what asking well gains, and whether to ask twice or something new.

    python benchmarks/asking_people.py [--people tired perfect] [--arms default second two three] [--splits 20]

Five people on colitis features come in turn by chance and answer what is up. `tired`: two perfect ones; one who slips more and more (a share of
guesses that grows from 0 to 40% over the 400 answers); one who takes the left image in 30% of the answers; one who calls images of
neighbouring grades equal in half of the cases. `perfect`: five perfect ones. A model every 25 answers, with judges; every answer in between moves the
belief. `random` asks random pairs, the others as a study does: one person a pair (`default`), two or three, or one and a
further opinion wherever that is expected to teach more than a new pair (`second`). *Overall* on grade-balanced test pairs of
a fifth that nothing was learnt from; every split is a deal of its own; ± is 95% over splits, of the mean over 50 … 400 answers.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np
from _data import catalog, features, same
from joblib import Parallel, delayed

from steelyard.config import AskConfig, ConvexConfig
from steelyard.evaluate.accuracy import accuracy, draw_test_pairs
from steelyard.loop.chance import Chance
from steelyard.loop.choose import next_pairs
from steelyard.loop.hearing import Hearing
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.ranker.inputs import coarse_rows
from steelyard.ranker.judges import Said
from steelyard.ranker.learner import Learner
from steelyard.splits import folds

COUNTS = (50, 100, 200, 300, 400)
EVERY = 25
PEOPLE = ("one", "two", "tired", "left", "ties")


@dataclass
class Up:
    """A pair that is up."""

    pair: tuple[int, int]
    wanted: int
    best: str = ""
    by: set[str] = field(default_factory=set)


def says(kind: str, who: str, truth: float, left: bool, done: int, rng: np.random.Generator) -> float:
    """P1 for (first, second), as this person gives it; `truth` is the difference of the grades."""
    answer = (np.sign(truth) + 1) / 2
    if kind == "tired":
        if who == "tired" and rng.random() < 0.4 * done / COUNTS[-1]:
            return float(rng.random() < 0.5)
        if who == "left" and rng.random() < 0.3:
            return float(left)
        if who == "ties" and abs(truth) <= 1 and rng.random() < 0.5:
            return 0.5
    return float(answer)


def run(
    rows: np.ndarray, grades: np.ndarray, alike: np.ndarray, kind: str, arm: str, split: int
) -> list[float]:
    """*Overall* at `COUNTS` answers."""
    part = folds(None, grades, n=len(grades), k=5, seed=split, same=alike)[split % 5]
    rng = np.random.default_rng([split, 31])
    test = draw_test_pairs(
        grades[part.test], int(grades.max()) + 1, size=2000, rng=np.random.default_rng(split)
    )
    pool = np.sort(part.train)
    learner, state, hearing = (
        Learner(ConvexConfig(backbone="none"), rows, pool=pool),
        State(len(pool)),
        Hearing(len(pool)),
    )
    random = arm == "random"
    ask = AskConfig(
        strategy="random" if random else "epig", start="random" if random else "spread", budget=COUNTS[-1]
    )
    policy, chance = Policy(ask, len(pool), learns_reserved=True), Chance(split)
    raters = {"two": 2, "three": 3}.get(arm, 1)
    up: list[Up] = []
    pairs, answers, who, left, found = [], [], [], [], []  # type: ignore[var-annotated]

    def said(first: int = 0) -> Said:
        names = np.array([PEOPLE.index(name) for name in who[first:]], dtype=np.int64)
        return Said(names, PEOPLE, np.array(left[first:], dtype=bool))

    def choose() -> None:
        if arm == "second" and state.posterior is not None:
            state.opinions = hearing.opinions(
                state.posterior, up=np.array([one.pair for one in up], dtype=np.int64).reshape(-1, 2)
            )
        choice = next_pairs(
            state, EVERY if state.posterior is None else 1, policy=policy, chance=chance,
            features=lambda: (coarse_rows(rows[pool]), np.empty(0, dtype=np.int64)),
        )  # fmt: skip
        state.put_up(choice.pairs)
        for pair, role in zip(map(tuple, choice.pairs.tolist()), choice.roles, strict=True):
            if role == "second":
                assert state.opinions is not None
                before = {name for other, name in zip(pairs, who, strict=True) if set(other) == set(pair)}
                up.append(Up(pair, 1 + len(before), state.opinions.best_for(pair), before))
            else:
                up.append(Up(pair, raters))

    seconds = 0
    while len(answers) < COUNTS[-1]:
        person = PEOPLE[rng.integers(5)]
        free = [one for one in up if person not in one.by]
        while not free:
            choose()
            free = [one for one in up if person not in one.by]
        one = min(free, key=lambda one: one.best not in ("", person))
        seconds += bool(one.by) and arm == "second"
        side = bool(rng.random() < 0.5)
        i, j = one.pair
        given = says(kind, person, grades[pool[i]] - grades[pool[j]], side, len(answers), rng)
        one.by.add(person)
        if len(one.by) >= one.wanted:
            up.remove(one)
        pairs.append(one.pair), answers.append(given), who.append(person), left.append(side)
        last = len(answers) - 1
        hearing.add(np.array([one.pair]), np.array([given]), said(last))
        if len(answers) % EVERY == 0:
            fitted = learner.fit(pool[np.array(pairs)], np.array(answers), said=said())
            state.believe(learner.posterior(fitted, rows=pool))
            if len(answers) in COUNTS:
                scores = learner.posterior(fitted, rows=part.test).mean
                found.append(accuracy(scores, grades[part.test], test).overall)
        elif state.posterior is not None:
            state.observe(np.array([one.pair]), np.array([given]), said(last))
    return [*found, seconds / COUNTS[-1]]


def main() -> None:
    """Print a line for each way of asking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", nargs="+", default=["tired", "perfect"], choices=["tired", "perfect"])
    parser.add_argument("--arms", nargs="+", default=["default", "second", "two", "three"])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    images = catalog("uc")
    assert images.grades is not None
    rows, grades, alike = features(images, backbone="lite2"), images.grades, same(images)
    print(
        f"Overall after {', '.join(map(str, COUNTS))} answers; less random; mean of that ±; second opinions"
    )
    for kind in options.people:
        plain = np.empty(0)
        for arm in ["random", *options.arms]:
            table = np.array(
                Parallel(n_jobs=options.jobs)(
                    delayed(run)(rows, grades, alike, kind, arm, split) for split in range(options.splits)
                )
            )
            plain = table if arm == "random" else plain
            gain = 100 * (table - plain)[:, :-1]
            half = 1.96 * gain.mean(axis=1).std(ddof=1) / np.sqrt(len(gain))
            print(
                f"{kind:8s} {arm:8s}", " ".join(f"{x:.3f}" for x in table[:, :-1].mean(axis=0)), " ",
                " ".join(f"{x:+.1f}" for x in gain.mean(axis=0)), f"  {gain.mean():+.2f} ± {half:.2f}  {table[:, -1].mean():.0%}",
                flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
