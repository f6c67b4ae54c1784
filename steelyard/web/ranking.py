"""The ranking as the page needs it: the newest model's scores in order, filtered, with neighbours and counts."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard.config.questions import COMPOSITE
from steelyard.errors import StudyError
from steelyard.store.records import Model
from steelyard.study import Study
from steelyard.study.domain import DomainCheck, read_check
from steelyard.study.models import load_absent, load_posterior, usable_model
from steelyard.study.scales import on_scale
from steelyard.study.scores import rank_order

__all__ = ["Filter", "Ranking", "Rankings", "density"]

Z95 = 1.96


@dataclass(frozen=True)
class Filter:
    """Which images: of a grade, of a group, with some text in path, group or id, or flagged as unlike the others."""

    grade: int | None = None
    group: str = ""
    text: str = ""
    off_domain: bool = False


@dataclass(frozen=True)
class Ranking:
    """Scores of one model on one scale.

    Attributes:
        model: which.
        scale: the key of a further question, or `composite`; empty for the main one.
        score: of every catalog row, (N,).
        std: its standard deviation, (N,).
        order: catalog rows from the lowest score to the highest; images that are excluded, could not be read or joined later
            are left out.
        rank: 1 = the highest score, by catalog row; 0 for images that are left out.
        domain: how unlike the others every catalog row is.
        filtered: what was searched for in it, kept.
    """

    model: Model
    scale: str
    score: NDArray[np.float64]
    std: NDArray[np.float64]
    order: NDArray[np.int64]
    rank: NDArray[np.int64]
    domain: DomainCheck
    filtered: dict[tuple[Filter, object], NDArray[np.int64]] = field(default_factory=dict, compare=False)

    @cached_property
    def off_domain(self) -> int | None:
        """How many of the images in the ranking are flagged as unlike the others; None where nothing can be said."""
        return None if self.domain.note else int(self.domain.flagged[self.order].sum())

    def interval(self, row: int) -> tuple[float, float]:
        """The 95% interval of a row's score."""
        return float(self.score[row] - Z95 * self.std[row]), float(self.score[row] + Z95 * self.std[row])

    def neighbours(self, row: int, n: int = 2) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows just below and just above, nearest last and nearest first."""
        if not self.rank[row]:
            return self.around(float(self.score[row]), n)
        place = len(self.order) - int(self.rank[row])
        return self.order[max(0, place - n) : place], self.order[place + 1 : place + 1 + n]

    def around(self, score: float, n: int = 2) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows just below and just above a score."""
        place = int(np.searchsorted(self.score[self.order], score))
        return self.order[max(0, place - n) : place], self.order[place : place + n]


