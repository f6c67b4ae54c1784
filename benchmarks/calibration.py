"""Which rule for λ, and do stated probabilities come true? P(first), P(tie), P(second) on images of unseen groups.

    python benchmarks/calibration.py [--data drawn uc retina] [--shares .1 .2 .5 1] [--seeds 2] [--rules …]

Three annotators (perfect, noisy, tie-prone), pairs at random and by the default, 5 folds × seeds. What the rules have to predict
are 3,000 random pairs of test images, whose groups nobody compared, and 3,000 of the pool's, answered by the same annotator.

- `evidence`: λ of the highest marginal likelihood; `twice`: 2 λ, the rule of version 0.1;
- `tau`: λ of the marginal likelihood with τ integrated out too, and its covariance;
- `left out`: λ by which answers are predicted best without the answers about their pair;
- `images`: an effect of each compared image, normal, its variance by the marginal likelihood (dense, slow: not in the default);
- `shared`: every answer counts 1 / design effect (the head's own rule); the same with `+ temper`: as shipped.

Printed for each rule: accuracy on decided pairs, log loss, the slope of a logistic regression of the order on its stated logit (1 is
right, above 1 too cautious), and expected calibration errors of P(first), P(second) and of P(tie), of all pairs of a setting pooled
and averaged over the settings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _data import CACHE, catalog, features, same
from scipy import linalg, optimize

from steelyard.acquire import choose
from steelyard.annotators import make_annotator
from steelyard.images.synthetic import draw
from steelyard.pairs import PairSet
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.convex_objective import ConvexObjective
from steelyard.ranker.features import extract
from steelyard.ranker.likelihood import curvature, slope
from steelyard.ranker.reduction import Reduction
from steelyard.ranker.temper import Sharing, Temper, fit_temper
from steelyard.splits import Split, folds

Fit = tuple[
    np.ndarray, np.ndarray, float, Temper | None
]  # weights, covariance, extra variance of a difference, temper
KINDS, CHOICES = ("perfect", "noisy", "tie_prone"), ("random", "default")
RULES = ("evidence", "twice", "tau", "left out", "shared", "shared + temper")


class Data:
    """Features, what annotators know, and folds by group."""

    def __init__(self, name: str) -> None:
        if name == "drawn":
            drawn = draw(1000, size=96, seed=12)
            self.rows = np.asarray(extract(drawn.images, cache=CACHE, image_size=96, flips=False))
            self.grades, self.severity, groups, alike = drawn.grades, drawn.severity, drawn.groups, None
        else:
            images = catalog(name)
            assert images.grades is not None
            self.rows, self.grades = features(images), images.grades
            self.severity, groups, alike = self.grades.astype(float), None, same(images)
        self.splits = folds(groups, self.grades, n=len(self.grades), k=5, seed=7, same=alike)
        self.reductions = [Reduction.fit(self.rows[split.train]) for split in self.splits]

    def annotator(self, kind: str, rows: np.ndarray) -> object:
        """One who knows these images."""
        return make_annotator(kind, (self.grades if kind == "perfect" else self.severity)[rows])


def asked(data: Data, fold: int, kind: str, choice: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As many pairs as there are training images, as rows of these, with answers."""
    rows = data.splits[fold].train
    raw, reduction, rng = data.rows[rows], data.reductions[fold], np.random.default_rng([seed, fold, 99])
    reduced, annotator, taken = reduction.transform(raw), data.annotator(kind, rows), PairSet(len(rows))
    pairs, answers, head = np.empty((0, 2), dtype=np.int64), np.empty(0), None
    for total in [len(rows)] if choice == "random" else [round(0.05 * k * len(rows)) for k in range(1, 21)]:
        strategy = "random" if choice == "random" else "spread" if head is None else "epig"
        posterior = None if head is None else head.posterior(rows=reduced)
        options = {} if choice == "random" else {"features": raw}
        chosen = choose(strategy, posterior, total - len(pairs), taken=taken, rng=rng, options=options).pairs
        taken.add(chosen)
        pairs = np.concatenate([pairs, chosen])
        answers = np.concatenate([answers, annotator.answer(chosen, rng)])  # type: ignore[attr-defined]
        if choice == "default":
            head = ConvexHead.fit(
                raw, pairs, answers, reduction=reduction, rows=reduced, ties="rao_kupper", start=head
            )
    return pairs, answers


# ---------------------------------------------------------------------- the rules


def problem_of(z: np.ndarray, answers: np.ndarray) -> ConvexObjective:
    """The objective of a fit with ties as outcomes."""
    none = np.empty((0, z.shape[1]))
    return ConvexObjective(z, answers, np.ones(len(z)), none, np.empty(0), 1.0, "rao_kupper", z.shape[1])


