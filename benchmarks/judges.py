"""What knowing the judges is worth: five of them on colitis features, with and without `[ranker] judges`.

    python benchmarks/judges.py [--seeds 2] [--shares 0.25 0.5 1]

`mixed`: three perfect judges, one who guesses, one who takes the left image in 40% of the answers and for every tie. `perfect`: five
perfect ones. The same random pairs and answers are fitted with everybody taken for alike, with judges, and – for comparison, where
it could be known – without the answers of the one who guesses. *Overall* on grade-balanced test pairs, 5 folds by near-duplicates × seeds;
± is Student's 95% interval over the folds' means.
"""

from __future__ import annotations

import argparse

import numpy as np
from _data import Cell, catalog, cells, features, same

from steelyard.config import ConvexConfig
from steelyard.evaluate.accuracy import accuracy
from steelyard.ranker.convex_ranker import ConvexRanker
from steelyard.ranker.judges import Said
from steelyard.ranker.learner import Learner

NAMES = ("one", "two", "three", "guesses", "left")


def answers(cell: Cell, kind: str) -> tuple[np.ndarray, Said]:
    """The cell's answers as five judges would have given them."""
    rng = np.random.default_rng([cell.fold, cell.seed, 3])
    n = len(cell.pairs)
    who, left, given = rng.integers(5, size=n), rng.random(n) < 0.5, np.array(cell.answers, dtype=float)
    if kind == "mixed":
        guess = who == 3
        given[guess] = rng.random(int(guess.sum())) < 0.5
        biased = (who == 4) & ((rng.random(n) < 0.4) | (given == 0.5))
        given[biased] = left[biased]
    return given, Said(who, NAMES, left)


def main() -> None:
    """Print a table for each share of answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    options = parser.parse_args()
    images = catalog("uc")
    assert images.grades is not None
    rows, grades, alike = features(images, backbone="lite2"), images.grades, same(images)
    print("judges    answers   alike  judges  without   judges − alike    flagged: who guesses, others")
    for kind in ("mixed", "perfect"):
        for share in options.shares:
            found, flags, count = [], [], 0
            for cell in cells(grades, alike, share=share, seeds=options.seeds):
                given, said = answers(cell, kind)
                learner = Learner(ConvexConfig(backbone="none"), rows, pool=np.sort(cell.split.train))
                kept, test = said.annotator != 3, cell.split.test
                rankers = (
                    learner.fit(cell.pairs, given),
                    learner.fit(cell.pairs, given, said=said),
                    learner.fit(cell.pairs[kept], given[kept]),
                )
                scores = [learner.posterior(ranker).mean for ranker in rankers]
                overall = [accuracy(one[test], grades[test], cell.test).overall for one in scores]
                found.append((cell.fold, *overall))
                assert isinstance(rankers[1], ConvexRanker)
                panel = rankers[1].panel
                assert panel is not None
                flags.append([panel[name].flagged for name in NAMES])
                count = len(cell.pairs)
            table, flagged = np.array(found), np.array(flags)
            gain = 100 * (table[:, 2] - table[:, 1])
            by_fold = np.array([gain[table[:, 0] == fold].mean() for fold in range(5)])
            half = 2.776 * by_fold.std(ddof=1) / np.sqrt(5)
            mean = " ".join(f"  {x:.3f}" for x in table[:, 1:].mean(axis=0))
            others = np.delete(flagged, 3, axis=1) if kind == "mixed" else flagged
            print(
                f"{kind:8s} {count:8d} {mean}   {gain.mean():+5.2f} ± {half:.2f} points   "
                f"{flagged[:, 3].mean():.0%} of {len(flagged)}, {others.mean():.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
