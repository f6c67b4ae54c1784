"""Choosing 1,000 pairs from 10,000 … 1,000,000 images whose features are on disk: seconds and memory, by strategy.

    python benchmarks/choose_million.py [--sizes 10000 100000 1000000] [--strategies epig dopt] [--pairs 1000]

Each choice runs in a process of its own, so that its peak memory is its own. Limits for a million images on two cores:
60 s and 4 GB for the default strategy.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from steelyard.acquire import choose
from steelyard.config import AskConfig
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

WIDTH = 128
DEFAULT = AskConfig().strategy


def write_features(path: Path, size: int) -> None:
    """Gaussian features, written in blocks."""
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(size, WIDTH))
    rng = np.random.default_rng(0)
    for start in range(0, size, 50_000):
        block = rows[start : start + 50_000]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
    rows.flush()


def run_one(path: Path, strategy: str, pairs: int) -> None:
    """Open, choose, and print seconds and peak megabytes."""
    rng = np.random.default_rng(1)
    rows = np.load(path, mmap_mode="r")
    seen = rng.standard_normal((5_000, WIDTH))
    covariance = np.linalg.inv(np.eye(WIDTH) + 0.05 * seen.T @ seen)
    taken = PairSet(len(rows))
    taken.add(np.stack([np.arange(5_000), np.arange(5_000) + 1], axis=1))
    started = time.perf_counter()
    posterior = Posterior(0.0, rows, rng.standard_normal(WIDTH) / 8, covariance, "laplace")
    choice = choose(strategy, posterior, pairs, taken=taken, rng=rng)
    seconds = time.perf_counter() - started
    assert len(choice) == pairs
    assert not taken.contains(choice.pairs).any()
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> int:
    """Print the cost curve; the exit code tells whether the default keeps the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument(
        "--strategies", nargs="+", default=[DEFAULT, "random", "variance", "dopt", "pair_bald", "spread"]
    )
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--one", nargs=2, metavar=("FILE", "STRATEGY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(Path(options.one[0]), options.one[1], options.pairs)
        return 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        print(f"{options.pairs} pairs, {WIDTH} features an image on disk; seconds (peak MB)")
        print(f"{'images':>10}" + "".join(f"{name:>20}" for name in options.strategies))
        for size in options.sizes:
            write_features(path, size)
            line = f"{size:>10,}"
            for strategy in options.strategies:
                command = [
                    sys.executable,
                    __file__,
                    "--pairs",
                    str(options.pairs),
                    "--one",
                    str(path),
                    strategy,
                ]
                seconds, megabytes = map(
                    float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
                )
                line += f"{seconds:>11.2f} ({megabytes:>5.0f})"
                failed |= strategy == DEFAULT and (seconds > 60 or megabytes > 4096)
            print(line, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
