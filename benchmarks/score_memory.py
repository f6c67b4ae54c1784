"""Memory: scoring 1,000,000 rows of features, with uncertainty, stays under 4 GB resident.

python benchmarks/score_memory.py [--rows N] [--width F]
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead


def main() -> int:
    """Write a matrix larger than is allowed in memory, map it, fit, score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=1280)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        matrix = np.lib.format.open_memmap(path, "w+", np.float32, (options.rows, options.width))
        # Real numbers in a few places, the same ones again in the rest: the disk need not be as fast as the processor.
        tile = rng.standard_normal((min(20_000, options.rows), options.width)).astype(np.float32)
        with path.open("r+b") as file:
            file.seek(matrix.offset)  # type: ignore[attr-defined]
            for start in range(0, options.rows, len(tile)):
                file.write(tile[: options.rows - start].tobytes())
        del matrix, tile
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        rows = np.load(path, mmap_mode="r")
        started = time.perf_counter()
        pairs = random_pairs(500, options.rows, taken=PairSet(options.rows), rng=rng)
        head = ConvexHead.fit(rows, pairs, rng.integers(0, 2, len(pairs)).astype(float))
        posterior = head.posterior(rows)
        mean, variance = posterior.mean, posterior.variance
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    size = options.rows * options.width * 4 / 1024**3
    assert len(mean) == len(variance) == options.rows
    print(
        f"{options.rows:,} rows × {options.width} features ({size:.1f} GB on disk), fit on 500 pairs and scored with variance:"
    )
    print(
        f"  peak resident {peak:.2f} GB of 4 allowed ({before:.2f} GB before), {peak / size:.2f}× the matrix, {seconds:.0f} s"
    )
    return int(peak >= 4.0)


if __name__ == "__main__":
    sys.exit(main())
