"""From a study's scores to grades: a scale calibrated on the images whose grade is known, and the table it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config import ranker_from_saved
from steelyard.config.grades import GradeList
from steelyard.errors import StudyError
from steelyard.images.catalog import Catalog
from steelyard.loop.learn import teaching
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import AnswerArrays, Model
from steelyard.study.judging import said_by
from steelyard.study.scores import score_table
from steelyard.study.wording import catalog_codes

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.ranker.grades import GradeScale
    from steelyard.study.study import Study

__all__ = ["check_code", "grade_table", "group_numbers", "honest_scale", "known_grades", "study_scale"]


def study_scale(study: Study, model: Model, posterior: Posterior, left_out: Rows, method: str) -> GradeScale:
    """A scale whose intervals are tested on groups that neither taught the model nor the scale.

    From a convex ranker everything that was said about a group is taken back to measure on it. From a network nothing can be
    taken back: its intervals rest on the graded images that it has not learnt from, and are all grades where these are too few.

    Args:
        study: whose known grades count.
        model: that made the posterior.
        posterior: of the study's images.
        left_out: rows that have no score.
        method: `ordinal`, `isotonic` or `rounding`.

    Raises:
        StudyError: no grades are defined, or too few are known to calibrate.
    """
    from steelyard.ranker.grades import GradeScale
    from steelyard.study.learning import answers_about  # which learns a card, which has grades

    names, known = study.grade_names, study.known_grades()
    known[left_out] = -1
    rows = np.flatnonzero(known >= 0)
    if not names:
        raise StudyError(
            "no grades are defined; name them in study.toml ([page] grades = […]) or grade on the page"
        )
    if method != "rounding" and len(np.unique(known[rows])) < 2:
        raise StudyError(
            f"{len(rows)} images with a known grade are too few: grade images of two or more grades first"
        )
    if not len(rows):
        return GradeScale.fit([], [], len(names), method)  # type: ignore[arg-type]  # checked there
    ranker = ranker_from_saved(model.config.get("ranker", {}))
    answers = answers_about(study.store.answers.lessons(upto=model.comparisons_seq), left_out)
    taught = None
    if ranker.multitask:
        taught = study.known_grades(upto=model.grades_seq).astype(np.float64)
        taught[taught < 0] = np.nan
        taught[left_out] = np.nan
    return honest_scale(
        posterior, rows, known[rows], len(names), group_numbers(study.catalog), answers,
        convex=ranker.kind == "convex", taught=taught, method=method,
    )  # fmt: skip


def honest_scale(
    posterior: Posterior,
    rows: Rows,
    grades: NDArray[np.int64],
    n_grades: int,
    groups: NDArray[np.int64],
    answers: AnswerArrays,
    *,
    convex: bool,
    taught: NDArray[np.float64] | None,
    method: str = "ordinal",
) -> GradeScale:
    """The same from arrays: what a trainer has at hand before there is a model to ask.

    Args:
        posterior: of the study's images.
        rows: images with a known grade, shape (n,).
        grades: theirs, shape (n,).
        n_grades: G.
        groups: a number for each image of the study.
        answers: that the posterior was fitted on, those held back included.
        convex: whether the ranker is.
        taught: grades that it has learnt, NaN where none; None where it learnt none.
        method: `ordinal`, `isotonic` or `rounding`.
    """
    from steelyard.trust.grade_sets import calibrated_scale
    from steelyard.trust.without_groups import scores_without_groups

    keep = teaching(answers.labels, answers.reserved, learns_reserved=convex)
    pairs, labels = answers.pairs[keep], answers.labels[keep]
    if convex:
        mean, std = scores_without_groups(
            posterior, rows, groups, pairs, labels, taught=taught, said=said_by(answers)[keep]
        )
        honest = np.ones(len(rows), dtype=bool)
    else:
        mean, std = posterior.mean[rows], np.sqrt(posterior.variance[rows])
        learnt = np.unique(pairs) if taught is None else np.union1d(pairs, np.flatnonzero(~np.isnan(taught)))
        honest = ~np.isin(groups[rows], groups[learnt])
    return calibrated_scale(
        mean,
        std,
        grades,
        groups[rows],
        n_grades,
        method,  # type: ignore[arg-type]  # checked there
        witnesses=honest,
    )


def known_grades(study: Study, upto: int | None = None) -> NDArray[np.int64]:
    """See `Study.known_grades`."""
    own = catalog_codes(study.catalog, study.grade_list)
    grades = np.full(len(study.catalog), -1, dtype=np.int64) if own is None else own.astype(np.int64)
    given = study.store.grades.arrays(upto)
    for row in np.unique(given.row[given.row < len(grades)]):  # several people: the median, rounded down
        grades[row] = int(np.median(given.grade[given.row == row]))
    return grades


def grade_table(
    catalog: Catalog,
    posterior: Posterior,
    scale: GradeScale,
    grades: GradeList,
    known: NDArray[np.int64],
    left_out: Rows | None = None,
) -> pd.DataFrame:
    """The columns of `score_table` plus `grade`, `grade_low`, `grade_high` (90%) and `known`, by name.

    `definition` is that of `grade`, where the study defines any.
    """
    table = score_table(catalog, posterior, ordered=False, left_out=left_out)
    rows = np.arange(len(catalog))
    rows = rows if left_out is None else np.setdiff1d(rows, left_out)
    codes, low, high, _ = scale.predict(posterior.mean[rows], np.sqrt(posterior.variance[rows]))
    names = np.array(grades.names, dtype=object)
    table["grade"], table["grade_low"], table["grade_high"] = names[codes], names[low], names[high]
    table["known"] = [names[g] if g >= 0 else None for g in known[rows]]
    if any(grades.definitions):
        table["definition"] = np.array(grades.definitions, dtype=object)[codes]
    return table.sort_values("rank", ignore_index=True)


def check_code(grade: int, names: tuple[str, ...]) -> None:
    """Refuse a grade that there is not.

    Raises:
        StudyError: names the grades there are.
    """
    if not 0 <= grade < len(names):
        raise StudyError(f"grade {grade} is none of 0 … {len(names) - 1} ({', '.join(names)})")


def group_numbers(catalog: Catalog) -> NDArray[np.int64]:
    """A number for each image's group; an image without one is a group of its own."""
    codes, alone = catalog.group_codes, np.arange(len(catalog))
    if codes is None:
        return alone
    groups = catalog.groups
    assert groups is not None
    nameless = np.array([not name for name in groups.tolist()], dtype=bool)
    return np.where(nameless, codes.max(initial=0) + 1 + alone, codes)
