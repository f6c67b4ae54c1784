"""What an experiment is run on: rows the ranker sees, grades, groups – from images or from a feature matrix."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config import ImagesConfig
from steelyard.errors import ExperimentError
from steelyard.experiment.config import ExperimentConfig
from steelyard.progress import Progress
from steelyard.splits import Split, folds, halves

__all__ = ["ExperimentData", "load_data"]


@dataclass(frozen=True)
class ExperimentData:
    """Graded images.

    Attributes:
        inputs: what the ranker sees: features (N, D), activations (N, H, W, C) or pixels (N, H, W, 3).
        grades: codes 0 … G−1, shape (N,).
        grade_names: in order.
        images: names, shape (N,).
        groups: shape (N,), or None.
        same: near-duplicate labels, shape (N,), or None.
        fingerprint: of inputs' source and grades.
    """

    inputs: NDArray[Any]
    grades: NDArray[np.int64]
    grade_names: tuple[str, ...]
    images: tuple[str, ...]
    groups: NDArray[Any] | None
    same: NDArray[np.int64] | None
    fingerprint: str

    def __len__(self) -> int:
        return len(self.grades)

    def splits(self, config: ExperimentConfig, seed: int = 0) -> list[Split]:
        """The folds of a seed of an experiment."""
        return folds(
            self.groups,
            self.grades,
            n=len(self),
            k=config.folds,
            seed=config.split_seed + (seed if config.deals == "each" else 0),
            same=self.same,
            same_by="identical rows" if config.features else "perceptual hash",
        )

    def half(self, config: ExperimentConfig) -> ExperimentData:
        """The half that the experiment takes, or everything."""
        if config.half == "all":
            return self
        choose, report = halves(self.groups, self.grades, n=len(self), same=self.same)
        return self._rows(choose if config.half == "choose" else report, config.half)

    def _rows(self, rows: Rows, name: str) -> ExperimentData:
        return replace(
            self,
            inputs=self.inputs[rows],
            grades=self.grades[rows],
            images=tuple(self.images[row] for row in rows.tolist()),
            groups=None if self.groups is None else self.groups[rows],
            same=None if self.same is None else self.same[rows],
            fingerprint=f"{self.fingerprint}-{name}",
        )


def load_data(config: ExperimentConfig, cache: Path, *, progress: Progress | None = None) -> ExperimentData:
    """Read images and compute their inputs once, or open a feature matrix.

    Args:
        config: the experiment.
        cache: folder for computed features.
        progress: called as progress(done, total, text).

    Raises:
        ExperimentError: grades are missing or there are fewer than two.
        CatalogError: the folder, matrix or CSV cannot be read.
    """
    from steelyard.images.reading import read_catalog

    if not config.images and not config.features:
        raise ExperimentError("no data given; name images with --images DIR or a matrix with --features NPY")
    layout = (
        "features"
        if config.features
        else ("csv" if config.labels and config.layout == "folder" else config.layout)
    )
    catalog = read_catalog(
        ImagesConfig(root=config.images, layout=layout, labels=config.labels, features=config.features),
        progress=progress,
    )
    if catalog.grades is None or (np.asarray(catalog.grades) < 0).all():
        raise ExperimentError(
            "an experiment needs graded images; use --layout grades or --labels CSV with a column 'grade'"
        )
    known = np.flatnonzero(np.asarray(catalog.grades) >= 0)
    if len(known) < len(catalog):
        catalog = catalog.subset(known)
    grades = np.asarray(catalog.grades, dtype=np.int64)
    if len(np.unique(grades)) < 2:
        raise ExperimentError(f"all {len(grades)} images have the same grade; nothing can be ranked")
    inputs = _inputs(catalog, config, cache, progress)
    names = catalog.paths if catalog.paths is not None else catalog.ids
    data = ExperimentData(
        inputs=inputs,
        grades=grades,
        grade_names=tuple(catalog.grade_names) or tuple(map(str, range(int(grades.max()) + 1))),
        images=tuple(map(str, names)),
        groups=None if catalog.groups is None else np.asarray(catalog.groups),
        same=_same(catalog, inputs, config, progress),
        fingerprint=_fingerprint(catalog.fingerprint(), inputs if config.features else None, grades),
    )
    return data.half(config)


def _inputs(catalog: Any, config: ExperimentConfig, cache: Path, progress: Progress | None) -> NDArray[Any]:
    if config.features:
        return np.asarray(catalog.features)
    from steelyard.ranker.inputs import read_inputs

    return np.asarray(read_inputs(catalog, config.ranker_config(), cache=cache, progress=progress))


def _same(
    catalog: Any, inputs: NDArray[Any], config: ExperimentConfig, progress: Progress | None
) -> NDArray[np.int64] | None:
    if not config.near_duplicates:
        return None
    if config.features:
        # Without pixels only rows that are exactly alike can be told to be the same picture.
        _, labels = np.unique(np.asarray(inputs), axis=0, return_inverse=True)
        return np.asarray(labels, dtype=np.int64).reshape(-1)
    from steelyard.images.similar import fingerprints, near_duplicates

    return near_duplicates(fingerprints(catalog.read, len(catalog), progress=progress))


def _fingerprint(catalog: str, features: NDArray[Any] | None, grades: NDArray[np.int64]) -> str:
    digest = hashlib.blake2b(catalog.encode(), digest_size=16)
    digest.update(grades.tobytes())
    if features is not None:
        step = max(1, (1 << 24) // max(1, features.shape[1] * features.itemsize))
        for start in range(0, len(features), step):
            digest.update(np.ascontiguousarray(features[start : start + step]).tobytes())
    return digest.hexdigest()
