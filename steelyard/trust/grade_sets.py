"""Grade intervals that hold: how far known grades lie from where their scores fall, measured on groups left out.

A conformal set. Every image with a known grade is placed by a scale that was fitted without its group, and its distance to its
own grade is kept (`GradeScale.distances`). An image of a new group is as far from its grade as those are: the interval of 90%
is every grade within the distance that 90% of them keep to, whatever scores and grades look like. Groups count, not images
(ten images of one patient are one witness), and one more group that nobody has seen may be the worst of all, so that with
fewer than nine groups nothing can be said at 90% and the interval is all grades.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.ranker.grades import GradeScale, Method
from steelyard.splits import folds

__all__ = ["calibrated_scale", "sentence"]

_FOLDS = 10


def calibrated_scale(
    scores: ArrayLike,
    std: ArrayLike,
    grades: ArrayLike,
    groups: ArrayLike,
    n_grades: int,
    method: Method = "ordinal",
    *,
    witnesses: NDArray[np.bool_] | None = None,
) -> GradeScale:
    """A scale from scores to grades whose intervals hold on images of groups that are not among these.

    Args:
        scores: of images with a known grade, as if their group had not been learnt from (`without_groups.py`), shape (n,).
        std: their deviations, shape (n,).
        grades: codes 0 … G−1, shape (n,).
        groups: group of each image, shape (n,).
        n_grades: G.
        method: of `GradeScale.fit`.
        witnesses: images whose scores are honest, where not all are; distances are measured on them alone. Shape (n,).

    Raises:
        RankerError: shapes do not fit, a grade is out of range, or there are no images.
    """
    x, deviation = np.asarray(scores, dtype=np.float64), np.asarray(std, dtype=np.float64)
    group = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    scale = GradeScale.fit(x, grades, n_grades, method, std=deviation)
    codes = np.asarray(grades).astype(np.int64)  # which they are, or the fit had complained
    if not len(x) == len(deviation) == len(codes) == len(group):
        raise RankerError(
            f"{len(x)} scores have {len(deviation)} deviations, {len(codes)} grades and {len(group)} groups; one of each is needed"
        )
    kept = np.ones(len(x), dtype=bool) if witnesses is None else witnesses
    count = len(np.unique(group[kept]))
    if len(np.unique(group)) < 3 or not count:  # too few to leave any out
        return replace(scale, reach=(float("inf"),), shares=(1.0,), groups=count)
    far = np.empty(len(x))
    for split in folds(group, codes, n=len(x), k=min(_FOLDS, len(np.unique(group)))):
        rest = np.setdiff1d(np.arange(len(x)), split.test)
        part = GradeScale.fit(x[rest], codes[rest], n_grades, method, std=deviation[rest])
        far[split.test] = part.distances(x[split.test], deviation[split.test])[
            np.arange(len(split.test)), codes[split.test]
        ]
    reach, shares = _shares(far[kept], group[kept])
    return replace(scale, reach=tuple(reach.tolist()), shares=tuple(shares.tolist()), groups=count)


def _shares(far: Floats, group: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Distances in order, and what share of images of a new group keeps to each: groups weigh alike, and a new one as much."""
    _, place, size = np.unique(group, return_inverse=True, return_counts=True)
    order = np.argsort(far, kind="stable")
    weight = 1.0 / (size[place.reshape(-1)] * (len(size) + 1.0))
    return far[order], np.cumsum(weight[order])


def sentence(scale: GradeScale, level: float = 0.9) -> str:
    """What the intervals of a scale promise, in words."""
    if not scale.reach:
        return "The grade intervals are the model's own: nobody has measured how often they hold."
    if not np.isfinite(scale.reach_of(level)):
        needed = int(np.ceil(level / (1 - level) - 1e-9))
        return (
            f"Grade intervals are all grades: {level:.0%} can be vouched for with {needed} or more graded groups that can be left "
            f"out, and there are {scale.groups}. A group is a patient, or one image where no groups are known; what a network has "
            "learnt from cannot be left out again, so grade images that it has not learnt from."
        )
    return (
        f"Grade intervals hold the grade of {level:.0%} of the images of new groups; measured on {len(scale.reach)} graded images of "
        f"{scale.groups} groups, each left out in turn. A group is a patient, or one image where no groups are known."
    )
