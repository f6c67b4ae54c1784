"""Are stated tie probabilities right when people differ in how readily they say "equal"?

    python benchmarks/tie_calibration.py [--seeds 2] [--shares 0.25 0.5 1]

Five judges on colitis features: two call images of the same grade equal; two call those of neighbouring grades equal too, in half of
the cases; one never does and takes either image. Random pairs of training images are answered and fitted with and without judges; then each
judge answers random pairs of images that nothing was learnt from, and P(tie) as stated for that judge is held against what they say.
ECE over ten bins of equal width, and the share of ties stated and given, by judge; 5 folds by near-duplicates × seeds, ± is Student's 95% over folds' means.
"""

from __future__ import annotations

import argparse

import numpy as np
from _data import catalog, cells, features, same

from steelyard.config import ConvexConfig
from steelyard.ranker.convex_ranker import ConvexRanker
from steelyard.ranker.judges import ORDINARY, Said
from steelyard.ranker.learner import Learner
from steelyard.ranker.temper import Temper

NAMES = ("one", "two", "ready", "readier", "never")


def said_about(difference: np.ndarray, who: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P1 as each judge gives it; `difference` is that of the grades."""
    answer: np.ndarray = (np.sign(difference) + 1) / 2
    ready = np.isin(who, (2, 3)) & (np.abs(difference) <= 1) & (rng.random(len(who)) < 0.5)
    answer[ready] = 0.5
    forced = (who == 4) & (answer == 0.5)
    answer[forced] = rng.random(int(forced.sum())) < 0.5
    return answer


def error(stated: np.ndarray, happened: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error."""
    place = np.minimum((stated * bins).astype(int), bins - 1)
    return float(
        sum(
            abs(stated[place == b].mean() - happened[place == b].mean()) * (place == b).mean()
            for b in np.unique(place)
        )
    )


def main() -> None:
    """Print a line for each number of answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    options = parser.parse_args()
    images = catalog("uc")
    assert images.grades is not None
    rows, grades, alike = features(images, backbone="lite2"), images.grades, same(images)
    print("answers   ECE alike        ECE judges       ties stated (given) by " + ", ".join(NAMES))
    for share in options.shares:
        found, shares = [], []
        for cell in cells(grades, alike, share=share, seeds=options.seeds):
            rng = np.random.default_rng([cell.fold, cell.seed, 4])
            who = rng.integers(5, size=len(cell.pairs))
            given = said_about(grades[cell.pairs[:, 0]] - grades[cell.pairs[:, 1]], who, rng)
            said = Said(who, NAMES, rng.random(len(who)) < 0.5)
            learner = Learner(ConvexConfig(backbone="none"), rows, pool=np.sort(cell.split.train))
            test = cell.split.test[rng.integers(len(cell.split.test), size=(3000, 2))]
            test = test[test[:, 0] != test[:, 1]]
            asked = rng.integers(5, size=len(test))
            happened = said_about(grades[test[:, 0]] - grades[test[:, 1]], asked, rng) == 0.5
            stated = []
            for ranker in (learner.fit(cell.pairs, given), learner.fit(cell.pairs, given, said=said)):
                assert isinstance(ranker, ConvexRanker)
                belief, temper = learner.posterior(ranker), ranker.head.temper or Temper(1.0, ranker.head.tau)
                mean, variance = belief.difference(test)
                scaled = temper.scale * mean, (temper.spread or temper.scale) ** 2 * variance
                tie = np.zeros(len(test))
                for code, name in enumerate(NAMES):
                    judge = ORDINARY if ranker.panel is None else ranker.panel[name]
                    own = asked == code
                    tie[own] = judge.outcomes(scaled[0][own], scaled[1][own], temper.tau)[:, 1]
                stated.append(tie)
            found.append((cell.fold, *(error(one, happened) for one in stated)))
            shares.append([(stated[1][asked == k].mean(), happened[asked == k].mean()) for k in range(5)])
        table = np.array(found)
        means = np.array([table[table[:, 0] == fold, 1:].mean(axis=0) for fold in range(5)])
        half = 2.776 * means.std(axis=0, ddof=1) / np.sqrt(5)
        by_judge = ", ".join(f"{a:.0%} ({b:.0%})" for a, b in np.mean(shares, axis=0))
        errors = "   ".join(f"{m:.3f} ± {h:.3f}" for m, h in zip(means.mean(axis=0), half, strict=True))
        print(f"{len(cell.pairs):7d}   {errors}    {by_judge}", flush=True)


if __name__ == "__main__":
    main()
