"""What a study says about its images: a table of scores, and which to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.images.catalog import Catalog
from steelyard.ranker.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["rank_order", "score_table", "spread_over_scores", "without_score"]


def rank_order(score: NDArray[Any], left_out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Catalog rows from the highest score to the lowest: rank 1, 2, 3 … in tables, reports, the API and on the page alike.

    Equal scores are in the order of the catalog. Rows that are left out – excluded, or never read – have no rank, and no rank
    counts them.

    Args:
        score: of every catalog row, shape (N,).
        left_out: rows.
    """
    rows = np.argsort(-np.asarray(score), kind="stable")
    return rows if left_out is None else rows[~np.isin(rows, left_out)]


def score_table(
    catalog: Catalog,
    posterior: Posterior,
    *,
    ordered: bool = True,
    left_out: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """`image`, `path`, `score`, `uncertainty`, `low`, `high` (95%), `rank` (1 = the highest).

    Rows that are left out – excluded, or never read – are not in the table, and no rank counts them.
    """
    import pandas as pd

    order = rank_order(posterior.mean, left_out)
    rank = np.zeros(len(catalog), dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    rows = np.flatnonzero(rank)
    mean, std = posterior.mean[rows], np.sqrt(posterior.variance[rows])
    table = pd.DataFrame(
        {
            "image": np.array([str(id) for id in catalog.ids], dtype=object)[rows],
            "path": np.array([str(path) for path in catalog.paths], dtype=object)[rows],
            "score": mean,
            "uncertainty": std,
            "low": mean - 1.96 * std,
            "high": mean + 1.96 * std,
            "rank": rank[rows],
        }
    )
    return table.sort_values("rank", ignore_index=True) if ordered else table


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


def without_score(images: int, scored: int, excluded: int) -> str:
    """How many images have neither score nor rank, and why; empty where all have."""
    unread = images - scored - excluded
    why = [
        f"{n:,} {what}"
        for n, what in ((excluded, "excluded"), (unread, "could not be read or came after the model"))
        if n > 0
    ]
    return (
        f"{images - scored:,} of {images:,} images have no score and no rank: {', '.join(why)}" if why else ""
    )
