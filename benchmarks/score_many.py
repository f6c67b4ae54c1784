"""Scoring in parts: feature rows and image files with 1 and 2 workers, throughput as a ratio, memory of a worker flat and below 2 GB.

python benchmarks/score_many.py [--rows N] [--width F] [--images N] [--side PX] [--size PX] [--workers 1 2] [--engine ray|local] [--folder DIR]

Throughput is counted from the first finished part to the last, so that starting workers and loading the model is left out; the
scores of every run are compared with those of the first. Image files are drawn mucosa, every file with bytes of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

import steelyard as sy
from steelyard.images.synthetic import draw
from steelyard.scoring import score_many
from steelyard.study import Study

MOST_MB = 2048
DRAWN = 60


class Workers:
    """Resident memory of every worker, in MB, sampled until stopped."""

    def __init__(self, engine: str) -> None:
        self._mark = "ray::_Caller" if engine == "ray" else "loky"
        self.samples: dict[int, list[float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.25):
            for process in psutil.process_iter():
                try:
                    if self._mark in " ".join(process.cmdline()):
                        size = process.memory_info().rss / 2**20
                        self.samples.setdefault(process.pid, []).append(size)
                except psutil.Error:
                    continue

    def stop(self) -> tuple[float, float]:
        """The peak of any worker, and by how much the last third of a worker's time lies above its middle third."""
        self._over.set()
        self._thread.join()
        long = [values for values in self.samples.values() if len(values) >= 9]
        growth = [
            float(np.median(values[-(len(values) // 3) :]) - np.median(values[len(values) // 3 : -(len(values) // 3)]))
            for values in long
        ]  # fmt: skip
        return max((max(v) for v in self.samples.values()), default=float("nan")), max(growth, default=float("nan"))  # fmt: skip


def measure(study: Study, source: Path, output: Path, engine: Any, workers: int) -> dict[str, Any]:
    """Score everything once."""
    told: list[tuple[float, int]] = []

    def progress(done: int, total: int, text: str) -> None:
        if text == "images scored":
            told.append((time.perf_counter(), done))

    memory, started = Workers(engine), time.perf_counter()
    found = score_many(study, str(source), output, engine=engine, jobs=workers, progress=progress)
    seconds = time.perf_counter() - started
    peak, growth = memory.stop()
    began = [one for one in told if one[1] > 0]
    (t0, n0), (t1, n1) = began[0], began[-1]
    return {
        "rate": (n1 - n0) / (t1 - t0) if t1 > t0 else float("nan"), "seconds": seconds, "peak": peak, "growth": growth,
        "failed": found.failed, "rows": found.rows,
    }  # fmt: skip


def compare(what: str, study: Study, source: Path, folder: Path, options: argparse.Namespace) -> bool:
    """Score with each number of workers; whether the results are the same and memory is as promised."""
    good, first, rate = True, None, float("nan")
    for workers in options.workers:
        output = folder / f"{what}-{workers}.parquet"
        done = measure(study, source, output, options.engine, workers)
        table = pd.read_parquet(output, columns=["path", "score", "uncertainty", "rank"])
        same = first is None or table.equals(first)
        first = table if first is None else first
        rate = done["rate"] if np.isnan(rate) else rate
        print(
            f"  {workers} worker{'s' * (workers != 1)}: {done['rate']:,.0f} a second ({done['rate'] / rate:.2f}×), {done['seconds']:.0f} s "
            f"with starting and ranks; peak {done['peak']:,.0f} MB a worker, last third {done['growth']:+,.0f} MB; "
            f"{done['rows']:,} rows, {done['failed']:,} failed; {'same scores' if same else 'OTHER SCORES'}",
            flush=True,
        )
        good = good and same and not done["peak"] > MOST_MB
    return good


def rows_study(folder: Path, options: argparse.Namespace) -> tuple[Study, Path]:
    """A study on feature rows, and a matrix to score."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((2_000, options.width)).astype(np.float32)
    np.save(folder / "own.npy", own)
    study = Study.create(folder / "rows", sy.Catalog.from_features(folder / "own.npy"), preset="features", ask={"start": "random"})  # fmt: skip
    for pair in study.ask(200):
        left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
        study.tell(pair, "left" if own[left, 0] > own[right, 0] else "right")
    study.fit()
    matrix = folder / "new.npy"
    new = np.lib.format.open_memmap(matrix, "w+", np.float32, (options.rows, options.width))
    for start in range(0, options.rows, 20_000):
        end = min(options.rows, start + 20_000)
        new[start:end] = rng.standard_normal((end - start, options.width), dtype=np.float32)
    new.flush()
    del new
    return study, matrix


def images_study(folder: Path, options: argparse.Namespace) -> tuple[Study, Path]:
    """A study on drawn images with the quick preset, and as many files as wanted."""
    from PIL import Image

    drawn = draw(DRAWN, size=options.side, seed=0, workers=1)
    for k, picture in enumerate(drawn.images):
        path = folder / "own" / f"{k:03d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(picture).save(path, quality=90)
    study = Study.create(
        folder / "pictures", sy.Catalog.from_folder(folder / "own"), ask={"start": "random"}, preset="quick",
        ranker={"image_size": options.size},
    )  # fmt: skip
    severity = dict(zip(study.catalog.ids, drawn.severity, strict=True))
    for pair in study.ask(100):
        study.tell(pair, "left" if severity[pair.left] > severity[pair.right] else "right")
    study.fit()
    pictures = [path.read_bytes() for path in sorted((folder / "own").iterdir())]
    for k in range(options.images):
        path = folder / "new" / f"{k // 1000:03d}" / f"{k:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pictures[k % DRAWN] + f"{k}".encode())  # what follows the picture's end is not read
    return study, folder / "new"


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--side", type=int, default=320, help="of the files, in pixels")
    parser.add_argument(
        "--size", type=int, default=0, help="that the network sees, in pixels; 0 is its own, 260"
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engine", choices=["ray", "local"], default="ray")
    parser.add_argument(
        "--folder", type=Path, help="where data and scores go for the time; needs a disk with room"
    )
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.rows:
            study, matrix = rows_study(folder, options)
            print(f"{options.rows:,} rows of {options.width} features, engine {options.engine}:", flush=True)
            with study:
                good = compare("rows", study, matrix, folder, options) and good
        if options.images:
            study, new = images_study(folder, options)
            seen = f"seen at {options.size}²" if options.size else "seen at the network's own size"
            print(f"{options.images:,} JPEG files of {options.side}², preset quick, {seen}, engine {options.engine}:", flush=True)  # fmt: skip
            with study:
                good = compare("images", study, new, folder, options) and good
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
