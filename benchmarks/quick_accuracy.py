"""The quick preset on real images: *Overall* accuracy over 5 folds × 3 seeds, and how long a fit takes.

    python benchmarks/quick_accuracy.py [--data uc retina] [--variants]

N pairs of all N training images (and a fifth of that), answered from the grades; near-duplicates are kept on one side of a
split; test pairs are grade-balanced as in the paper. `--variants` measures the settings next to the preset's, on the
validation parts (by which they are chosen) and on the test parts, and what choosing anew in every fold would give (nested
cross-validation: an accuracy that no choice of settings has made too good).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from _data import Cell, best, catalog, cells, features, same

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
    rows: np.ndarray, grades: np.ndarray, alike: np.ndarray, changes: dict[str, Any], share: float
) -> np.ndarray:
    """Overall and neighbouring accuracy on the validation and the test part, shape (cells, 2, 2)."""
    head = Head(rows, changes)
    found = []
    for cell in cells(grades, alike, share=share):
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


def main() -> int:
    """Print a table for each data set; fails below the promised accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["uc", "retina"], choices=["uc", "retina"])
    parser.add_argument("--variants", action="store_true")
    options = parser.parse_args()
    failed = 0
    for name in options.data:
        images = catalog(name)
        rows = features(images, backbone=ranker_preset("quick").backbone)
        assert images.grades is not None
        grades, alike = images.grades, same(images)
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
