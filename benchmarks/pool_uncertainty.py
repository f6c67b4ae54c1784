"""What uncertainty costs: closed form and Laplace against one deterministic pass of the same network, and against 30 draws.

    python benchmarks/pool_uncertainty.py

A pool is scored from pixels (frozen backbone and head) and from cached features (head alone). All times are the fastest of
several runs taken in turn, in one process; what is printed are ratios.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from _data import best

from steelyard.config import ranker_preset
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.features import extract
from steelyard.ranker.network import build_network
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.scoring import batches_of, draw_scores, last_layer, mean_scores

POOL, PICTURES, ANSWERS = 5_000, 16, 500


def main() -> int:
    """Measure and print; fails where a promise is broken."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, size=(PICTURES, 260, 260, 3), dtype=np.uint8)
    width = extract(pictures[:1]).shape[1]
    pixel = best(lambda: extract(pictures), 2) / PICTURES * POOL
    rows = rng.standard_normal((POOL, width)).astype(np.float32)
    pairs = random_pairs(ANSWERS, POOL, taken=PairSet(POOL), rng=rng)
    answers = (rows[pairs[:, 0], 0] > rows[pairs[:, 1], 0]).astype(float)
    network = build_network(ranker_preset("features", head="mlp"), seed=0, width=width)
    head = ConvexHead.fit(rows, pairs, answers)

    def both(posterior: Posterior) -> None:
        _ = posterior.mean, posterior.variance

    def closed() -> None:
        layer = last_layer(network, batches_of(rows, 256))
        both(Posterior.closed_form(layer.features_N_D, layer.weights_D, layer.p, layer.bias))

    def laplace() -> None:
        layer = last_layer(network, batches_of(rows, 256))
        both(
            Posterior.laplace(
                layer.features_N_D, layer.weights_D, pairs, answers, precision=1.0, bias=layer.bias
            )
        )

    def drawn() -> None:
        both(Posterior.from_draws(draw_scores(network, batches_of(rows, 256), draws=30, seed=0)))

    jobs: dict[str, Callable[[], object]] = {
        "convex": lambda: head.posterior(rows).mean,
        "convex + variance": lambda: both(head.posterior(rows)),
        "network": lambda: mean_scores(network, batches_of(rows, 256)),
        "closed form": closed,
        "laplace": laplace,
        "30 draws": drawn,
    }
    seconds = dict.fromkeys(jobs, np.inf)
    for _ in range(3):  # in turn, so that a busy moment hits all of them
        for name, job in jobs.items():
            seconds[name] = min(seconds[name], best(job, 1))
    print(
        f"a pool of {POOL:,} images, {width} features each; one pass of the head alone: {seconds['network']:.2f} s"
    )
    print(f"{'':22s} cost against one deterministic pass\n{'':22s} from pixels   from cached features")
    failed = 0
    for name, plain in (
        ("convex + variance", "convex"),
        ("closed form", "network"),
        ("laplace", "network"),
        ("30 draws", "network"),
    ):
        from_pixels = (pixel + seconds[name]) / (pixel + seconds[plain])
        print(f"{name:22s} {from_pixels:8.3f}×     {seconds[name] / seconds[plain]:8.2f}×")
        failed += name != "30 draws" and from_pixels > 1.1
    for name in ("closed form", "laplace"):
        ratio = seconds["30 draws"] / seconds[name]
        print(f"{name} is {ratio:.1f}× faster than 30 draws of the same head")
        failed += ratio < 10
    print(
        f"the convex head with its variance is {seconds['30 draws'] / seconds['convex + variance']:.1f}× faster than 30 draws of the other"
    )
    return failed


if __name__ == "__main__":
    sys.exit(main())