class Rankings:
    """The rankings by the newest model, one a scale, each read once and kept; several threads may ask."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._lock = threading.Lock()
        self._ranking: Ranking | None = None
        self._excluded: NDArray[np.int64] | None = None
        self._further: dict[
            str, tuple[Ranking, object, Ranking | None]
        ] = {}  # made of what, and what was made
        self._counted: dict[str, tuple[float, int, NDArray[np.int64]]] = {}
        self._grades: tuple[object, NDArray[np.int64]] = (None, np.zeros(0, dtype=np.int64))

    def newest(self, scale: str = "") -> Ranking | None:
        """The newest model's scores, or None before there is one or where it has no such scale.

        Args:
            scale: the key of a further question, or `composite`; empty is the main scale.

        Raises:
            StudyError: the file of the scale is damaged.
        """
        main = self._main()
        if main is None or not scale:
            return main
        questions = self.study.config.questions
        weights = [(one.key, one.weight) for one in questions], self.study.config.page.weight
        with self._lock:
            kept = self._further.get(scale)
        if kept is None or kept[0] is not main or kept[1] != weights:
            kept = (main, weights, self._on(main, scale))
            with self._lock:
                self._further[scale] = kept
        return kept[2]

    def _on(self, main: Ranking, scale: str) -> Ranking | None:
        """Another scale of the same model, over the same images."""
        posterior = load_posterior(self.study.folder / main.model.path)
        found = on_scale(self.study, main.model, posterior, scale, np.flatnonzero(main.rank == 0))
        if found is None:
            return None
        score, std = np.zeros(len(main.score)), np.zeros(len(main.score))
        known = np.flatnonzero(main.rank)
        score[known], std[known] = found[0][known], found[1][known]
        order, rank = _ordered(score, np.flatnonzero(main.rank == 0))
        return replace(main, scale=scale, score=score, std=std, order=order, rank=rank, filtered={})

    def _main(self) -> Ranking | None:
        last = self.study.store.models.newest()
        if last is None:
            return None
        excluded = self.study.store.images.excluded_rows()
        with self._lock:
            kept, images = self._ranking, len(self.study.catalog)
            as_before = self._excluded is not None and np.array_equal(self._excluded, excluded)
            same = kept is not None and as_before and len(kept.score) >= images
            if kept is not None and same and kept.model.id == last.id:
                return kept
            try:
                model, posterior = last, load_posterior(self.study.folder / last.path)
                load_absent(self.study.folder / last.path)
            except StudyError:
                if kept is not None and same:
                    return kept  # a trainer may be exchanging files; the next look finds them
                model, posterior = usable_model(self.study.folder, self.study.store)
            self.study.follow()  # the model may know more images than this process does
            images = max(len(self.study.catalog), len(posterior))
            # Images that joined after the model stand nowhere in the ranking until the next one.
            score, std = np.zeros(images), np.zeros(images)
            score[: len(posterior)] = posterior.mean
            std[: len(posterior)] = np.sqrt(np.asarray(posterior.variance, dtype=np.float64))
            absent = load_absent(self.study.folder / model.path, images=images)
            order, rank = _ordered(score, np.union1d(excluded, absent).astype(np.int64))
            domain = read_check(self.study.folder / model.path, len(score))
            self._ranking = Ranking(model, "", score, std, order, rank, domain)
            self._excluded = excluded
            return self._ranking

    def rows(self, ranking: Ranking, wanted: Filter) -> NDArray[np.int64]:
        """Catalog rows from the lowest score to the highest that the filter lets through."""
        if wanted == Filter():
            return ranking.order
        # Grades may come while the ranking stays.
        key = (wanted, None if wanted.grade is None else self.study.store.grades.last_seq())
        found = ranking.filtered.get(key)
        if found is None:
            mask = self._mask(wanted)
            if wanted.off_domain:
                mask &= ranking.domain.flagged
            found = ranking.order[mask[ranking.order]]
            if len(ranking.filtered) > 32:
                ranking.filtered.clear()
            ranking.filtered[key] = found
        return found

    def _mask(self, wanted: Filter) -> NDArray[np.bool_]:
        catalog = self.study.catalog
        mask = np.ones(len(catalog), dtype=bool)
        if wanted.grade is not None:
            mask &= self.grades() == wanted.grade
        if wanted.group:
            mask &= (
                _contains(catalog.groups, wanted.group, whole=True) if catalog.groups is not None else False
            )
        if wanted.text:
            hit = _contains(catalog.paths, wanted.text) | _contains(catalog.ids, wanted.text.lower())
            if catalog.groups is not None:
                hit |= _contains(catalog.groups, wanted.text)
            mask &= hit
        return mask

    def grades(self) -> NDArray[np.int64]:
        """The known grade of every row, −1 where there is none."""
        state = (self.study.store.grades.last_seq(), self.study.grade_list)
        if self._grades[0] != state or len(self._grades[1]) < len(self.study.catalog):
            self._grades = (state, self.study.known_grades())
        return self._grades[1]

    def comparisons(self, scale: str = "") -> NDArray[np.int64]:
        """In how many answers on a scale every row took part; looked up every few seconds at most."""
        made, seq, counts = self._counted.get(scale, (-1.0, -1, np.zeros(0, dtype=np.int64)))
        images = len(self.study.catalog)
        if time.monotonic() - made < 5 and len(counts) >= images:
            return counts
        last = self.study.store.answers.last_seq()
        if last != seq or len(counts) < images:
            keys = ["", *(q.key for q in self.study.config.questions)] if scale == COMPOSITE else [scale]
            pairs = [self.study.store.answers.arrays(question=key).pairs.ravel() for key in keys]
            counts = np.bincount(np.concatenate(pairs), minlength=images)
        self._counted[scale] = (time.monotonic(), last, counts)
        return counts

    def aspect(self) -> float:
        """Width ÷ height of a typical image, from a handful."""
        from steelyard.errors import ImageError

        found = []
        catalog = self.study.catalog
        for row in np.unique(np.linspace(0, len(catalog) - 1, 7).astype(int)).tolist():
            try:
                height, width = catalog.read_small(row, 256).shape[:2]
            except ImageError:
                continue
            found.append(width / height)
        return float(np.median(found)) if found else 1.0


def _ordered(
    score: NDArray[np.float64], left_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows from the lowest score to the highest, and each row's rank."""
    order = rank_order(score, left_out)[::-1]
    rank = np.zeros(len(score), dtype=np.int64)
    rank[order] = np.arange(len(order), 0, -1)
    return order, rank


def _contains(column: object, text: str, *, whole: bool = False) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    values = column.arrow  # type: ignore[attr-defined]
    values = values.cast("large_string")
    found = pc.equal(values, text) if whole else pc.match_substring(values, text, ignore_case=True)
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)


def density(
    values: NDArray[np.float64], low: float, high: float, bins: int = 48
) -> tuple[list[float], list[float]]:
    """A smoothed histogram for a violin: bin centres and heights, the highest 1."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    kernel = np.exp(-0.5 * (np.arange(-3, 4) / 1.2) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="same")
    most = smooth.max() or 1.0
    return ((edges[:-1] + edges[1:]) / 2).round(4).tolist(), (smooth / most).round(4).tolist()
