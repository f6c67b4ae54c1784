"""The quick preset on real images: *Overall* accuracy over 5 folds × 3 seeds, and how long a fit takes.

    python benchmarks/quick_accuracy.py [--data uc retina] [--variants | --recipes]

N pairs of all N training images (and a fifth of that), answered from the grades; near-duplicates are kept on one side of a
split; test pairs are grade-balanced as in the paper. `--variants` measures the settings next to the preset's, on the
validation parts (by which they are chosen) and on the test parts, and what choosing anew in every fold would give (nested
cross-validation: an accuracy that no choice of settings has made too good). `--recipes` compares features of the second recipe
with the first, cell by cell over 5 folds × 4 seeds, and pictures that were enlarged to 2048 px and unpacked smaller with the
same files unpacked whole; it fails where the second loses more than 0.2 points.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _data import Cell, best, catalog, cells, features, same
from PIL import Image

import steelyard as sy
from steelyard.config import ranker_preset
from steelyard.evaluate.accuracy import accuracy
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.reduction import Reduction

VARIANTS: dict[str, dict[str, Any]] = {
    "preset": {},
    "64 components": {"components": 64},
    "256 components": {"components": 256},
    "whitening ¼": {"whitening": 0.25},
    "whitening ½": {"whitening": 0.5},
    "RBF kernel": {"kernel": "rbf"},
    "ties as halves": {"ties": "half"},
}


class Head:
    """The preset's head with some settings changed; the reduction of a fold is learnt once, from its training images."""

    def __init__(self, rows: np.ndarray, changes: dict[str, Any]) -> None:
        self.rows, self.config, self.fold = rows, ranker_preset("quick", **changes), -1

    def fit(self, cell: Cell) -> np.ndarray:
        """Scores of all images."""
        config = self.config
        if cell.fold != self.fold:
            self.fold = cell.fold
            self.reduction = Reduction.fit(
                self.rows[cell.split.train],
                components=config.components,
                whitening=config.whitening,
                kernel=config.kernel,
            )
            self.reduced = self.reduction.transform(self.rows)
        head = ConvexHead.fit(
            self.rows, cell.pairs, cell.answers, reduction=self.reduction, rows=self.reduced, ties=config.ties
        )
        return head.posterior(rows=self.reduced).mean


def measure(
    rows: np.ndarray,
    grades: np.ndarray,
    alike: np.ndarray,
    changes: dict[str, Any],
    share: float,
    seeds: int = 3,
) -> np.ndarray:
    """Overall and neighbouring accuracy on the validation and the test part, shape (cells, 2, 2)."""
    head = Head(rows, changes)
    found = []
    for cell in cells(grades, alike, share=share, seeds=seeds):
        scores = head.fit(cell)
        parts = ((cell.split.validation, cell.validation), (cell.split.test, cell.test))
        results = [accuracy(scores[part], grades[part], pairs) for part, pairs in parts]
        found.append([(result.overall, result.neighboring) for result in results])
    return np.array(found)


def fit_seconds(rows: np.ndarray, cell: Cell) -> tuple[float, float]:
    """Seconds of a fit on 500 pairs: the head alone, and with the reduction of all images before it."""
    pairs, answers = cell.pairs[:500], cell.answers[:500]
    reduction = Reduction.fit(rows)
    reduced = reduction.transform(rows)
    alone = best(lambda: ConvexHead.fit(rows, pairs, answers, reduction=reduction, rows=reduced))
    return alone, best(lambda: ConvexHead.fit(rows, pairs, answers), 3)


