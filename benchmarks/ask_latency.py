"""`ask(1)` in continuous mode: 100,000 images, 100,000 answers, each answer moves the next question.

Prints milliseconds at the median and the 99th percentile, beside the same question asked with the posterior refitted
from scratch after every answer (what the rank-one update saves).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import steelyard as sy
from steelyard.pairs import PairSet, random_pairs
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study


def build(folder: Path, images: int, answers: int, width: int) -> tuple[Study, np.ndarray]:
    """A study with that many images and answers, and the hidden severity behind the answers."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(images, width)).astype(np.float32)
    severity = rows @ (rng.normal(size=width) / np.sqrt(width)).astype(np.float32) * 3
    np.save(folder / "x.npy", rows)
    study = Study.create(
        folder / "study",
        sy.Catalog.from_features(folder / "x.npy"),
        preset="features",
        ask={"random_share": 0.0},
    )
    pairs = random_pairs(answers, images, taken=PairSet(images), rng=rng)
    left_worse = severity[pairs[:, 0]] - severity[pairs[:, 1]] + rng.logistic(size=answers) > 0
    ids = study.catalog.ids
    for at in range(0, answers, 10_000):
        part = pairs[at : at + 10_000].tolist()
        numbers = study.store.pairs.add_all([NewPair(i, j) for i, j in part])
        study.store.answers.add_all(
            [
                NewComparison(
                    n,
                    "virtual",
                    sy.Answer.LEFT if w else sy.Answer.RIGHT,
                    str(ids[i]),
                    str(ids[j]),
                    source="virtual",
                )
                for n, (i, j), w in zip(numbers, part, left_worse[at : at + 10_000].tolist(), strict=True)
            ]
        )
    return study, severity


def main() -> None:
    """Build, fit, ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--questions", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        study, severity = build(Path(name), options.images, options.answers, options.width)
        started = time.perf_counter()
        study.fit()
        fit = time.perf_counter() - started
        study.ask(1)  # opens the model; the page does that when it starts
        asked, told = [], []
        for _ in range(options.questions):
            t0 = time.perf_counter()
            [pair] = study.ask(1, annotator="you")
            t1 = time.perf_counter()
            left, right = (study.catalog.index_of(image) for image in (pair.left, pair.right))
            study.tell(pair, sy.Answer.LEFT if severity[left] > severity[right] else sy.Answer.RIGHT)
            asked.append(t1 - t0)
            told.append(time.perf_counter() - t1)
        study.close()
    ms = 1000 * np.array(asked)
    print(
        f"{options.images:,} images, {options.answers:,} answers, {options.questions} questions, strategy {study.config.ask.strategy}"
    )
    print(
        f"ask(1)   median {np.median(ms):.1f} ms   99th percentile {np.percentile(ms, 99):.1f} ms   (aim: at most 50 ms)"
    )
    print(f"tell     median {1000 * np.median(told):.1f} ms   (on disk when it returns)")
    print(f"refit    {fit:.1f} s   = {fit / np.median(asked):.0f} × ask(1)")


if __name__ == "__main__":
    main()
