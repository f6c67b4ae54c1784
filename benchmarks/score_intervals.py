"""Does score ± 1.96 deviations hold what it says? Coverage on images of unseen groups, where the truth is known.

    python benchmarks/score_intervals.py [--seeds 16]

Scores have no zero and no unit of their own. Zero is the mean of the pool, by construction of the features; the *unit* is that by which
the true scores of the pool regress on the model's. The interval is about true scores in that unit. In the unit of the answers
(logits) the model's scores are too close to 0, the more the fewer answers there are; the second column counts those, and the third
counts them with scores and deviations times the temper's scale.

Features are those of UC; true weights are drawn, scores spread by 1.5, 3 or 6 logits, answers are Rao and Kupper's with τ = 1.
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _data import catalog, features, same

from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.likelihood import outcomes
from steelyard.ranker.reduction import Reduction
from steelyard.splits import folds

Z95 = 1.96


def coverage(pool: np.ndarray, new: np.ndarray, *, spread: float, answers: int, seed: int) -> np.ndarray:
    """Share of new images whose true score the interval holds: in the model's unit, in logits, in tempered logits."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(pool.shape[1])
    weights *= spread / np.std(pool @ weights)
    truth = pool @ weights
    pairs = rng.integers(len(pool), size=(2 * answers, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:answers]
    p, luck = outcomes(truth[pairs[:, 0]] - truth[pairs[:, 1]], 0.0, 1.0), rng.random(len(pairs))
    said = np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, :2].sum(1), 0.5, 0.0))
    own = Reduction.identity(pool.shape[1])
    head = ConvexHead.fit(pool, pairs, said, reduction=own, ties="rao_kupper")
    posterior, sought = head.posterior(rows=new), new @ weights
    mean, deviation = posterior.mean, np.sqrt(posterior.variance)
    unit = float(np.polyfit(pool @ head.weights, truth, 1)[0])
    assert head.temper is not None
    scale = head.temper.scale
    return np.array(
        [
            np.mean(np.abs(mean - sought / unit) <= Z95 * deviation),
            np.mean(np.abs(mean - sought) <= Z95 * deviation),
            np.mean(np.abs(scale * mean - sought) <= Z95 * scale * deviation),
        ]
    )


def main() -> int:
    """Print coverages, and fail where the interval promises too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16)
    options = parser.parse_args()
    images = catalog("uc")
    split = folds(None, images.grades, n=len(images), k=5, seed=7, same=same(images))[0]
    raw = features(images)
    reduction = Reduction.fit(raw[split.train])
    pool, new = (reduction.transform(raw[rows]).astype(float) for rows in (split.train, split.test))
    print("spread  answers   95% interval holds: in its unit   in logits   in tempered logits")
    failed = 0
    for spread in (1.5, 3.0, 6.0):
        for answers in (50, 150, 500):
            found = [
                coverage(pool, new, spread=spread, answers=answers, seed=s) for s in range(options.seeds)
            ]
            held = np.mean(found, axis=0)
            print(f"{spread:6.1f}{answers:9d}{held[0]:33.3f}{held[1]:12.3f}{held[2]:21.3f}", flush=True)
            failed += held[0] < 0.93
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
