"""Real observers: a table of each, reliability, agreement and side bias of two published experiments, and how long it takes.

    STEELYARD_DATA=… python benchmarks/observers.py [--people]

Two-alternative trials of the pwcmp examples (Perez-Ortiz and Mantiuk): `lf`, distorted light fields, 29 observers; `tmo`, tone
mapping, 18 observers. Conditions are compared within a scene, so an "image" here is a condition of a scene. The files do not
say which was shown on the left; "first chosen" is about the order of their columns, and a preference may be the file's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from steelyard.evaluate.figures import figures_of
from steelyard.evaluate.reliability import Answered, people_of
from steelyard.ranker.answers_alone import fit_alone

DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[2] / "shared" / "data")) / "observers"


def read(name: str) -> tuple[Answered, int]:
    """Answers of `lf` or `tmo` as they are in the file, and the number of conditions; nothing expected of them yet."""
    import pandas as pd

    if name == "lf":
        table = pd.read_csv(DATA / "lf_quality_pwcmps.csv")
        sides = [
            table["scene"] + "/" + table[f"dist_type{k}"] + "/" + table[f"dist_level{k}"].astype(str)
            for k in (1, 2)
        ]
        first = (table["selected"] == 1).to_numpy()
    else:
        table = pd.read_csv(DATA / "ex3_tmo_cmp_data.csv")
        sides = [table["scene"] + "/" + table[f"condition_{k}"] for k in "AB"]
        first = (table["is_A_selected"] == 1).to_numpy()
    codes, names = pd.factorize(pd.concat(sides), sort=True)
    pairs = codes.reshape(2, -1).T.astype(np.int64)
    who, people = pd.factorize(table["observer"], sort=True)
    turned = pairs[:, 0] > pairs[:, 1]
    n = len(table)
    told = Answered(
        np.sort(pairs, axis=1), np.where(first ^ turned, 1.0, 0.0), who.astype(np.int64), tuple(map(str, people)), ~turned,
        np.full(n, np.nan), np.ones(n, dtype=bool), np.full((n, 3), np.nan), "the other answers",
    )  # fmt: skip
    different = told.pairs[:, 0] != told.pairs[:, 1]  # a few trials show a condition beside itself
    return select(told, different), len(names)


def select(told: Answered, kept: np.ndarray) -> Answered:
    """Some of the answers."""
    columns = ("pairs", "labels", "annotator", "left_first", "seconds", "random", "probabilities")
    return Answered(
        **{name: getattr(told, name)[kept] for name in columns},
        annotators=told.annotators,
        against=told.against,
    )


def expected(told: Answered, images: int, seed: int = 0) -> Answered:
    """The same, with what scores from the other answers expect of each."""
    alone = fit_alone(told.pairs, told.labels, images, rng=np.random.default_rng(seed))
    return Answered(**{**told.__dict__, "probabilities": alone.outcomes()})


def main() -> int:
    """Print both experiments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", action="store_true", help="also a line for each observer")
    options = parser.parse_args()
    if not DATA.is_dir():
        sys.exit(f"the folder {DATA} is missing; name the data folder with STEELYARD_DATA")
    for name in ("lf", "tmo"):
        started = time.perf_counter()
        told, images = read(name)
        told = expected(told, images)
        people = people_of(told)
        figures = figures_of(told, images, np.random.default_rng(0))
        took = time.perf_counter() - started
        print(
            f"\n{name}: {len(told.labels):,} answers, {len(people)} observers, {images} conditions, {took:.1f} s"
        )
        for figure in figures:
            if figure.value is not None:
                print(f"  {figure.name.replace('Left', 'First'):40} {figure.shown}")
        flagged = {p.annotator: " ".join(p.flags) for p in people if p.flags}
        print(f"  flagged: {flagged or 'nobody'}")
        if options.people:
            print(
                "  observer  answers  first  alike with others  in line (expected)  circular  again alike  infit  outfit"
            )
            for p in people:
                print(
                    f"  {p.annotator:8} {p.answers:7,} {p.left_share:6.0%} {p.others_alike or np.nan:10.1%} of {p.others:6,}"
                    f" {p.in_line:11.1%} ({p.in_line_expected:.1%}) {p.circular:5} of {p.triangles:4} {p.repeats_alike:5} of {p.repeats:4}"
                    f" {p.infit:6.2f} {p.outfit:6.2f}  {' '.join(p.flags)}"
                )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
