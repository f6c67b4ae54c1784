"""Does an image look like the study's images at all? Distances from the pool, told as a share of the pool's own images.

A ranker gives every picture a score, also one of another organ, camera or modality. What tells them apart lies both inside the
principal axes of the pool – an extreme – and outside of them, in what the axes throw away: features that always follow from the
others, and now do not. Factor analysis joins both in one distance:

    d² = Σ_k t_k² / (λ_k + mean ψ) + Σ_f (z − Ut)_f² / ψ_f,   t = Uᵀz, z the standardised row, ψ_f what the axes leave of feature f

A distance alone means nothing, so it is compared with those of the pool's own images, each measured by axes fitted without its
group (cross-conformal, Vovk 2015), every group counting the same (Lee, Barber & Willett 2023):

    unlike(x) = Σ_g mean_{i in g} 1{d_i < d(x)} / (G + 1)

An image of a new group of the same domain has unlike ≥ 1 − α with a probability of α, whatever the distribution of distances.
The most remote twentieth of the pool does not shape the axes, so that a few foreign images among the study's own are found too.
numpy only; docs/statistics.md has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Rows
from steelyard.errors import RankerError
from steelyard.ranker.appearance import appearance
from steelyard.ranker.blocks import check_finite

__all__ = ["ALPHA", "LEAST_GROUPS", "Domain", "fit_domain", "off_domain"]

ALPHA = 0.04
"""Share of new images of the same domain that are flagged by chance."""
LEAST_GROUPS = 24
"""Fewer groups (images, where no groups are known) can flag nothing at this share: 1 / (G + 1) is above it."""

_FOLDS = 5
_AXES = 64
_TRIMMED = 0.05
_LEAST_REST = 0.1  # ψ of a feature, in multiples of the mean
_ROWS = 2000  # a larger pool is represented by this many of its images
_BLOCK = 1024  # images a block
_NEAR = 256  # images a block of the arithmetic: what it writes and reads again stays near the processor


class _View(NamedTuple):
    """A fold as it is computed with: features divided by √ψ, so that what the axes leave only has to be squared and added."""

    center_F: NDArray[np.float32]
    factor_F: NDArray[np.float32]
    onto_F_D: NDArray[np.float32]
    back_D_F: NDArray[np.float32]
    weight_D: NDArray[np.float32]


@dataclass(frozen=True)
class Domain:
    """What the images of a pool look like, seen five times, each time without a fifth of the groups.

    Attributes:
        center_K_F: mean of each feature.
        scale_K_F: factor of each feature, 0 where it is constant.
        axes_K_F_D: principal axes, as float16.
        variance_K_D: along them.
        rest_K_F: variance of what the axes leave of each feature.
        distance_M: of the pool's own images, by the axes that do not know them, ascending within each fold.
        fold_M: their fold.
        weight_M: 1 / images of their group.
    """

    center_K_F: NDArray[np.float32]
    scale_K_F: NDArray[np.float32]
    axes_K_F_D: NDArray[np.float16]
    variance_K_D: NDArray[np.float32]
    rest_K_F: NDArray[np.float32]
    distance_M: Floats
    fold_M: Rows
    weight_M: Floats

    @property
    def groups(self) -> float:
        """G, how many groups the distances are of."""
        return float(self.weight_M.sum())

    def unlike(self, inputs: NDArray[Any]) -> Floats:
        """Share of the pool's images that are more typical than each of these, which are not of the pool; shape (N,).

        Args:
            inputs: of any images, from `read_inputs`.

        Raises:
            RankerError: inputs of another width than the pool's, or not finite.
        """
        found = np.zeros(len(inputs))
        for start in range(0, len(inputs), _BLOCK):
            rows = self._rows(inputs[start : start + _BLOCK])
            for fold in range(len(self.center_K_F)):
                mine = self.fold_M == fold
                found[start : start + _BLOCK] += _weight_below(
                    self.distance_M[mine], self.weight_M[mine], self._distances(rows, fold)
                )
        return np.asarray(found / (self.groups + 1))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as named arrays."""
        return {
            "center": self.center_K_F, "scale": self.scale_K_F, "axes": self.axes_K_F_D, "variance": self.variance_K_D,
            "rest": self.rest_K_F, "distance": self.distance_M, "fold": self.fold_M, "weight": self.weight_M,
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Domain:
        """What `to_arrays` gave."""
        names = ("center", "scale", "axes", "variance", "rest", "distance", "fold", "weight")
        return cls(*(arrays[name] for name in names))

    def _rows(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        rows = appearance(inputs)
        if rows.shape[1] != self.center_K_F.shape[1]:
            raise RankerError(
                f"the model's domain has {self.center_K_F.shape[1]} features an image, not {rows.shape[1]}; train again"
            )
        check_finite(rows)  # type: ignore[arg-type]  # of either precision
        return rows

    @cached_property
    def _seen_by(self) -> list[_View]:
        """The folds, ready for many images."""
        found = []
        for fold, rest in enumerate(self.rest_K_F):
            deviation, axes = np.sqrt(rest), self.axes_K_F_D[fold].astype(np.float32)
            found.append(
                _View(
                    self.center_K_F[fold],
                    self.scale_K_F[fold] / deviation,
                    axes * deviation[:, None],
                    np.ascontiguousarray((axes / deviation[:, None]).T),
                    1 / (self.variance_K_D[fold] + rest.mean()),
                )
            )
        return found

    def _distances(self, rows: NDArray[np.float32], fold: int) -> Floats:
        """log d², so that an image far away does not overflow."""
        view, squared = self._seen_by[fold], np.empty(len(rows))
        for start in range(0, len(rows), _NEAR):
            y = rows[start : start + _NEAR] - view.center_F
            y *= view.factor_F
            t = y @ view.onto_F_D
            y -= t @ view.back_D_F
            inside = np.square(t, dtype=np.float64) @ view.weight_D
            # numpy adds up halves of halves along a row, so that float32 is as good here as in what is added.
            squared[start : start + _NEAR] = inside + np.square(y, out=y).sum(axis=1)
        return np.asarray(np.log(np.maximum(squared, 1e-300)))


def off_domain(unlike: ArrayLike, groups: float) -> NDArray[np.object_]:
    """True where an image is flagged, None where nothing can be said: not measured, or of a study of too few groups."""
    values = np.asarray(unlike, dtype=np.float64)
    known = np.isfinite(values) & (groups >= LEAST_GROUPS - 0.5)
    off = (values >= 1 - ALPHA - 1e-6).astype(object)  # 1e-6: 24/25 is 1 − 0.04
    off[~known] = None
    return np.asarray(off)


def fit_domain(
    inputs: NDArray[Any],
    *,
    pool: Rows | None = None,
    groups: ArrayLike | None = None,
    absent: Rows | None = None,
    seed: int = 0,
) -> tuple[Domain, Floats] | None:
    """Learn what a pool looks like, and how unlike it each of its own images is.

    Args:
        inputs: of all images, from `read_inputs`; may be a memory map.
        pool: rows to learn from, ascending; None is all.
        groups: a label for each image, shape (N,), negative or "" where unknown; None takes every image as a group of its own.
        absent: rows without inputs, which stay unmeasured.
        seed: deals groups into folds, and picks the images that stand for a pool of more than 2,000.

    Returns:
        The domain, and `unlike` of all images, shape (N,): those of the pool by axes that do not know their group and against the
        other groups, the rest as `Domain.unlike`; NaN where absent. None where the pool is too small to say anything.

    Raises:
        RankerError: a feature that is not finite.
    """
    rows = np.arange(len(inputs)) if pool is None else np.asarray(pool, dtype=np.int64)
    labels = _labels(groups, len(inputs))
    names = np.unique(labels[rows])
    if len(names) < 2 * _FOLDS or len(rows) < 4 * _FOLDS:
        return None
    rng = np.random.default_rng(seed)
    dealt = np.empty(len(names), dtype=np.int64)
    dealt[rng.permutation(len(names))] = np.arange(len(names)) % _FOLDS
    folds = np.full(len(inputs), -1, dtype=np.int64)
    folds[rows] = dealt[np.searchsorted(names, labels[rows])]
    chosen = np.sort(rng.choice(rows, _ROWS, replace=False)) if len(rows) > _ROWS else rows
    sample = _seen(inputs, chosen)
    domain = _views([sample[folds[chosen] != fold] for fold in range(_FOLDS)], rng)
    distance = _own_distances(domain, inputs, rows, folds)
    domain = _calibrated(domain, distance[chosen], folds[chosen], labels[chosen])
    unlike = np.full(len(inputs), np.nan)
    unlike[rows] = _among_others(distance, labels, rows, chosen)
    others = np.setdiff1d(np.flatnonzero(folds < 0), () if absent is None else absent)
    if len(others):
        unlike[others] = domain.unlike(inputs[others])
    return domain, unlike


def _labels(groups: ArrayLike | None, images: int) -> Rows:
    """A number for each group; an image without one is a group of its own."""
    alone = np.arange(images)
    if groups is None:
        return alone
    given = np.asarray(groups)
    if given.shape != (images,):
        raise RankerError(
            f"groups have the shape {given.shape}; one for each of the {images} images was expected"
        )
    numbers = np.unique(given, return_inverse=True)[1].reshape(-1)
    missing = given < 0 if given.dtype.kind in "if" else given == ""
    return np.where(missing, images + alone, numbers).astype(np.int64)


def _views(samples: list[NDArray[np.float32]], rng: np.random.Generator) -> Domain:
    """Principal axes of each of these sets of rows; distances to compare with come later."""
    axes = min(_AXES, samples[0].shape[1] // 2 or 1, min(len(rows) for rows in samples) // 3)
    center, scale, found, variance, rest = zip(
        *(_principal(_typical(rows), axes, rng) for rows in samples), strict=True
    )
    return Domain(
        np.stack(center), np.stack(scale), np.stack(found), np.stack(variance), np.stack(rest),
        np.empty(0), np.empty(0, dtype=np.int64), np.empty(0),
    )  # fmt: skip


def _seen(inputs: NDArray[Any], rows: Rows) -> NDArray[np.float32]:
    found = appearance(inputs, rows)
    check_finite(found, rows)  # type: ignore[arg-type]  # of either precision
    return found


def _typical(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """All rows but the most remote, by medians, which remote rows do not move."""
    few = rows[:: max(1, len(rows) // 400)]  # medians of all of them would take longer than everything else
    middle = np.median(few, axis=0)
    deviation = np.median(np.abs(few - middle), axis=0)
    alive = deviation > 1e-6 * deviation.max()
    # At most ten: a single wild feature is not what makes an image remote.
    gap = np.abs(rows[:, alive] - middle[alive]) / deviation[alive]
    remote = np.square(np.minimum(gap, 10)).sum(axis=1)
    return np.asarray(rows[remote <= np.quantile(remote, 1 - _TRIMMED)])


def _principal(
    rows: NDArray[np.float32], axes: int, rng: np.random.Generator
) -> tuple[
    NDArray[np.float32], NDArray[np.float32], NDArray[np.float16], NDArray[np.float32], NDArray[np.float32]
]:
    """Centre, scale, leading axes, their variances, and the variance of what they leave of each feature."""
    center = rows.mean(axis=0)
    z = rows - center
    deviation = np.sqrt(np.square(z).mean(axis=0))
    # A constant column has rounding noise at most; dividing by it would blow the noise up.
    alive = deviation > 1e-6 * np.maximum(np.abs(center), deviation.max())
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=alive)
    z *= scale
    q = np.linalg.qr(rng.standard_normal((z.shape[1], min(axes + 10, z.shape[1]))).astype(np.float32))[0]
    for _ in range(3):  # subspace iteration: good enough, because distances are calibrated by what it found
        q = np.linalg.qr(z.T @ (z @ q))[0]
    near = (z @ q).astype(np.float64)
    values, turn = np.linalg.eigh(near.T @ near / len(z))
    variance = np.maximum(values[::-1][:axes], 0.0)
    found = (q @ turn[:, ::-1][:, :axes]).astype(np.float16)
    near_F_D = found.astype(np.float32)
    rest = np.square(z - (z @ near_F_D) @ near_F_D.T).mean(axis=0)
    # A feature that follows from the others altogether must not outweigh all of them; nor rows that lie in a plane.
    least = max(_LEAST_REST * float(rest.mean()), 1e-3 * max(float(variance.mean()), 1e-9))
    return center, scale, found, variance.astype(np.float32), np.maximum(rest, np.float32(least))


def _own_distances(domain: Domain, inputs: NDArray[Any], rows: Rows, folds: Rows) -> Floats:
    """Of every image of the pool, by the axes that do not know its group; NaN elsewhere, shape (N,)."""
    distance = np.full(len(inputs), np.nan)
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        seen = _seen(inputs, part)
        for fold in np.unique(folds[part]).tolist():
            mine = folds[part] == fold
            distance[part[mine]] = domain._distances(seen[mine], fold)
    return distance


def _calibrated(domain: Domain, distance: Floats, folds: Rows, labels: Rows) -> Domain:
    order = np.lexsort((distance, folds))
    return replace(domain, distance_M=distance[order], fold_M=folds[order], weight_M=_shares(labels)[order])


def _among_others(distance: Floats, labels: Rows, rows: Rows, chosen: Rows) -> Floats:
    """`unlike` of the pool's own images, each against the groups it does not belong to."""
    order = chosen[np.argsort(distance[chosen], kind="stable")]
    share = _shares(labels[order])
    below = _weight_below(distance[order], share, distance[rows])
    # Less the share of their own group, where that has several images.
    place = np.argsort(labels[order], kind="stable")
    names, start = np.unique(labels[order][place], return_index=True)
    ends = np.append(start[1:], len(place))
    for group, first, last in zip(names.tolist(), start.tolist(), ends.tolist(), strict=True):
        if last - first > 1:
            own = place[first:last]  # ascending in distance, since the sort is stable
            mine = np.flatnonzero(labels[rows] == group)
            below[mine] -= _weight_below(distance[order[own]], share[own], distance[rows[mine]])
    return np.asarray(below / max(len(names), 1))


def _shares(labels: Rows) -> Floats:
    """1 / images of the same group, shape as the labels."""
    _, place, count = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / count[place.reshape(-1)])


def _weight_below(ascending: Floats, weight: Floats, values: Floats) -> Floats:
    """How much weight lies strictly below each value."""
    total = np.concatenate([[0.0], np.cumsum(weight)])
    return np.asarray(total[np.searchsorted(ascending, values, side="left")])