def best(problem: ConvexObjective, loss: Callable[[np.ndarray, np.ndarray, float], float]) -> float:
    """λ of the lowest loss, which is given the optimum, its Hessian and λ."""
    length, memory = float(np.mean(np.sum(problem.z**2, axis=1))), {"at": problem.start(None)}

    def value(x: float) -> float:
        memory["at"], hessian = problem.climb(memory["at"], float(np.exp(x)), 1e-4)
        return loss(memory["at"], hessian, float(np.exp(x)))

    bounds = (np.log(length / 50.0**2), np.log(length / 0.05**2))
    return float(
        np.exp(optimize.minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 0.02}).x)
    )


def at_optimum(problem: ConvexObjective, precision: float, *, tau: bool = False) -> Fit:
    """Weights and covariance; with τ's uncertainty in it where wanted."""
    at, hessian = problem.climb(problem.start(None), precision, 1e-6)
    d = problem.size
    covariance = np.linalg.inv(hessian)[:d, :d] if tau else np.linalg.inv(hessian[:d, :d])
    return at[:d], covariance, 0.0, Temper(1.0, float(at[-1]))


def with_tau(at: np.ndarray, hessian: np.ndarray, precision: float, problem: ConvexObjective) -> float:
    """Minus the log marginal likelihood, τ integrated out."""
    factor = np.log(np.diag(linalg.cholesky(hessian, lower=True))).sum()
    return float(problem.value(at, precision) - problem.size / 2 * np.log(precision) + factor)


def pair_left_out(at: np.ndarray, hessian: np.ndarray, precision: float, problem: ConvexObjective) -> float:
    """Minus the log likelihood of each answer without itself (no pair is asked twice here)."""
    d, tau = problem.size, float(at[-1])
    mean, covariance = problem.z @ at[:d], np.linalg.inv(hessian[:d, :d])
    variance = np.einsum("nd,nd->n", problem.z @ covariance, problem.z)
    rest = np.maximum(1.0 - curvature(mean, problem.answers, tau) * variance, 1e-3)
    mean = mean - slope(mean, problem.answers, tau) * variance / rest
    p = Temper(1.0, tau).outcomes(mean, variance / rest)
    return -float(np.log(np.maximum(chance(p, problem.answers), 1e-12)).sum())


def image_effects(problem: ConvexObjective, pairs: np.ndarray, precision: float) -> Fit:
    """u_i ~ N(0, r²/λ) for each compared image, r and λ by the marginal likelihood."""
    used, place = np.unique(pairs, return_inverse=True)
    columns, n = np.zeros((len(pairs), len(used))), np.arange(len(pairs))
    columns[n, place.reshape(-1, 2)[:, 0]], columns[n, place.reshape(-1, 2)[:, 1]] = 1.0, -1.0
    found: tuple[float, float, float] = (np.inf, 0.0, precision)
    for ratio in (0.0, 0.25, 0.5, 0.8, 1.2, 1.8):
        wide = problem_of(np.column_stack([problem.z, ratio * columns]), problem.answers)
        for factor in (0.6, 1.0, 1.6):
            at, hessian = wide.climb(wide.start(None), factor * precision, 1e-3)
            value = -wide.evidence(at, hessian, factor * precision)[1]
            found = min(found, (value, ratio, factor * precision))
    _, ratio, precision = found
    weights, covariance, _, temper = at_optimum(
        problem_of(np.column_stack([problem.z, ratio * columns]), problem.answers), precision
    )
    d = problem.size
    return weights[:d], covariance[:d, :d], 2 * ratio**2 / precision, temper


def fits(
    rows: np.ndarray, pairs: np.ndarray, answers: np.ndarray, rules: list[str]
) -> Iterator[tuple[str, Fit]]:
    """Every rule's fit of these answers."""
    problem = problem_of(rows[pairs[:, 0]] - rows[pairs[:, 1]], answers)
    own = ConvexHead.fit(
        rows, pairs, answers, reduction=Reduction.identity(rows.shape[1]), rows=rows, ties="rao_kupper"
    )
    sharing = Sharing.of(pairs, rows.shape[1])
    for rule in rules:
        name, _, tempered = rule.partition(" + ")
        if name == "evidence":
            fit = at_optimum(problem, own.precision)
        elif name == "twice":
            fit = at_optimum(problem, 2 * own.precision)
        elif name == "tau":
            precision = best(problem, lambda at, hessian, p: with_tau(at, hessian, p, problem))
            fit = at_optimum(problem, precision, tau=True)
        elif name == "left out":
            fit = at_optimum(
                problem, best(problem, lambda at, hessian, p: pair_left_out(at, hessian, p, problem))
            )
        elif name == "images":
            fit = image_effects(problem, pairs, own.precision)
        else:
            fit = (own.weights, own.covariance, 0.0, Temper(1.0, own.tau))
        if tempered:
            weights, covariance, extra, temper = fit
            assert temper is not None
            counted = replace(problem, share=own.share * problem.share) if name == "shared" else problem
            left = counted.without_images(np.append(weights, temper.tau), covariance, sharing)
            fit = (
                weights,
                covariance,
                extra,
                fit_temper(*left, answers[sharing.chosen], temper.tau, ties=True),
            )
        yield rule, fit


