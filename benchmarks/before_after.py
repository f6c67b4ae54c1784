"""Is the new tree as fast as the old one? Both run the same measurements by turns, and the ratios are printed.

    python benchmarks/before_after.py OLD NEW [--rounds 3] [--only ask page load choose fit experiment start]

Machines are noisy, so no figure stands alone: in every round each tree runs each measurement once, close together, and
who goes first alternates. A ratio is new ÷ old of one round, below 1 where the new tree is quicker; the table has the
median of the rounds and, in brackets, the least and the greatest. `slower` is said where even the least is above 1.05.
Three rounds take about ten minutes. Each tree runs its own copy of the benchmark files, so that both may have changed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NOISE = 1.05

# Only names that are promised to stay: it has to run in both trees.
FIT = """
import time
import numpy as np
import steelyard as sy

rng = np.random.default_rng(0)
rows = rng.normal(size=(4000, 256)).astype(np.float32)
pairs = rng.integers(4000, size=(2000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
truth = rows @ rng.normal(size=256)
answers = (truth[pairs[:, 0]] > truth[pairs[:, 1]]).astype(float)
network = {"epochs": 6, "patience": 6, "hidden": 64}
for name, ranker in (
    ("convex", sy.PairwiseRanker()),
    ("network", sy.PairwiseRanker(head="mlp", options=network)),
):
    ranker.fit(rows[:64], np.column_stack([np.arange(63), np.arange(1, 64)]), answers[:63])  # loads what it needs
    started = time.perf_counter()
    ranker.fit(rows, pairs, answers)
    fitted = time.perf_counter()
    ranker.predict(rows, return_std=True)
    print(f"{name} fit {fitted - started:.4f} score {time.perf_counter() - fitted:.4f}")
"""

EXPERIMENT = """
import sys, time
from steelyard.cli import main

started = time.perf_counter()
try:
    main()
finally:
    print(f"seconds {time.perf_counter() - started:.3f}", file=sys.stderr)
"""

# Trees before the crowd was our own ask with Locust, which takes more of the two cores: they are lent the same crowd.
LOCUST = """
import os, subprocess, sys

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

crowd = [sys.executable, CROWD, option("--host"), option("-t").removesuffix("s")]
said = subprocess.run(crowd, input=os.environ["LOCUST_STEELYARD"], stdout=subprocess.PIPE, text=True, check=True)
with open(os.environ["LOCUST_OUT"], "w") as file:
    file.write(said.stdout)
"""


class Tree:
    """A tree of the project, run with this interpreter, and a folder for what its benchmarks leave behind."""

    def __init__(self, path: Path, work: Path) -> None:
        self.path, self.work = path.resolve(), work
        work.mkdir(parents=True)
        shim = work / "lent"
        (shim / "locust").mkdir(parents=True)
        crowd = f"CROWD = {str(HERE / '_crowd.py')!r}\n"
        (shim / "locust" / "__init__.py").touch()
        (shim / "locust" / "__main__.py").write_text(crowd + LOCUST, encoding="utf-8")
        lent = [] if (self.path / "benchmarks" / "_crowd.py").exists() else [str(shim)]
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.path), *lent]),
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *arguments: str) -> str:
        """What a Python process says, on both channels."""
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True, text=True, env=self._environment, cwd=self.work, check=False,
        )  # fmt: skip
        if done.returncode:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise SystemExit(
                f"{self.path}: {' '.join(arguments[:3])[:120]} ended with {done.returncode}\n{tail}"
            )
        return done.stdout + done.stderr

    def bench(self, name: str, *options: str) -> str:
        """One of its own benchmark files."""
        return self.run(str(self.path / "benchmarks" / f"{name}.py"), *options)


Figures = dict[str, float]


def ask(tree: Tree) -> Figures:
    """Asking, answering and refitting in one process."""
    said = tree.bench("ask_latency", "--images", "30000", "--answers", "30000", "--questions", "200")
    return {
        "ask(1), median": _found(said, r"ask\(1\) +median ([\d.]+) ms") / 1000,
        "ask(1), p99": _found(said, r"99th percentile ([\d.]+) ms") / 1000,
        "tell, median": _found(said, r"tell +median ([\d.]+) ms") / 1000,
        "fit of a study, 30,000 answers": _found(said, r"refit +([\d.]+) s"),
    }


def page(tree: Tree) -> Figures:
    """A key pressed in a real browser, until the next pair is painted."""
    said = tree.bench(
        "page_latency", "--images", "5000", "--answers", "25", "--folder", str(tree.work / "web")
    )
    found = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    return {
        "key to paint, calm, median": found["calm"]["median ms"] / 1000,
        "key to paint, in haste, median": found["quick"]["median ms"] / 1000,
    }


def load(tree: Tree) -> Figures:
    """Fifty people while a model trains: the server's own share."""
    said = tree.bench(
        "server_load", "--images", "5000", "--seconds", "25", "--folder", str(tree.work / "load")
    )
    line = next(line for line in said.splitlines() if line.startswith("all requests"))
    return {
        f"server share, 50 people, {name}": _found(line, rf"{name} +([\d.]+) ms") / 1000
        for name in ("p50", "p95", "p99")
    }


def choose(tree: Tree) -> Figures:
    """A thousand pairs out of 100,000 images on disk."""
    said = tree.bench("choose_million", "--sizes", "100000", "--strategies", "epig", "spread", "dopt")
    line = next(line for line in said.splitlines() if line.lstrip().startswith("100,000"))
    seconds = re.findall(r"([\d.]+) \(", line)
    return {
        f"1,000 pairs of 100,000, {name}": float(value)
        for name, value in zip(("epig", "spread", "dopt"), seconds, strict=True)
    }


def fit(tree: Tree) -> Figures:
    """Both kinds of ranker on the same 2,000 answers about 4,000 rows."""
    said = tree.run("-c", FIT)
    return {
        f"{kind} ranker, {what}": _found(said, rf"{kind} fit .*?{what} ([\d.]+)" if what == "score" else rf"{kind} fit ([\d.]+)")
        for kind in ("convex", "network") for what in ("fit", "score")
    }  # fmt: skip


def experiment(tree: Tree) -> Figures:
    """Two methods, five folds, one seed, from a feature matrix."""
    rows, labels = tree.work / "x.npy", tree.work / "labels.csv"
    if not rows.exists():
        rng = np.random.default_rng(0)
        severity = rng.normal(size=600)
        grades = np.digitize(severity, [-0.8, 0.3, 1.2])
        np.save(rows, np.column_stack([severity, rng.normal(size=(600, 63))]).astype(np.float32))
        lines = ["image,grade", *(f"{k}.png,{grade}" for k, grade in enumerate(grades))]
        labels.write_text("\n".join(lines), encoding="utf-8")
    run = tempfile.mkdtemp(prefix="run-", dir=tree.work)
    said = tree.run(
        "-c", EXPERIMENT, "experiment", "--features", str(rows), "--labels", str(labels),
        "--methods", "random,epig", "--seeds", "1", "--jobs", "1", "--out", f"{run}/out",
    )  # fmt: skip
    return {"experiment, 10 cells": _found(said, r"seconds ([\d.]+)")}


def start(tree: Tree) -> Figures:
    """What everybody waits for first: the command line, and the server's modules. Seconds of processor time."""
    timed = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
    return {
        f"import {module}": min(float(tree.run("-c", timed.format(module))) for _ in range(3))
        for module in ("steelyard.cli", "steelyard.web.app", "steelyard.study")
    }


MEASUREMENTS: dict[str, Callable[[Tree], Figures]] = {
    "ask": ask, "page": page, "load": load, "choose": choose, "fit": fit, "experiment": experiment, "start": start,
}  # fmt: skip


def _found(text: str, pattern: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"no {pattern!r} in what a benchmark printed:\n{text[-600:]}")
    return float(match[1])


def _ms(seconds: list[float]) -> str:
    ms = 1000 * float(np.median(seconds))
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}"


def main() -> int:
    """Measure by turns and print the table; 1 where something is slower by more than noise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(MEASUREMENTS), default=list(MEASUREMENTS))
    options = parser.parse_args()
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"old": [], "new": []})
    with tempfile.TemporaryDirectory(prefix="before-after-", ignore_cleanup_errors=True) as work:
        trees = {name: Tree(getattr(options, name), Path(work) / name) for name in ("old", "new")}
        for turn in range(options.rounds):
            for number, name in enumerate(options.only):
                order = ("old", "new") if (turn + number) % 2 == 0 else ("new", "old")
                for which in order:
                    for figure, value in MEASUREMENTS[name](trees[which]).items():
                        seconds[figure][which].append(value)
                print(f"round {turn + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
    print("| what | old, ms | new, ms | new ÷ old |\n|---|---|---|---|")
    slower = 0
    for figure, both in seconds.items():
        ratios = np.array(both["new"]) / np.maximum(both["old"], 1e-9)
        worse = bool(ratios.min() > NOISE)
        slower += worse
        old, new = (_ms(both[which]) for which in ("old", "new"))
        print(
            f"| {figure} | {old} | {new} | {np.median(ratios):.2f} ({ratios.min():.2f} – {ratios.max():.2f})"
            f"{' **slower**' if worse else ''} |"
        )
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
