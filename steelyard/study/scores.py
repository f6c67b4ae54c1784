"""What a study says about its images: a table of scores, and a scale that turns them into grades."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.images.catalog import Catalog
from steelyard.ranker.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.ranker.grades import GradeScale

__all__ = ["grade_table", "score_table", "spread_over_scores", "the_scale"]


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


def grade_table(
    catalog: Catalog,
    posterior: Posterior,
    scale: GradeScale,
    names: tuple[str, ...],
    known: NDArray[np.int64],
    left_out: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """The columns of `score_table` plus `grade`, `grade_low`, `grade_high` and `known`."""
    table = score_table(catalog, posterior, ordered=False, left_out=left_out)
    rows = _shown(len(catalog), left_out)
    grades, low, high, _ = scale.predict(posterior.mean[rows], np.sqrt(posterior.variance[rows]))
    words = np.array(names, dtype=object)
    table["grade"], table["grade_low"], table["grade_high"] = words[grades], words[low], words[high]
    table["known"] = [words[g] if g >= 0 else None for g in known[rows]]
    return table.sort_values("rank", ignore_index=True)


def _shown(images: int, left_out: NDArray[np.int64] | None) -> NDArray[np.int64]:
    rows = np.arange(images)
    return rows if left_out is None else np.setdiff1d(rows, left_out)


def the_scale(
    posterior: Callable[[], Posterior], names: tuple[str, ...], known: NDArray[np.int64], method: str
) -> GradeScale:
    """The calibration from scores to grades; the scores are asked for when the grades are found to suffice.

    Raises:
        StudyError: no grades are defined, or too few are known to calibrate.
    """
    from steelyard.ranker.grades import GradeScale

    rows = np.flatnonzero(known >= 0)
    if not names:
        raise StudyError(
            "no grades are defined; name them in study.toml ([page] grades = […]) or grade on the page"
        )
    if method != "rounding" and len(np.unique(known[rows])) < 2:
        raise StudyError(
            f"{len(rows)} images with a known grade are too few: grade images of two or more grades first"
        )
    return GradeScale.fit(
        posterior().mean[rows],
        known[rows],
        len(names),
        method,  # type: ignore[arg-type]  # checked there
    )


def spread_over_scores(posterior: Posterior, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """n of these rows, spread over the score, the unsure ones first."""
    ordered = rows[np.argsort(posterior.mean[rows], kind="stable")]
    parts = np.array_split(ordered, min(n, len(ordered)) or 1)
    variance = posterior.variance
    return np.array([part[np.argmax(variance[part])] for part in parts if len(part)], dtype=np.int64)
