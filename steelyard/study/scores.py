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


def score_table(catalog: Catalog, posterior: Posterior, *, ordered: bool = True) -> pd.DataFrame:
    """`image`, `path`, `score`, `uncertainty`, `low`, `high` (95%), `rank` (1 = most severe)."""
    import pandas as pd

    mean, std = posterior.mean, np.sqrt(posterior.variance)
    rank = np.empty(len(mean), dtype=np.int64)
    rank[np.argsort(-mean, kind="stable")] = np.arange(1, len(mean) + 1)
    table = pd.DataFrame(
        {
            "image": [str(id) for id in catalog.ids],
            "path": [str(path) for path in catalog.paths],
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
) -> pd.DataFrame:
    """The columns of `score_table` plus `grade`, `grade_low`, `grade_high` and `known`."""
    table = score_table(catalog, posterior, ordered=False)
    grades, low, high, _ = scale.predict(posterior.mean, np.sqrt(posterior.variance))
    words = np.array(names, dtype=object)
    table["grade"], table["grade_low"], table["grade_high"] = words[grades], words[low], words[high]
    table["known"] = [words[g] if g >= 0 else None for g in known]
    return table.sort_values("rank", ignore_index=True)


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
