"""The most that any choice of pairs can gain over random pairs when answers are noisy, in a world where the model is right.

    python benchmarks/asking_limit.py [--sets crowd uc] [--splits 5]

Scores are f = φ·w with w ~ N(0, I/λ), and an answer about (i, j) tells f_i − f_j up to noise of variance 1/h, whatever the pair. Then the
covariance after some answers depends on the pairs alone, not on what was said: no choice gains by waiting for answers, and the best
set of pairs is a problem of experimental design. A pair that has r of its variance left is ordered right with probability
1 − arcsin(√r)/π. `best` picks pairs one by one by the fall in the targets' variance; how far that is from the least variance that *any*
design can reach, with pairs repeated at will, is bounded by a Frank–Wolfe duality gap (loose for many answers); `at most` is the gain if every
variance were as small as that bound. λ is what a fit on all answers
finds; h is between a quarter (all answers open, nobody errs) and less. Targets are all pairs of the photos (`crowd`),
or pairs of test images that are not asked about (`uc`). ± is 95% over splits.
"""

from __future__ import annotations

import argparse

import numpy as np
from _data import catalog, cells, features, same
from crowd_asking import COUNTS, Crowd

from steelyard.config import ConvexConfig
from steelyard.ranker.convex_ranker import ConvexRanker
from steelyard.ranker.learner import Learner


def right(covariance: np.ndarray, prior: float, targets: np.ndarray, over: float = 1.0) -> float:
    """Share of target pairs that are ordered right, in expectation; were every variance `over` times smaller."""
    left = np.einsum("td,td->t", targets @ covariance, targets) / (
        prior * np.einsum("td,td->t", targets, targets)
    )
    return float(np.mean(1.0 - np.arcsin(np.sqrt(np.clip(left / over, 0.0, 1.0))) / np.pi))


def at_random(
    z: np.ndarray, targets: np.ndarray, prior: float, h: float, rng: np.random.Generator
) -> list[float]:
    """Accuracy at `COUNTS` pairs drawn one by one."""
    picked = z[rng.choice(len(z), COUNTS[-1], replace=False)]
    return [
        right(np.linalg.inv(np.eye(z.shape[1]) / prior + h * picked[:n].T @ picked[:n]), prior, targets)
        for n in COUNTS
    ]


def best(
    z: np.ndarray, targets: np.ndarray, prior: float, h: float, bound: bool
) -> tuple[list[float], list[float], list[float]]:
    """At `COUNTS` pairs picked one by one: accuracy, the targets' variance over the least, accuracy if it were the least."""
    covariance, wanted = np.eye(z.shape[1]) * prior, targets.T @ targets / len(targets)
    free, found, spread, most = np.ones(len(z), dtype=bool), [], [], []
    for n in range(1, COUNTS[-1] + 1):
        turned = z @ covariance
        own = np.einsum("md,md->m", turned, z)
        fall = np.einsum("md,md->m", turned @ wanted, turned) / (1.0 / h + own)
        k = int(np.argmax(np.where(free, fall, -1.0)))
        free[k] = False
        covariance -= np.outer(turned[k], turned[k]) / (1.0 / h + own[k])
        if n in COUNTS:
            found.append(right(covariance, prior, targets))
            if bound:
                spread.append(float(np.trace(wanted @ covariance)) / least_variance(z, targets, prior, h, n))
                most.append(right(covariance, prior, targets, spread[-1]))
    return found, spread, most


def least_variance(
    z: np.ndarray, targets: np.ndarray, prior: float, h: float, n: int, turns: int = 400
) -> float:
    """A lower bound on the targets' mean variance after n answers about any pairs, repeated or not."""
    wanted, share, bound = targets.T @ targets / len(targets), np.full(len(z), 1.0 / len(z)), 0.0
    for turn in range(turns):
        covariance = np.linalg.inv(np.eye(z.shape[1]) / prior + n * h * (z * share[:, None]).T @ z)
        inner = covariance @ wanted @ covariance
        slope = n * h * np.einsum("md,md->m", z @ inner, z)
        bound = max(bound, float(np.trace(wanted @ covariance)) - float(slope.max() - share @ slope))
        step = 2.0 / (turn + 3.0)
        share *= 1.0 - step
        share[int(np.argmax(slope))] += step
    return bound


def worlds(name: str, splits: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Differences that can be asked about, differences that should be right, and the prior variance 1/λ."""
    rng = np.random.default_rng(0)

    def differences(rows: np.ndarray, many: int) -> np.ndarray:
        first, second = np.triu_indices(len(rows), k=1)
        kept = rng.permutation(len(first))[:many]
        return np.asarray(rows[first[kept]] - rows[second[kept]])

    def world(
        learner: Learner, pairs: np.ndarray, answers: np.ndarray, pool: np.ndarray, test: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        ranker = learner.fit(pairs, answers)
        assert isinstance(ranker, ConvexRanker)
        rows = np.asarray(learner.posterior(ranker).features_N_D, dtype=np.float64)
        return differences(rows[pool], 6000), differences(rows[test], 2000), 1.0 / ranker.head.precision

    if name == "crowd":
        crowd = Crowd()
        each = np.repeat(np.arange(len(crowd.pairs)), crowd.votes.sum(axis=1))
        said = np.concatenate([np.repeat([1.0, 0.5, 0.0], row) for row in crowd.votes])
        everyone = np.arange(len(crowd.rows))
        learner = Learner(ConvexConfig(backbone="none"), crowd.rows)
        return [world(learner, crowd.pairs[each], said, everyone, everyone)] * splits
    images = catalog("uc")
    assert images.grades is not None
    rows, alike = features(images, backbone="lite2"), same(images)
    return [
        world(Learner(ConvexConfig(backbone="none"), rows, pool=np.sort(cell.split.train)), cell.pairs, cell.answers, np.sort(cell.split.train), cell.split.test)
        for cell in list(cells(images.grades, alike, seeds=1))[:splits]
    ]  # fmt: skip


def main() -> None:
    """Print what the best design gains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["crowd", "uc"], choices=["crowd", "uc"])
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    print(
        f"right after {', '.join(map(str, COUNTS))} answers: at random, best; gain; mean gain ±; variance over the least"
    )
    for name in options.sets:
        made = worlds(name, options.splits)
        for h in (0.25, 0.15):
            plain, chosen, over, top = [], [], [], 0.0
            for split, (z, targets, prior) in enumerate(made):
                plain.append(at_random(z, targets, prior, h, np.random.default_rng(split)))
                found, spread, most = best(z, targets, prior, h, split == 0)
                chosen.append(found)
                if split == 0:
                    over, top = spread, 100 * float(np.mean(np.array(most) - plain[0]))
            gain = 100 * (np.array(chosen) - np.array(plain))
            half = 1.96 * gain.mean(axis=1).std(ddof=1) / np.sqrt(len(gain))
            print(
                f"{name:6s} h = {h:.2f}", " ".join(f"{x:.3f}" for x in np.mean(plain, axis=0)), " ",
                " ".join(f"{x:.3f}" for x in np.mean(chosen, axis=0)), " ", " ".join(f"{x:+.1f}" for x in gain.mean(axis=0)),
                f"  {gain.mean():+.2f} ± {half:.2f}  ", " ".join(f"{x:.2f}" for x in over), f" at most {top:+.1f}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
