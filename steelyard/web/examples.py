"""Examples beside an image that is graded: a few images of the study whose grade its table gives."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np

from steelyard.errors import CatalogError
from steelyard.study import Study
from steelyard.study.wording import catalog_codes

__all__ = ["Examples"]

SHOWN = 3


class Examples:
    """A fixed handful for each grade, the same for everybody and every day; several threads may ask.

    Whoever grades learns the reference grades of these images and of no others: the store keeps which they are, they
    are never replaced, and nobody is asked to grade them. They are drawn by chance, the model has no say in it, and
    one patient has one at most. While an image of the same patient is graded an example is left out: two images of one
    examination look alike.

    Args:
        study: what is served.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._lock = threading.Lock()
        self._list = study.grade_list
        self._kept: dict[tuple[int, int], list[int]] = {}

    def of(self, image: int) -> list[list[int]]:
        """Catalog rows for each grade, at most three, while `image` is graded."""
        groups = self.study.catalog.groups
        its = groups[image] if groups is not None else None
        gone = {image, *self.study.store.images.excluded_rows().tolist()}
        return [
            [
                row
                for row in rows
                if row not in gone and not (its and groups is not None and groups[row] == its)
            ]
            for rows in self._by_grade()
        ]

    def rows(self) -> set[int]:
        """Catalog rows of all examples, shown or left out."""
        return {row for rows in self._by_grade() for row in rows}

    def related(self, rows: Sequence[int]) -> set[int]:
        """Of some rows, those that are examples or show the same patient as one."""
        groups, examples = self.study.catalog.groups, self.rows()
        patients = {groups[row] for row in examples} - {""} if groups is not None else set()
        return {r for r in rows if r in examples or (groups is not None and groups[r] in patients)}

    def _by_grade(self) -> list[list[int]]:
        # A grade without examples may find some among images that join; those that are drawn stay.
        grades, images = self.study.grade_list, len(self.study.catalog)
        keys = [(grade, images) for grade in range(len(grades))]
        with self._lock:
            if self._list != grades:  # somebody changed the grades
                self._list, self._kept = grades, {}
            for key in keys:
                if key not in self._kept:
                    self._kept[key] = self._fixed(key[0])
            return [self._kept[key] for key in keys]

    def _fixed(self, grade: int) -> list[int]:
        codes = catalog_codes(self.study.catalog, self.study.grade_list)
        if codes is None:
            return []
        rows = self._remembered(grade, f"examples of grade {grade}")
        if (codes[rows] == grade).all():
            return rows
        # They were drawn when another grade stood here: the list was put into another order since.
        name = hashlib.blake2b(self.study.grade_names[grade].encode(), digest_size=8).hexdigest()
        rows = self._remembered(grade, f"examples of grade {grade}, {name}")
        return [row for row in rows if codes[row] == grade]

    def _remembered(self, grade: int, key: str) -> list[int]:
        store, catalog = self.study.store, self.study.catalog
        ids = store.settings.get(key)
        if ids is None:
            drawn = self._drawn(grade)
            if not drawn:
                return []
            ids = store.settings.keep(key, [catalog.ids[row] for row in drawn])
        rows = []
        for id in ids:
            try:
                rows.append(catalog.index_of(id))
            except CatalogError:
                continue  # the image left the catalog
        return rows

    def _drawn(self, grade: int) -> list[int]:
        catalog = self.study.catalog
        codes = catalog_codes(catalog, self.study.grade_list)
        if codes is None:
            return []
        known = np.setdiff1d(np.flatnonzero(codes == grade), self.study.store.images.excluded_rows())
        rng = np.random.default_rng([self.study.config.seed, 5, grade])
        rows: list[int] = []
        patients: set[str] = set()
        for row in rng.permutation(known).tolist():
            group = catalog.groups[row] if catalog.groups is not None else None
            if group and group in patients:
                continue
            rows.append(row)
            patients.update([group] if group else [])
            if len(rows) == SHOWN:
                break
        return rows
