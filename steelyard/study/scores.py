"""What a study says about its images: a table of scores, and which to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.images.catalog import Catalog
from steelyard.ranker.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["score_table", "spread_over_scores"]


def score_table(
    catalog: Catalog,
    posterior: Posterior,
    *,
    ordered: bool = True,
    left_out: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """`image`, `path`, `score`, `uncertainty`, `low`, `high` (95%), `rank` (1 = most severe).

    Rows that are left out – excluded, or never read – are not in the table, and no rank counts them.
    """
    import pandas as pd

    rows = _shown(len(catalog), left_out)
    mean, std = posterior.mean[rows], np.sqrt(posterior.variance[rows])
    rank = np.empty(len(mean), dtype=np.int64)
    rank[np.argsort(-mean, kind="stable")] = np.arange(1, len(mean) + 1)
    table = pd.DataFrame(
        {
            "image": np.array([str(id) for id in catalog.ids], dtype=object)[rows],
            "path": np.array([str(path) for path in catalog.paths], dtype=object)[rows],
            "score": mean,
            "uncertainty": std,
            "low": mean - 1.96 * std,
            "high": mean + 1.96 * std,
            "rank": rank,
        }
    )
    return table.sort_values("rank", ignore_index=True) if ordered else table


def _shown(images: int, left_out: NDArray[np.int64] | None) -> NDArray[np.int64]:
    rows = np.arange(images)
    return rows if left_out is None else np.setdiff1d(rows, left_out)


def spread_over_scores(
    posterior: Posterior, rows: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """n of these rows, spread over the score and drawn at random beside that.

    What is graded vouches for the rest (`trust/grade_sets.py`), so it has to be like the rest: the least certain images of
    every part, which were taken once, made intervals that held 85% of the grades instead of 90%.
    """
    ordered = rows[np.argsort(posterior.mean[rows], kind="stable")]
    parts = np.array_split(ordered, min(n, len(ordered)) or 1)
    return np.array([rng.choice(part) for part in parts if len(part)], dtype=np.int64)
