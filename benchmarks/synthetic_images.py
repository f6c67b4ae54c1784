"""Are drawn images hard enough, and drawing fast enough? The two figures of docs/synthetic.md.

A linear ranker is fitted on the differences of (a) mean colour and (b) frozen EfficientNet-Lite0 features and orders
grade-different pairs of patients that it has not seen; grades are equally frequent among these pairs. Five folds by
patient.

    python benchmarks/synthetic_images.py [--images 900] [--size 128] [--seed 0] [--only accuracy|speed]
    python benchmarks/synthetic_images.py --sheet docs/images/synthetic.png      the contact sheet instead
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from steelyard.evaluate.accuracy import accuracy, draw_test_pairs
from steelyard.images.synthetic import SyntheticImages, draw
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.features import extract
from steelyard.splits import folds


def mean_colour(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Mean red, green and blue, and what a linear model cannot make of them: their shares, shape (N, 5)."""
    mean = images.reshape(len(images), -1, 3).mean(axis=1)
    return np.concatenate([mean / 255, (mean / mean.sum(axis=1, keepdims=True))[:, :2]], axis=1)


def score_features(features: NDArray[np.floating], drawn: SyntheticImages) -> NDArray[np.float64]:
    """Accuracy of a linear ranker, mean over five folds: overall, 0–1, 1–2, 2–3, and of pairs by latent severity."""
    n, grades, severity = len(drawn), drawn.grades, drawn.severity
    rows = []
    for number, split in enumerate(folds(drawn.groups, grades, n=n)):
        rng = np.random.default_rng(number)
        train, test = np.concatenate([split.train, split.validation]), split.test
        pairs = random_pairs(8 * len(train), n, taken=PairSet(n), rng=rng, rows=train)
        pairs = pairs[grades[pairs[:, 0]] != grades[pairs[:, 1]]][: 2 * len(train)]
        answers = (grades[pairs[:, 0]] > grades[pairs[:, 1]]).astype(float)
        head = ConvexHead.fit(features, pairs, answers, components=min(128, features.shape[1]))
        scores = head.posterior(features).mean[test]
        result = accuracy(scores, grades[test], draw_test_pairs(grades[test], 4, rng=rng))
        i, j = random_pairs(4000, len(test), taken=PairSet(len(test)), rng=rng).T
        latent = ((scores[i] > scores[j]) == (severity[test][i] > severity[test][j])).mean()
        rows.append([result.overall, *result.by_neighbor, latent])
    return np.nanmean(rows, axis=0)


def write_sheet(path: str, *, size: int = 128, patients: int = 6, seed: int = 11) -> None:
    """A row for each patient, worse from left to right."""
    from PIL import Image, ImageDraw

    from steelyard.images.mucosa import draw_traits, render

    severities, head = (0.1, 0.6, 1.1, 1.6, 2.1, 2.6, 3.0, 3.4), 16
    sheet = Image.new("RGB", (size * len(severities), head + size * patients))
    pen = ImageDraw.Draw(sheet)
    for column, severity in enumerate(severities):
        pen.text((column * size + 6, 2), f"severity {severity}", fill="white")
        for row in range(patients):
            traits = draw_traits(np.random.default_rng([seed, row]))
            picture = render(severity, traits, np.random.default_rng([seed, row, column]), size)
            sheet.paste(Image.fromarray(picture), (column * size, head + row * size))
    sheet.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def print_accuracy(images: int, size: int, seed: int) -> None:
    """The two figures."""
    drawn = draw(images, size=size, seed=seed)
    shares = np.bincount(drawn.grades, minlength=4) / len(drawn)
    print(f"{len(drawn)} images, {len(set(drawn.groups))} patients, grades {np.round(100 * shares, 1)} %")
    deep = extract(drawn.images, backbone="lite0", flips=False)
    print(f"{'linear ranker on':32s} overall   0-1   1-2   2-3  latent")
    for name, features in (("mean colour", mean_colour(drawn.images)), ("EfficientNet-Lite0 features", deep)):
        figures = score_features(features, drawn)
        print(f"{name:32s}   {'  '.join(f'{value:.3f}' for value in figures)}")


def print_speed(images: int = 200) -> None:
    """Processor time an image (steady on a busy machine), and what a second process gains (only on a free one)."""
    draw(8, size=96, workers=1)  # makes the tiles
    for size in (96, 128, 224):
        start, busy = time.perf_counter(), time.process_time()
        draw(images, size=size, seed=1, workers=1)
        one, busy = time.perf_counter() - start, time.process_time() - busy
        start = time.perf_counter()
        draw(images, size=size, seed=1, workers=2)
        two = time.perf_counter() - start
        print(
            f"{size} px: {1000 * busy / images:.0f} ms of processor an image; two processes {one / two:.2f} times as fast"
        )


def main() -> None:
    """Draw, extract, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=900)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["accuracy", "speed"])
    parser.add_argument("--sheet", metavar="PNG")
    options = parser.parse_args()
    if options.sheet:
        write_sheet(options.sheet)
        return

    if options.only != "speed":
        print_accuracy(options.images, options.size, options.seed)
    if options.only != "accuracy":
        print_speed()


if __name__ == "__main__":
    main()