def recipes(images: sy.Catalog, grades: np.ndarray, alike: np.ndarray, *, enlarge: bool) -> bool:
    """Print the second recipe less the first; whether it loses more than 0.2 points."""
    rows = {f"recipe {recipe}": features(images, backbone="lite2", recipe=recipe) for recipe in (1, 2)}
    if enlarge:
        with tempfile.TemporaryDirectory() as folder:
            for row in range(len(images)):
                large = Image.fromarray(images.read(row)).resize((2048, 2048), Image.Resampling.BICUBIC)
                large.save(Path(folder) / f"{row:05d}.jpg", quality=92)
            enlarged = sy.Catalog.from_folder(folder)
            assert len(enlarged) == len(images)
            rows["2, enlarged, whole"] = features(_Whole(enlarged))  # type: ignore[arg-type]
            rows["2, enlarged, small"] = features(enlarged)
    lost = False
    for share, label in ((1.0, "N pairs"), (0.2, "N/5 pairs")):
        first: np.ndarray | None = None
        for name, found in rows.items():
            overall = measure(found, grades, alike, {}, share, seeds=4)[:, :, 0].mean(axis=1)
            first = overall if first is None else first
            by_fold = 100 * (overall - first).reshape(5, -1).mean(axis=1)
            half = 2.776 * by_fold.std(ddof=1) / np.sqrt(5)  # Student, four degrees of freedom
            print(f"{label:10s} {name:20s} {overall.mean():.4f}   {by_fold.mean():+.2f} ± {half:.2f} points")
            lost |= bool(by_fold.mean() < -0.2)
    return lost


class _Whole:
    """A catalog that unpacks its pictures whole."""

    def __init__(self, images: sy.Catalog) -> None:
        self.ids, self.read = [f"{id[:31]}w" for id in images.ids], images.read

    def __len__(self) -> int:
        return len(self.ids)


def main() -> int:
    """Print a table for each data set; fails below the promised accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["uc", "retina"], choices=["uc", "retina"])
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--recipes", action="store_true")
    options = parser.parse_args()
    failed = 0
    for name in options.data:
        images = catalog(name)
        assert images.grades is not None
        grades, alike = images.grades, same(images)
        if options.recipes:
            print(f"\n{name}: {len(images)} images")
            failed += recipes(images, grades, alike, enlarge=name == "uc")
            continue
        rows = features(images, backbone=ranker_preset("quick").backbone)
        print(
            f"\n{name}: {len(images)} images, {rows.shape[1]} features, {len(np.unique(alike))} after near-duplicates"
        )
        variants = VARIANTS if options.variants else {"preset": {}}
        full = {label: measure(rows, grades, alike, changes, 1.0) for label, changes in variants.items()}
        few = {label: measure(rows, grades, alike, changes, 0.2) for label, changes in variants.items()}
        print(f"{'':18s} overall, N pairs (validation)   neighboring   overall, N/5 pairs (validation)")
        for label in variants:
            a, b = full[label], few[label]
            spread = a[:, 1, 0].reshape(5, -1).mean(1).std()
            print(
                f"{label:18s} {a[:, 1, 0].mean():.3f} ± {spread:.3f} ({a[:, 0, 0].mean():.3f})           {a[:, 1, 1].mean():.3f}"
                f"         {b[:, 1, 0].mean():.3f} ({b[:, 0, 0].mean():.3f})"
            )
        if options.variants:
            stacked = np.stack(list(full.values()))  # (variants, cells, parts, kinds)
            by_fold = stacked[:, :, 0, 0].reshape(len(full), 5, -1).mean(2)
            picks = by_fold.argmax(0)
            nested = np.mean(
                [stacked[pick, 3 * fold : 3 * fold + 3, 1, 0].mean() for fold, pick in enumerate(picks)]
            )
            print(
                f"chosen anew in every fold by validation: {nested:.3f} ({', '.join(list(full)[p] for p in picks)})"
            )
        if name == "uc":
            alone, whole = fit_seconds(rows, next(cells(grades, alike)))
            print(
                f"a fit on 500 pairs: {alone * 1e3:.0f} ms ({whole * 1e3:.0f} ms with the reduction of {len(rows)} images)"
            )
            failed += full["preset"][:, 1, 0].mean() < 0.82 or whole > 1.0
    return failed


if __name__ == "__main__":
    sys.exit(main())
