"""How the features of the quick preset were chosen: statistics, layers, views, sizes and backbones side by side.

    python benchmarks/_feature_search.py uc [--backbone lite2] [--size 260]

Takes minutes a backbone, so `make bench` leaves it out. Every candidate goes through the convex head with its defaults.
Accuracy is the mean of the validation and test parts of four deals into five folds (seeds 1 … 4); the published figures of
`quick_accuracy.py` use another deal (seed 0).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch
from _data import catalog, cells, same

import steelyard as sy
from steelyard.evaluate.accuracy import correct
from steelyard.images.decode import resize
from steelyard.ranker.backbones import build, pixels_of
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.reduction import Reduction


def statistics(images: sy.Catalog, backbone: str, size: int) -> dict[str, np.ndarray]:
    """Mean and deviation over positions behind the stem, every block and the last layer: `name.mean`, (4 views, N, C)."""
    stages, _ = build(backbone, image_size=size)
    stages = stages.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts: dict[str, list[torch.Tensor]] = {}

    def look(x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        for name, stage in stages.named_children():
            x = stage(x)
            if name.startswith(("block", "relu")):
                flat = x.flatten(2)
                yield f"{name}.mean", flat.mean(2)
                yield f"{name}.std", flat.std(2, correction=0)

    with torch.inference_mode():
        for start in range(0, len(images), 16):
            rows = range(start, min(start + 16, len(images)))
            x = pixels_of(backbone).normalise(
                torch.from_numpy(np.stack([resize(images.read(r), size) for r in rows]))
            )
            views = [dict(look(view)) for view in (x, x.flip(3), x.flip(2), x.flip(2, 3))]
            for name in views[0]:
                parts.setdefault(name, []).append(torch.stack([view[name] for view in views]))
    return {name: torch.cat(blocks, 1).numpy() for name, blocks in parts.items()}


def judge(rows: np.ndarray, grades: np.ndarray, alike: np.ndarray, share: float) -> float:
    """Mean overall accuracy over deals 1 … 4."""
    found = []
    for deal in (1, 2, 3, 4):
        for cell in cells(grades, alike, seeds=1, deal=deal, share=share):
            reduction = Reduction.fit(rows[cell.split.train])
            reduced = reduction.transform(rows)
            head = ConvexHead.fit(rows, cell.pairs, cell.answers, reduction=reduction, rows=reduced)
            scores = head.posterior(rows=reduced).mean
            for part, test in ((cell.split.validation, cell.validation), (cell.split.test, cell.test)):
                found.append(correct(scores[part], grades[part], test.overall).mean())
    return float(np.mean(found))


def main() -> None:
    """Print a line a candidate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["uc", "retina"])
    parser.add_argument("--backbone", default="lite2")
    parser.add_argument("--size", type=int, default=0)
    options = parser.parse_args()
    images = catalog(options.data)
    assert images.grades is not None
    alike = same(images)
    seen = statistics(images, options.backbone, options.size or pixels_of(options.backbone).size)
    blocks = sorted(
        (name for name in seen if name.startswith("block") and name.endswith(".mean")), key=_number
    )
    # The last block before the number of channels changes ends a stage.
    widths = [seen[name].shape[2] for name in blocks]
    ends = [name for k, name in enumerate(blocks) if k + 1 == len(blocks) or widths[k + 1] != widths[k]]

    def with_std(names: list[str]) -> list[str]:
        return names + [name.replace(".mean", ".std") for name in names]

    stem, last = "relu0.mean", "relu1.mean"
    candidates = {
        "last layer": [last],
        "stage ends, stem and last: mean and deviation": with_std([stem, *ends, last]),
        "all blocks, stem and last: mean and deviation": with_std([stem, *blocks, last]),
        "all blocks, stem and last: mean": [stem, *blocks, last],
        "all blocks: mean": blocks,
        "blocks from the sixth: mean": blocks[5:],
        "blocks from the eleventh: mean": blocks[10:],
    }
    print(f"{options.data}, {options.backbone}: overall accuracy with N and N/5 pairs")
    for views in ([0], [0, 3], [0, 1, 2, 3]):
        for label, names in candidates.items():
            if len(views) < 4 and label != "all blocks: mean":
                continue
            rows = np.concatenate([seen[name][views].mean(0) for name in names], axis=1)
            full, few = (judge(rows, images.grades, alike, share) for share in (1.0, 0.2))
            print(
                f"  {len(views)} views, {label:48s} {rows.shape[1]:5d} features  {full:.4f}  {few:.4f}",
                flush=True,
            )


def _number(name: str) -> int:
    return int(name.removeprefix("block").removesuffix(".mean"))


if __name__ == "__main__":
    main()
