"""A small study and files of answers for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import steelyard as sy
from steelyard.study import Study


def make_study(folder: Path, rows: int = 40, **changes: str) -> Study:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32))
    (folder / "labels.csv").write_text("image\n" + "\n".join(f"ward/i{k}.png" for k in range(rows)))
    catalog = sy.Catalog.from_features(folder / "x.npy", folder / "labels.csv")
    return Study.create(folder / "study", catalog, preset="features", **changes)


def write(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
