"""Scores from the answers alone: do their intervals hold, how long do they take, and is anything named that is sound?

    python benchmarks/answers_alone.py [--studies 20] [--without-large]

True scores θ ~ N(0, σ²), random pairs, answers by Rao and Kupper's law. *Laplace* is the Gaussian at the mode with the same
prior, for comparison. For naming, the model's scores are the truth with an error that the model knows; in some studies people
see four images quite otherwise.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from steelyard.evaluate.two_scores import compare_scores
from steelyard.ranker.answers_alone import fit_alone
from steelyard.ranker.bradley_terry import likeliest_scores
from steelyard.ranker.likelihood import curvature, outcomes
from steelyard.ranker.sparse_gaussian import SparseGaussian


def answers(theta: np.ndarray, n: int, tau: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs and what is said about them."""
    pairs = rng.integers(len(theta), size=(2 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n]
    chance, luck = outcomes(theta[pairs[:, 0]] - theta[pairs[:, 1]], 0.0, tau), rng.random(n)
    return pairs, np.where(luck < chance[:, 0], 1.0, np.where(luck < chance[:, :2].sum(1), 0.5, 0.0))


def coverage(studies: int, images: int, n: int, spread: float, tau: float) -> tuple[float, ...]:
    """Share of true scores within the 95% interval, the same by Laplace, estimated σ and τ."""
    found = []
    for k in range(studies):
        rng = np.random.default_rng(k)
        theta = rng.normal(0, spread, images)
        pairs, said = answers(theta, n, tau, rng)
        fit = fit_alone(pairs, said, images, rng=rng)
        held = np.abs(fit.score - theta)[fit.asked] <= 1.96 * fit.deviation[fit.asked]
        mode = likeliest_scores(pairs, said, images, prior=fit.prior, tau=fit.tau)
        bend = curvature(mode[pairs[:, 0]] - mode[pairs[:, 1]], said, fit.tau)
        own, _ = SparseGaussian(images, pairs, bend, fit.prior**-2).variances(rng, 64)
        plain = np.abs(mode - theta)[fit.asked] <= 1.96 * np.sqrt(own)[fit.asked]
        found.append((held.mean(), plain.mean(), fit.prior, fit.tau))
    return tuple(np.mean(found, axis=0))


def naming(studies: int, images: int, n: int, planted: int, error: float = 0.5) -> tuple[float, float]:
    """Sound images named in a study, planted ones found."""
    found = []
    for k in range(studies):
        rng = np.random.default_rng([7, k])
        theta = rng.normal(0, 1.5, images)
        shrink = 1.5**2 / (1.5**2 + error**2)
        model, deviation = (
            shrink * (theta + rng.normal(0, error, images)),
            np.full(images, np.sqrt(shrink) * error),
        )
        bad = np.zeros(images, dtype=bool)
        bad[rng.permutation(images)[:planted]] = True
        seen = np.where(bad, -np.sign(model) * 1.5 * np.maximum(np.abs(theta), 1.5), theta)
        pairs, said = answers(seen, n, 0.5, rng)
        alone = fit_alone(pairs, said, images, rng=rng)
        chance = outcomes(
            model[pairs[:, 0]] - model[pairs[:, 1]], np.square(deviation[pairs]).sum(axis=1), 0.5
        )
        differs = compare_scores(
            alone.score, alone.deviation, model, deviation, scale=1.0, spread=1.0, probabilities=chance, answers=said, pairs=pairs
        ).differs  # fmt: skip
        found.append(((differs & ~bad).sum(), (differs & bad).sum()))
    return tuple(np.mean(found, axis=0))  # type: ignore[return-value]


def main() -> None:
    """Print the tables of docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--without-large", action="store_true")
    options = parser.parse_args()
    print("images, answers, σ, τ | covers, Laplace covers, σ estimated, τ estimated")
    for images, n, spread, tau in ((100, 100, 1.0, 0.5), (50, 200, 1.5, 0.5), (100, 300, 1.5, 0.0), (100, 300, 3.0, 1.0), (500, 1000, 1.5, 0.5), (500, 4000, 1.5, 0.5)):  # fmt: skip
        print(f"  {images:4} {n:5} {spread} {tau} |", "{:.1%} {:.1%} {:.2f} {:.2f}".format(*coverage(options.studies, images, n, spread, tau)))  # fmt: skip
    print("images, answers, planted | sound images named a study, planted ones found")
    for images, n, planted in ((100, 300, 0), (200, 1000, 0), (200, 600, 4), (200, 1000, 4), (200, 2000, 4)):
        print(
            f"  {images} {n} {planted} |",
            "{:.2f} {:.2f}".format(*naming(options.studies, images, n, planted)),
        )
    if not options.without_large:
        rng = np.random.default_rng(0)
        theta = rng.normal(0, 1.5, 10_000)
        pairs, said = answers(theta, 50_000, 0.5, rng)
        started, used = time.perf_counter(), time.process_time()
        fit = fit_alone(pairs, said, 10_000, rng=rng)
        held = np.mean(np.abs(fit.score - theta) <= 1.96 * fit.deviation)
        print(f"10,000 images, 50,000 answers: {time.process_time() - used:.1f} s of processor, {time.perf_counter() - started:.1f} s by the clock, covers {held:.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
