"""Run an experiment: read the data once, compute the missing cells in parallel, put the tables together."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.config import RankerConfig
from steelyard.engine import run_all
from steelyard.experiment.cell import Cell, run_cell
from steelyard.experiment.config import ExperimentConfig
from steelyard.experiment.data import ExperimentData, load_data
from steelyard.experiment.folder import RunFolder
from steelyard.experiment.resources import free_bytes, how_it_runs
from steelyard.experiment.running import doing, noting, watching
from steelyard.progress import Progress

__all__ = ["run_experiment"]


_PACKAGES = (
    "steelyard",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "pyarrow",
    "joblib",
    "torch",
)


@dataclass(frozen=True)
class _Task:
    """A cell with all it needs, so that it can be computed in another process or on another machine."""

    cell: Cell
    data: ExperimentData
    config: ExperimentConfig
    out: Path


def run_experiment(
    config: ExperimentConfig,
    out: Path | str,
    *,
    resume: bool = False,
    command: str = "",
    cache: Path | None = None,
    progress: Progress | None = None,
    begin: Callable[[str], None] | None = None,
) -> RunFolder:
    """Compute every cell of an experiment that is not there yet.

    Killed at any time and called again with `resume`, it goes on; finished cells are never computed again, and the tables are
    those of an uninterrupted run (times of recomputed cells aside).

    Args:
        config: the experiment.
        out: RUN, the folder of the results.
        resume: go on with what is there; adding methods, seeds or folds is going on, too.
        command: how it was called; kept for the report.
        cache: where computed features are kept; `RUN.cache`, beside the folder, by default.
        progress: called as progress(done, total, text); the text says what the cells at work are doing.
        begin: told in a sentence how many cells there are to compute, how many at a time and in how much memory, before any is.

    Returns:
        The folder, its tables written.

    Raises:
        ExperimentError: the folder holds another experiment, or the data cannot be split.
    """
    folder = RunFolder(Path(out))
    data = load_data(config, cache or folder.path.parent / f"{folder.path.name}.cache", progress=progress)
    splits = data.splits(config)
    description = _describe(config, data, splits[0].note, command)
    if resume and not (folder.path / "experiment.json").exists():
        resume = False
    folder.open(description, resume=resume)
    _write_images(folder, data, splits, config.ranker_config())
    cells = [
        Cell(method, fold, seed)
        for seed in range(config.seeds)
        for fold in config.the_folds()
        for method in config.methods
    ]
    missing = [cell for cell in cells if not folder.finished(cell)]
    if begin is not None:
        begin(how_it_runs(config, data.inputs, len(missing), free_bytes()))
    done = before = len(cells) - len(missing)
    names, since, lock = [cell.name for cell in missing], time.time(), threading.Lock()

    def tell() -> None:
        if progress is not None:
            now = [f"{before} found finished"] if before else []
            now += doing(folder.path, [name for name in names if not (folder.cells / name).is_dir()], since)
            with lock:
                progress(done, len(cells), f"cells: {'; '.join(now)}" if now else "cells")

    tell()
    tasks = [_Task(cell, data, config, folder.path) for cell in missing]
    with watching(tell):
        for _ in run_all(_compute, tasks, engine=config.engine, jobs=config.jobs):
            done += 1
            tell()
    folder.assemble()
    return folder


def _compute(task: _Task) -> str:
    folder = RunFolder(task.out)
    if not folder.finished(task.cell):
        with noting(task.out, task.cell.name) as note:
            folder.save(task.cell, run_cell(task.cell, task.data, task.config, note=note))
    return task.cell.name


def _describe(config: ExperimentConfig, data: ExperimentData, note: str, command: str) -> dict[str, Any]:
    return {
        "config": config.to_dict(),
        "fixed": config.fixed(),
        "methods": list(config.methods),
        "commands": [command] if command else [],
        "grades": list(data.grade_names),
        "neighbors": {
            f"{g}-{g + 1}": [a, b]
            for g, (a, b) in enumerate(zip(data.grade_names, data.grade_names[1:], strict=False))
        },
        "data": {
            "fingerprint": data.fingerprint,
            "images": len(data),
            "per_grade": np.bincount(data.grades, minlength=len(data.grade_names)).tolist(),
            "groups": None if data.groups is None else len(np.unique(data.groups)),
            "inputs": list(data.inputs.shape[1:]),
        },
        "split": note,
        "versions": {"python": platform.python_version(), **_versions(_PACKAGES)},
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _write_images(
    folder: RunFolder, data: ExperimentData, splits: Sequence[Any], ranker: RankerConfig
) -> None:
    """What the report needs of the images: names, grades, which fold of the first seed tests them, and a few numbers to draw them by."""
    import pandas as pd

    if (folder.path / "embedding.npy").exists():
        return
    part = np.zeros(len(data), dtype=np.int16)
    for fold, split in enumerate(splits):
        part[split.test] = fold
    table = pd.DataFrame({"image": list(data.images), "grade": data.grades, "part": part})
    if data.groups is not None:
        table["group"] = data.groups
    table.to_parquet(folder.path / "images.parquet", index=False)
    from steelyard.ranker.penultimate import distance_rows

    # A network that begins with random weights has features from round 0 on: its cell brings them.
    folder.write_embedding(distance_rows(ranker, data.inputs, newest=lambda: None))
