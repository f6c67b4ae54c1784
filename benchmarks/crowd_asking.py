"""Choosing pairs for a real crowd: replayed votes about photos, strategy by strategy, beside random choice.

    python benchmarks/crowd_asking.py [--seeds 20] [--first 0] [--strategies epig dopt] [--oracle 0]

`crowd_colour` (see the data's README): about five votes on every pair of 94 photos. Whoever is asked draws one of the real votes; a
model every 20 answers, every answer in between moves the belief, as in a study; the first 20 pairs by `spread`. Accuracy is the
share of all pairs with a majority that the scores order as the majority does. Each strategy is compared with random choice seed by
seed; ± is 95% over seeds, of the mean over 50, 100, 200, 300 and 400 answers. `--oracle N` adds N seeds of a choice that knows
every vote and the majority: of 120 random pairs the one that raises the accuracy itself most, in expectation – what no choice can do.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from typing import Any

import numpy as np
from _data import DATA
from joblib import Parallel, delayed

from steelyard.annotators import ReplayAnnotator
from steelyard.config import AskConfig, ConvexConfig
from steelyard.loop.chance import Chance
from steelyard.loop.choose import next_pairs
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.ranker.inputs import coarse_rows
from steelyard.ranker.learner import Learner
from steelyard.ranker.likelihood import step_to_mode
from steelyard.ranker.posterior import Posterior

COUNTS = (50, 100, 200, 300, 400)
EVERY = 20


class Crowd:
    """The photos and what people said about them."""

    def __init__(self) -> None:
        folder = DATA / "crowd_colour"
        self.rows = np.load(folder / "features.npy")
        with (folder / "votes.csv").open(newline="") as file:
            table = np.array([[int(x) for x in line.values()] for line in csv.DictReader(file)])
        self.pairs, self.votes = table[:, :2], table[:, [2, 4, 3]]  # first, equal, second
        self.majority = np.sign(self.votes[:, 0] - self.votes[:, 2])
        each = np.repeat(np.arange(len(table)), self.votes.sum(axis=1))
        said = np.concatenate([np.repeat([1.0, 0.5, 0.0], row) for row in self.votes])
        self.annotator = ReplayAnnotator(self.pairs[each], said)

    def right(self, scores: np.ndarray) -> float:
        """Share of pairs with a majority that are ordered like it."""
        clear = self.majority != 0
        gap = np.sign(scores[self.pairs[clear, 0]] - scores[self.pairs[clear, 1]])
        return float(np.mean(np.where(gap == 0, 0.5, gap == self.majority[clear])))


Choose = Callable[[State], np.ndarray]


def replay(crowd: Crowd, seed: int, choose: Choose) -> list[float]:
    """Accuracies at `COUNTS` answers."""
    learner, state = Learner(ConvexConfig(backbone="none"), crowd.rows), State(len(crowd.rows))
    rng = np.random.default_rng([seed, 77])
    pairs, answers = np.empty((0, 2), dtype=np.int64), np.empty(0)
    waiting: list[np.ndarray] = []
    found = []
    while len(answers) < COUNTS[-1]:
        if not waiting:
            waiting = list(choose(state))
            state.put_up(np.array(waiting))
        pair = waiting.pop(0)[None]
        said = crowd.annotator.answer(pair, rng)
        pairs, answers = np.concatenate([pairs, pair]), np.concatenate([answers, said])
        if len(answers) % EVERY == 0:
            state.believe(learner.posterior(learner.fit(pairs, answers)))
            waiting = []
        elif state.posterior is not None:
            state.observe(pair, said)
        if len(answers) in COUNTS:
            assert state.posterior is not None
            found.append(crowd.right(state.posterior.mean))
    return found


def by_strategy(crowd: Crowd, seed: int, strategy: str) -> list[float]:
    """A study's own way of asking."""
    name, _, rest = strategy.partition(":")
    options: dict[str, Any] = {
        key: float(value) if value.replace(".", "").isdigit() else value
        for key, _, value in (part.partition("=") for part in rest.split(",") if part)
    }
    ask = AskConfig(strategy=name, start="random" if name == "random" else "spread", budget=COUNTS[-1])
    policy, chance = Policy(ask, len(crowd.rows), learns_reserved=True), Chance(seed)

    def choose(state: State) -> np.ndarray:
        started = state.posterior is not None
        return next_pairs(
            state, 1 if started else EVERY, policy=policy, chance=chance,
            features=lambda: (coarse_rows(crowd.rows), np.empty(0, dtype=np.int64)), options=options if started else None,
        ).pairs  # fmt: skip

    return replay(crowd, seed, choose)


def by_oracle(crowd: Crowd, seed: int) -> list[float]:
    """One step ahead, knowing everything."""
    rng = np.random.default_rng([seed, 5])
    share = crowd.votes / crowd.votes.sum(axis=1, keepdims=True)
    clear = crowd.majority != 0
    a, b, truth = *crowd.pairs[clear].T, crowd.majority[clear]

    def choose(state: State) -> np.ndarray:
        free = np.array([k for k, pair in enumerate(crowd.pairs.tolist()) if tuple(pair) not in state.taken])
        some = rng.choice(free, EVERY if state.posterior is None else 120, replace=False)
        if state.posterior is None:
            return crowd.pairs[some]
        return crowd.pairs[some[[int(np.argmax(expected(state.posterior, some)))]]]

    def expected(belief: Posterior, some: np.ndarray) -> np.ndarray:
        x, scores = belief.features_N_D.astype(float), belief.mean
        z = x[crowd.pairs[some, 0]] - x[crowd.pairs[some, 1]]
        moves = (x @ belief.covariance_D_D @ z.T).T
        mean, spread = belief.difference(crowd.pairs[some])
        gaps, shifts = scores[a] - scores[b], moves[:, a] - moves[:, b]
        total = np.zeros(len(some))
        for column, answer in enumerate((1.0, 0.5, 0.0)):
            steps = [
                belief.share * step_to_mode(m, belief.share * s, answer, belief.tau)
                for m, s in zip(mean, spread, strict=True)
            ]
            after = np.sign(gaps + np.array(steps)[:, None] * shifts)
            total += share[some, column] * (after == truth).mean(axis=1)
        return total

    return replay(crowd, seed, choose)


def main() -> None:
    """Print a line for each strategy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--strategies", nargs="+", default=["epig", "dopt"])
    parser.add_argument("--oracle", type=int, default=0)
    options = parser.parse_args()
    crowd, seeds = Crowd(), range(options.first, options.first + options.seeds)
    print(
        "accuracy after "
        + ", ".join(map(str, COUNTS))
        + " answers; less random choice; mean of that ± over seeds"
    )
    plain = np.empty((0, len(COUNTS)))
    runs = [(name, len(seeds)) for name in ["random", *options.strategies]]
    for name, many in [*runs, *([("oracle", options.oracle)] if options.oracle else [])]:
        call = by_oracle if name == "oracle" else lambda c, s, name=name: by_strategy(c, s, name)
        table = np.array(Parallel(n_jobs=2)(delayed(call)(crowd, seed) for seed in seeds[:many]))
        plain = table if name == "random" else plain
        gain = 100 * (table - plain[: len(table)])
        half = 1.96 * gain.mean(axis=1).std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        print(
            f"{name:16s}", " ".join(f"{x:.3f}" for x in table.mean(axis=0)), " ",
            " ".join(f"{x:+.1f}" for x in gain.mean(axis=0)), f"  {gain.mean():+.2f} ± {half:.2f}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
