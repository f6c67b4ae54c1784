"""A Gaussian with a sparse precision H = Bᵀ diag(h) B + λI, where every row of B compares two images: what a graph of answers knows.

Up to a few hundred images H is inverted. Beyond that it never is: systems are solved by conjugate gradients, and variances
come from draws x = H⁻¹(Bᵀ√h ε + √λ η), of which only the part that the draws have to tell is estimated. Given all others x_i
has the variance 1/H_ii and the mean x_i − (Hx)_i / H_ii, so Var x_i = 1/H_ii + Var(x_i − (Hx)_i / H_ii) (Sidén et al.,
2018); the same with blocks of two gives the variance of a difference.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from steelyard.arrays import Floats, Pairs
from steelyard.errors import RankerError

__all__ = ["SparseGaussian"]

_DENSE = 600  # images up to which the inverse is quicker than draws
_STEPS = (
    2_000  # of conjugate gradients; a chain of answers through all images needs many, an ordinary study fifty
)


class SparseGaussian:
    """Precision of N scores, of which the comparisons tell the differences and a prior the rest.

    Args:
        images: N.
        pairs: rows (i, j), shape (n, 2).
        bend: curvature h of each comparison, shape (n,).
        ridge: λ, the precision of the prior.
    """

    def __init__(self, images: int, pairs: Pairs, bend: Floats, ridge: float) -> None:
        from scipy import sparse

        self.images, self.pairs, self.bend, self.ridge = images, pairs, bend, ridge
        i, j = pairs[:, 0], pairs[:, 1]
        ends = np.bincount(i, bend, minlength=images) + np.bincount(j, bend, minlength=images)
        self.diagonal: Floats = np.asarray(ends + ridge, dtype=np.float64)
        off = sparse.coo_array((-bend, (i, j)), shape=(images, images))
        self.precision: Any = (off + off.T + sparse.diags_array(self.diagonal)).tocsr()

    @cached_property
    def covariance(self) -> Floats:
        """H⁻¹, dense."""
        from scipy.linalg import cho_factor, cho_solve

        factor = cho_factor(self.precision.toarray(), lower=True, check_finite=False)
        return np.asarray(cho_solve(factor, np.eye(self.images), check_finite=False), dtype=np.float64)

    def solve(self, right: Floats, tolerance: float = 1e-10) -> Floats:
        """H⁻¹ right, for one column or several, by conjugate gradients with the diagonal as preconditioner.

        Raises:
            RankerError: it does not converge.
        """
        columns = right.reshape(self.images, -1)
        x = np.zeros_like(columns)
        rest = columns.copy()
        scaled = rest / self.diagonal[:, None]
        along = scaled.copy()
        size = np.einsum("ns,ns->s", rest, scaled)
        enough = tolerance**2 * np.maximum(size, 1e-300)
        for _ in range(_STEPS):
            if (size <= enough).all():
                return x.reshape(right.shape)
            bent = self.precision @ along
            step = size / np.maximum(np.einsum("ns,ns->s", along, bent), 1e-300)
            x += step * along
            rest -= step * bent
            scaled = rest / self.diagonal[:, None]
            before, size = size, np.einsum("ns,ns->s", rest, scaled)
            along = scaled + (size / np.maximum(before, 1e-300)) * along
        raise RankerError(
            f"scores of {self.images:,} images from {len(self.pairs):,} answers do not settle in {_STEPS:,} steps; "
            "the answers hang together by long chains only: ask some random pairs"
        )

    def variances(self, rng: np.random.Generator, draws: int) -> tuple[Floats, Floats]:
        """Variance of every score (N,), and of the difference that each comparison is about (n,).

        Args:
            rng: for draws, where there are too many images for the inverse.
            draws: how many.
        """
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        if self.images <= _DENSE:
            v = self.covariance
            own = np.diagonal(v)
            return own.copy(), own[i] + own[j] - 2 * v[i, j]
        noise = self._noise(rng, draws)
        x = self.solve(noise, tolerance=1e-4)
        own = 1.0 / self.diagonal + np.square(x - noise / self.diagonal[:, None]).mean(axis=1)
        # The block of two that a comparison is about, inverted by hand.
        a, d, b = self.diagonal[i], self.diagonal[j], self._between()
        determinant = a * d - b * b
        told = ((d + b)[:, None] * noise[i] - (a + b)[:, None] * noise[j]) / determinant[:, None]
        apart = (a + d + 2 * b) / determinant + np.square(x[i] - x[j] - told).mean(axis=1)
        return np.asarray(own, dtype=np.float64), np.asarray(apart, dtype=np.float64)

    def _between(self) -> Floats:
        """H_ij of every comparison's two images."""
        low, high = np.sort(self.pairs, axis=1).T
        _, place = np.unique(low * np.int64(self.images) + high, return_inverse=True)
        total = np.bincount(place.reshape(-1), self.bend)
        return np.asarray(-total[place.reshape(-1)], dtype=np.float64)

    def _noise(self, rng: np.random.Generator, draws: int) -> Floats:
        """Draws with the covariance H."""
        from scipy import sparse

        n = len(self.pairs)
        signs = np.concatenate([np.ones(n), -np.ones(n)])
        compare = sparse.coo_array(
            (signs, (self.pairs.T.reshape(-1), np.tile(np.arange(n), 2))), shape=(self.images, n)
        ).tocsr()
        answers = compare @ (np.sqrt(self.bend)[:, None] * rng.standard_normal((n, draws)))
        return np.asarray(
            answers + np.sqrt(self.ridge) * rng.standard_normal((self.images, draws)), dtype=np.float64
        )
