"""How often the interval of a correlation between two scales holds: two planted scales, answered and learnt many times.

    python benchmarks/scales.py --repeats 200

Both questions are about the same pairs, drawn at random; a person's answer follows a logistic of the difference of the true
scores. What is to be held is the correlation of the true scores over the images.
"""

from __future__ import annotations

import argparse

import numpy as np

from steelyard.evaluate.scales import correlate_scales, reliability
from steelyard.ranker.convex import ConvexHead

IMAGES, FEATURES, DRAWS = 150, 10, 400


def planted(seed: int, correlation: float, answers: int) -> list[float]:
    """Truth, estimate, ends of its interval, uncorrected correlation, reliability of the first scale."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(IMAGES, FEATURES)).astype(np.float32) * np.linspace(2, 0.5, FEATURES).astype(
        np.float32
    )
    w = rng.normal(size=(2, FEATURES))
    w[1] = correlation * w[0] + np.sqrt(1 - correlation**2) * w[1]
    scores = x @ w.T
    scores = 2 * scores / scores.std(axis=0)
    pairs = np.stack([rng.permutation(IMAGES)[:2] for _ in range(answers)])
    posteriors = []
    for k in range(2):
        gap = scores[pairs[:, 0], k] - scores[pairs[:, 1], k]
        said = (rng.random(answers) < 1 / (1 + np.exp(-gap))).astype(float)
        posteriors.append(ConvexHead.fit(x, pairs, said).posterior(x))
    one, two = posteriors
    draws = one.sample(DRAWS, rng), two.sample(DRAWS, rng)
    found = correlate_scales((one.mean, two.mean), draws)
    truth = float(np.corrcoef(scores.T)[0, 1])
    return [
        truth,
        found.pearson,
        found.pearson_low,
        found.pearson_high,
        found.observed,
        reliability(one.mean, draws[0]),
    ]


def main() -> None:
    """Print a table for docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    print(
        "| answers to each | planted | holds | width | off by | uncorrected off by | reliability | nothing said |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for answers in (40, 100, 300):
        for correlation in (0.0, 0.5, 0.9):
            rows = np.array([planted(seed, correlation, answers) for seed in range(repeats)])
            said = rows[~np.isnan(rows[:, 1])]
            truth, estimate, low, high, observed, reliable = said.T
            holds = ((low <= truth) & (truth <= high)).mean()
            print(
                f"| {answers} | {correlation} | {holds:.0%} | {(high - low).mean():.2f} | {(estimate - truth).mean():+.2f} | "
                f"{(observed - truth).mean():+.2f} | {reliable.mean():.2f} | {1 - len(said) / len(rows):.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
