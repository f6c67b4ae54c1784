"""Many raw features → few good ones: standardised, turned to principal axes, optionally through a kernel. No answers.

A reduction is fitted on *all* images of the pool, compared or not: that is where the unlabelled ones teach the convex
head something. It is deterministic (the seed only picks rows of a large pool) and never looks at answers or grades.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from steelyard.arrays import Floats, Rows
from steelyard.errors import RankerError
from steelyard.ranker.blocks import blocks, check_finite, gather

__all__ = ["Kernel", "Reduction"]

Kernel = Literal["none", "rbf"]

_BLOCK = 1 << 18  # numbers a block: 2 MB in float64, small enough to stay near the processor
_ROWS = 4096  # a larger pool is represented by this many of its rows
_LANDMARKS = 256


@dataclass(frozen=True)
class Reduction:
    """A fitted map from F raw features to D reduced ones, with mean squared length 1 over the pool.

    Attributes:
        center_F: mean of each raw feature.
        scale_F: factor of each raw feature, 0 where it is constant.
        basis_F_K: principal axes, each divided by eigenvalue^(whitening/2).
        landmarks_M_K: images that the kernel compares with; M = 0 without a kernel.
        mix_M_D: kernel values → features (Nyström), D = M.
        width: of the kernel, in squared distances.
    """

    center_F: Floats
    scale_F: Floats
    basis_F_K: Floats
    landmarks_M_K: Floats
    mix_M_D: Floats
    width: float = 1.0

    @classmethod
    def fit(
        cls,
        features_N_F: NDArray[np.floating],
        *,
        pool: Rows | None = None,
        components: int = 128,
        whitening: float = 0.0,
        kernel: Kernel = "none",
        seed: int = 0,
    ) -> Reduction:
        """Learn the map from the features of all images.

        Args:
            features_N_F: raw features, shape (N, F); may be a memory map.
            pool: rows to learn from; None is all.
            components: principal axes kept, at most.
            whitening: 0 keeps the variances of the principal components, 1 makes them equal.
            kernel: `rbf` appends a Gaussian kernel (Nyström, median width) to the linear map.
            seed: picks the rows that stand for a pool of more than 4,096.

        Raises:
            RankerError: no rows, a wrong shape, or a feature that is not finite.
        """
        if features_N_F.ndim != 2 or 0 in features_N_F.shape:
            raise RankerError(
                f"features have the shape (images, features) and hold at least one, not {features_N_F.shape}"
            )
        if components < 1:
            raise RankerError(f"components is 1 or more, not {components}")
        rows = np.arange(len(features_N_F)) if pool is None else pool
        n = len(rows)
        if n == 0:
            raise RankerError("there is no image to learn from; a pool holds at least one")
        rng = np.random.default_rng(seed)
        chosen = rows[np.sort(rng.choice(n, _ROWS, replace=False))] if n > _ROWS else rows
        x = np.array(gather(features_N_F, chosen), dtype=np.float64)  # a copy: it is centred in place
        check_finite(x, chosen)
        center = x.mean(axis=0)
        x -= center
        deviation = np.sqrt(np.mean(np.square(x), axis=0))
        # A constant column has rounding noise at most; dividing by it would blow the noise up.
        alive = deviation > 1e-7 * np.maximum(np.abs(center), np.max(deviation, initial=0.0))
        scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=alive)
        x *= scale
        axes, variances = _principal(x, min(components, n, x.shape[1]), rng)
        basis = axes / np.maximum(variances, 1e-12) ** (whitening / 2)
        reduced = x @ basis
        basis = basis / _length(reduced)
        none = cls(center, scale, basis, np.empty((0, basis.shape[1])), np.empty((0, 0)))
        return none if kernel == "none" else none._with_kernel(reduced / _length(reduced), rng)

    @classmethod
    def identity(cls, size: int) -> Reduction:
        """The map that changes nothing: features that are already reduced."""
        return cls(np.zeros(size), np.ones(size), np.eye(size), np.empty((0, size)), np.empty((0, 0)))

    @property
    def size(self) -> int:
        """D, the number of reduced features."""
        return int(self.basis_F_K.shape[1] + self.mix_M_D.shape[1])

    def transform(self, features_N_F: ArrayLike) -> NDArray[np.float32]:
        """Reduced features, shape (N, D), in blocks.

        Raises:
            RankerError: the number of raw features differs from the pool's, or one is not finite.
        """
        rows = features_N_F if isinstance(features_N_F, np.ndarray) else np.asarray(features_N_F)
        if rows.ndim != 2 or rows.shape[1] != len(self.center_F):
            raise RankerError(
                f"the ranker was fitted on {len(self.center_F)} features an image, not on {rows.shape[1:]}"
            )
        reduced = np.empty((len(rows), self.size), dtype=np.float32)
        for part in blocks(rows, _BLOCK):
            block = np.array(rows[part], dtype=np.float64)  # a copy: it is centred in place
            check_finite(block, range(len(rows))[part])
            block -= self.center_F
            block *= self.scale_F
            linear = block @ self.basis_F_K
            out = reduced[part]
            out[:, : linear.shape[1]] = linear
            if len(self.landmarks_M_K):
                out[:, linear.shape[1] :] = self._kernel(linear) @ self.mix_M_D
        return reduced

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Everything, as named arrays."""
        return {
            "center": self.center_F, "scale": self.scale_F, "basis": self.basis_F_K,
            "landmarks": self.landmarks_M_K, "mix": self.mix_M_D, "width": np.array([self.width]),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.float64]]) -> Reduction:
        """What `to_arrays` gave."""
        a = {name: np.asarray(value, dtype=np.float64) for name, value in arrays.items()}
        return cls(a["center"], a["scale"], a["basis"], a["landmarks"], a["mix"], float(a["width"][0]))

    def _with_kernel(self, reduced: Floats, rng: np.random.Generator) -> Reduction:
        landmarks = reduced[np.sort(rng.choice(len(reduced), min(_LANDMARKS, len(reduced)), replace=False))]
        gaps = _squared_distances(landmarks, landmarks)
        width = float(np.median(gaps[np.triu_indices(len(gaps), 1)])) if len(gaps) > 1 else 1.0
        bent = Reduction(
            self.center_F, self.scale_F, self.basis_F_K, landmarks, np.empty((0, 0)), max(width, 1e-12)
        )
        values, vectors = np.linalg.eigh(bent._kernel(landmarks))
        keep = values > 1e-6 * values[-1]
        mix = vectors[:, keep] / np.sqrt(values[keep])
        # Half of the squared length comes from the linear part, half from the kernel.
        length = _length(bent._kernel(reduced) @ mix)
        half = np.sqrt(0.5)
        return Reduction(
            self.center_F,
            self.scale_F,
            self.basis_F_K * half,
            landmarks * half,
            mix * half / length,
            width / 2,
        )

    def _kernel(self, linear: Floats) -> Floats:
        return np.asarray(
            np.exp(-_squared_distances(linear, self.landmarks_M_K) / self.width), dtype=np.float64
        )