# ---------------------------------------------------------------------- what comes true


def chance(p: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """The stated probability of what was answered."""
    return p[np.arange(len(p)), np.where(answers == 1, 0, np.where(answers == 0.5, 1, 2))]


def measure(fit: Fit, rows: np.ndarray, pairs: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracy, log loss, slope, and for 10 bins of P(first or second) and of P(tie): count, stated, observed."""
    weights, covariance, extra, temper = fit
    assert temper is not None
    z = rows[pairs[:, 0]] - rows[pairs[:, 1]]
    mean, variance = z @ weights, np.einsum("nd,nd->n", z @ covariance, z) + extra
    p = temper.outcomes(mean, variance)
    decided = answers != 0.5
    logit = (np.log(p[:, 0] / p[:, 2]) * np.where(answers == 1, 1, -1))[decided]
    slope = optimize.minimize_scalar(
        lambda b: np.mean(np.logaddexp(0, -b * logit)), bounds=(0.05, 20), method="bounded"
    ).x

    def bins(stated: np.ndarray, happened: np.ndarray) -> np.ndarray:
        which = np.minimum((stated * 10).astype(np.int64), 9)
        parts = (None, stated, happened.astype(float))
        return np.stack([np.bincount(which, part, minlength=10) for part in parts])

    return {
        "numbers": np.array([np.mean(logit > 0), -np.log(chance(p, answers)).mean(), slope]),
        "order": bins(np.append(p[:, 0], p[:, 2]), np.append(answers == 1, answers == 0)),
        "ties": bins(p[:, 1], answers == 0.5),
    }


def run_cell(
    data: Data, fold: int, kind: str, choice: str, seed: int, shares: list[float], rules: list[str]
) -> Iterator[tuple[tuple[float, str, str], dict[str, np.ndarray]]]:
    """By share, rule and part (test, pool): what `measure` says."""
    split: Split = data.splits[fold]
    every = np.asarray(data.reductions[fold].transform(data.rows), dtype=np.float64)
    pairs, answers = asked(data, fold, kind, choice, seed)
    rng, parts = np.random.default_rng([fold, seed, 5]), {}
    for part, rows in (("test", split.test), ("pool", split.train)):
        drawn = rng.integers(len(rows), size=(3000, 2))
        drawn = drawn[drawn[:, 0] != drawn[:, 1]]
        parts[part] = (every[rows], drawn, data.annotator(kind, rows).answer(drawn, rng))  # type: ignore[attr-defined]
    for share in shares:
        n = round(share * len(split.train))
        for rule, fit in fits(every[split.train], pairs[:n], answers[:n], rules):
            for part, judged in parts.items():
                yield (share, rule, part), measure(fit, *judged)


def error(bins: np.ndarray) -> float:
    """Expected calibration error."""
    return float(np.abs(bins[1] - bins[2]).sum() / bins[0].sum())


def main() -> int:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["drawn", "uc", "retina"])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.1, 0.2, 0.5, 1.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rules", nargs="+", default=list(RULES))
    options = parser.parse_args()
    for name in options.data:
        data, found = Data(name), defaultdict(list)
        for kind in KINDS:
            for choice in CHOICES:
                for cell in range(options.folds * options.seeds):
                    place = (cell % options.folds, kind, choice, cell // options.folds)
                    for key, value in run_cell(data, *place, options.shares, options.rules):
                        found[(*key, choice, kind)].append(value)
        print(f"\n{name}: {options.folds} folds × {options.seeds} seeds × {len(KINDS)} annotators")
        print(
            f"{'':42s}      new images: accuracy  log loss  slope   ECE   ties   pool: accuracy  log loss  slope   ECE   ties"
        )
        for choice in CHOICES:
            for share in options.shares:
                for rule in options.rules:
                    line = f"{choice:8s} {share:5.0%}  {rule:18s}"
                    for part in ("test", "pool"):
                        cells = [found[share, rule, part, choice, kind] for kind in KINDS]
                        numbers = np.mean([[one["numbers"] for one in cell] for cell in cells], axis=(0, 1))
                        slope = np.median([one["numbers"][2] for cell in cells for one in cell])
                        errors = [np.mean([error(sum(one[what] for one in cell)) for cell in cells]) for what in ("order", "ties")]  # fmt: skip
                        line += f"{numbers[0]:18.4f}{numbers[1]:10.4f}{slope:7.2f}{errors[0]:7.3f}{errors[1]:7.3f}"
                    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
