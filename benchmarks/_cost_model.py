"""What a step costs as a function of size: a constant and so much for each of what it is about, none of them below 0.

    cost = a + Σ b_k · term_k(sizes),    term n, n log₂ n or n² of one of the sizes

Fitted by least squares on relative errors (a second of a minute and a millisecond of a tenth count the same), and checked by
predicting each size from those below it alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

__all__ = ["Check", "CostModel", "Point", "check"]

Sizes = Mapping[str, float]

_SHAPES: dict[str, Callable[[float], float]] = {
    "": lambda n: n,
    " log": lambda n: n * math.log2(max(n, 2.0)),
    "²": lambda n: n * n,
}


@dataclass(frozen=True)
class Point:
    """One measurement.

    Attributes:
        sizes: of what there was how much, by name: `images`, `answers`, `pairs` …
        cost: what it took, above 0.
    """

    sizes: Sizes
    cost: float


@dataclass(frozen=True)
class CostModel:
    """A fitted model.

    Attributes:
        terms: names of sizes, each with its shape behind it: `images`, `images log`, `pairs²`.
        constant: cost of nothing at all.
        slopes: cost of one more of each term.
    """

    terms: tuple[str, ...]
    constant: float
    slopes: tuple[float, ...]

    @classmethod
    def fit(cls, terms: Sequence[str], points: Sequence[Point]) -> CostModel:
        """Least squares on relative errors, coefficients 0 or more.

        Raises:
            ValueError: fewer points than coefficients would fit anything.
        """
        if len(points) < len(terms) + 1:
            raise ValueError(
                f"{len(terms)} terms and a constant take {len(terms) + 1} points or more, not {len(points)}"
            )
        rows = np.array([[1.0, *(_term(name, point.sizes) for name in terms)] for point in points])
        costs = np.array([point.cost for point in points])
        scale = np.maximum(rows.max(axis=0), 1e-300)  # columns of very different size are hard on the solver
        found, _ = nnls(rows / scale / costs[:, None], np.ones(len(points)))
        constant, *slopes = (found / scale).tolist()
        return cls(tuple(terms), constant, tuple(slopes))

    def at(self, sizes: Sizes) -> float:
        """The cost at some size."""
        return self.constant + sum(
            slope * _term(name, sizes) for name, slope in zip(self.terms, self.slopes, strict=True)
        )

    def __str__(self) -> str:
        parts = [f"{self.constant:.3g}"]
        parts += [f"{slope:.3g}·{name}" for name, slope in zip(self.terms, self.slopes, strict=True) if slope]
        return " + ".join(parts)


@dataclass(frozen=True)
class Check:
    """A size that was predicted from smaller ones.

    Attributes:
        point: what was measured.
        predicted: by a model of the smaller sizes alone.
        seen: how many these were.
    """

    point: Point
    predicted: float
    seen: int

    @property
    def ratio(self) -> float:
        """Measured ÷ predicted."""
        return self.point.cost / self.predicted


def check(terms: Sequence[str], points: Sequence[Point], by: str) -> list[Check]:
    """Predict each point from those whose size `by` is smaller; points with too few below them are left out."""
    found = []
    for point in sorted(points, key=lambda one: one.sizes[by]):
        below = [other for other in points if other.sizes[by] < point.sizes[by]]
        if len(below) > len(terms):
            found.append(Check(point, CostModel.fit(terms, below).at(point.sizes), len(below)))
    return found


def _term(name: str, sizes: Sizes) -> float:
    for ending in ("²", " log"):
        if name.endswith(ending):
            return _SHAPES[ending](sizes[name.removesuffix(ending)])
    return sizes[name]