def _principal(x: Floats, k: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The k leading principal axes (F, k) and their variances (k,) of centred rows; exact up to a few thousand."""
    n, f = x.shape
    if min(n, f) <= 1500 or k > min(n, f) // 3:
        small = x @ x.T if n <= f else x.T @ x
        m = len(small)
        values, vectors = linalg.eigh(small, subset_by_index=[m - k, m - 1])
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        if n <= f:
            root = np.sqrt(np.maximum(values, 1e-12 * max(values[0], 1e-300)))
            vectors = x.T @ (vectors / root)
    else:
        # Subspace iteration: leading axes to many digits, trailing ones well enough.
        q = np.linalg.qr(rng.standard_normal((f, min(k + 20, f))))[0]
        for _ in range(6):
            q = np.linalg.qr(x.T @ (x @ q))[0]
        near = x @ q
        values, turn = np.linalg.eigh(near.T @ near)
        vectors, values = (q @ turn)[:, ::-1][:, :k], np.maximum(values[::-1][:k], 0.0)
    # Directions without variance carry nothing; a fixed sign makes the result the same everywhere.
    vectors = vectors[:, values > 1e-10 * max(values[0], 1e-300)] if values[0] > 0 else vectors[:, :1]
    values = values[: vectors.shape[1]]
    signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])])
    return vectors * np.where(signs == 0, 1.0, signs), values / n


def _length(rows: Floats) -> float:
    """Root mean squared length of rows, 1 where there is none."""
    length = float(np.sqrt(np.mean(np.sum(np.square(rows), axis=1))))
    return length if length > 0 else 1.0


def _squared_distances(a: Floats, b: Floats) -> Floats:
    gaps = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2.0 * (a @ b.T)
    return np.asarray(np.maximum(gaps, 0.0), dtype=np.float64)
