"""The functions of 0.1 around a ranker, until their callers have moved to `Learner`, `read_inputs` and `load_ranker`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.config import RankerConfig
from steelyard.progress import Progress
from steelyard.ranker.inputs import coarse_rows, read_inputs
from steelyard.ranker.learner import Learner
from steelyard.ranker.ranker import Ranker, load_ranker

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog

__all__ = [
    "Ranker",
    "coarse_rows",
    "fit_ranker",
    "load_ranker",
    "picture_inputs",
    "ranker_inputs",
]


def ranker_inputs(
    catalog: Catalog, config: RankerConfig, *, cache: Path | None = None, progress: Progress | None = None
) -> NDArray[Any]:
    """What the ranker sees of a catalog."""
    return read_inputs(catalog, config, cache=cache, progress=progress)


def picture_inputs(
    pictures: NDArray[np.uint8], config: RankerConfig, *, cache: Path | None = None
) -> NDArray[Any]:
    """What the ranker sees of pictures."""
    return read_inputs(pictures, config, cache=cache)


def fit_ranker(
    inputs: NDArray[Any],
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    config: RankerConfig,
    seed: int,
    grades: ArrayLike | None = None,
    start: Path | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    use: NDArray[np.int64] | None = None,
) -> Ranker:
    """Fit as configured."""
    learner = Learner(config, inputs, pool=use, seed=seed)
    before = None if start is None or learner.learns_reserved else load_ranker(start)
    return learner.fit(pairs, answers, grades=grades, start=before, folder=folder, progress=progress)
