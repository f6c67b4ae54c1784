"""Examples of every grade for whoever grades: images of this study whose grade is known already."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from steelyard.study import Study
from steelyard.web.scores import Scores

__all__ = ["Examples"]

SHOWN = 3
_POOL = 64  # candidates of a grade; enough to leave out a patient and one's own


class Examples:
    """Chooses examples by chance that is the same every day, so that people get to know them; several threads may ask.

    The model has no say in it: examples picked by score would show what it thinks before the grade is given. What
    somebody graded alone is no example for them, or a slip would confirm itself. Neither is anything of the patient
    whose image is graded: two images of one examination look alike.

    Args:
        study: what is served.
        scores: knows the grades.
    """

    def __init__(self, study: Study, scores: Scores) -> None:
        self.study, self.scores = study, scores
        self._order = np.random.default_rng([study.config.seed, 5]).permutation(len(study.catalog))
        self._lock = threading.Lock()
        self._pools: tuple[tuple[int, int, int], list[NDArray[np.int64]]] = ((-1, -1, -1), [])

    def of(self, image: int, annotator: str) -> list[list[int]]:
        """Catalog rows for each grade, at most three, while `image` is graded by somebody."""
        groups, own = self.study.catalog.groups, self._graded_alone(annotator)
        its = groups[image] if groups is not None else None
        found = []
        for pool in self._candidates():
            rows: list[int] = []
            seen = {its}
            for row in pool.tolist():
                group = groups[row] if groups is not None else None
                if row == image or row in own or (group and group in seen):
                    continue
                rows.append(row)
                seen.add(group)
                if len(rows) == SHOWN:
                    break
            found.append(rows)
        return found

    def _candidates(self) -> list[NDArray[np.int64]]:
        store, names = self.study.store, self.study.grade_names
        excluded = store.excluded_rows()
        key = (store.last_grade_seq(), len(excluded), len(names))
        with self._lock:
            if self._pools[0] != key:
                grades = self.scores.grades().copy()
                grades[excluded] = -1
                shuffled = grades[self._order]
                pools = [self._order[np.flatnonzero(shuffled == g)[:_POOL]] for g in range(len(names))]
                self._pools = (key, pools)
            return self._pools[1]

    def _graded_alone(self, annotator: str) -> set[int]:
        given = self.study.store.grade_arrays()
        if annotator not in given.annotators:
            return set()
        mine = given.annotator == given.annotators.index(annotator)
        return set(np.setdiff1d(given.row[mine], given.row[~mine]).tolist())
