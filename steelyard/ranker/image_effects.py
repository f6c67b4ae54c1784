"""What images have of their own: the part of a score that answers tell and features do not.

    f_i = φ_i·w + u_i,    u_i ~ N(0, σ²) independently,

so that many answers about an image can overrule its features, while an image that nobody was asked about keeps u = 0 ± σ. Here is
the Gaussian of (w, u) after the answers; the head finds it (`convex.py`) and a posterior carries it (`posterior.py`). numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Pairs, Rows

__all__ = ["ImageEffects"]


@dataclass(frozen=True)
class ImageEffects:
    """Effects of M of N images, jointly Gaussian with the D weights.

    Attributes:
        place_N: which effect an image has, −1 where nothing was said about it, shape (N,).
        mean_M: of the effects.
        cross_M_D: their covariance with the weights.
        own_M_M: their covariance with each other.
        deviation: σ, of an image that nothing was said about.
    """

    place_N: NDArray[np.int64]
    mean_M: Floats
    cross_M_D: Floats
    own_M_M: Floats
    deviation: float

    @classmethod
    def of_strangers(cls, images: int, width: int, deviation: float) -> ImageEffects:
        """Of images that nothing was said about."""
        none = np.full(images, -1, dtype=np.int64)
        return cls(none, np.zeros(0), np.zeros((0, width)), np.zeros((0, 0)), deviation)

    @property
    def offset_N(self) -> Floats:
        """Expected effects of all images, shape (N,)."""
        return self._spread(self.mean_M)

    def rows(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> ImageEffects:
        """Of some of the images, in the order given."""
        return replace(self, place_N=self.place_N[index])

    def of_images(self, images: Rows) -> ImageEffects:
        """Of some images by their number; those that have joined since are strangers."""
        index = np.asarray(images, dtype=np.int64)
        there = index < len(self.place_N)
        place = np.full(len(index), -1, dtype=np.int64)
        place[there] = self.place_N[index[there]]
        return replace(self, place_N=place)

    def with_strangers(self, more: int) -> ImageEffects:
        """The same, with further images at the end that nothing was said about."""
        return replace(self, place_N=np.append(self.place_N, np.full(more, -1, dtype=np.int64)))

    def variance(self, rows: Rows) -> tuple[Floats, Floats]:
        """Covariance with the weights, shape (n, D), and variance, shape (n,), of the effects of some images."""
        at = self.place_N[rows]
        known = at >= 0
        cross, own = np.zeros((len(at), self.cross_M_D.shape[1])), np.full(len(at), self.deviation**2)
        cross[known] = self.cross_M_D[at[known]]
        own[known] = self.own_M_M[at[known], at[known]]
        return cross, own

    def added_variance(self, features_N_D: NDArray[np.floating]) -> Floats:
        """How much more variance the scores of all images have than those of their features alone, shape (N,)."""
        known = np.flatnonzero(self.place_N >= 0)
        cross, own = self.variance(known)
        added = np.full(len(self.place_N), self.deviation**2)
        added[known] = own + 2 * np.einsum("nd,nd->n", np.asarray(features_N_D[known], dtype=float), cross)
        return added

    def difference(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Covariance of u_i − u_j with the weights, shape (n, D), and its variance, shape (n,)."""
        i, j = pairs.T
        (first, own), (second, other) = self.variance(i), self.variance(j)
        a, b = self.place_N[i], self.place_N[j]
        both = (a >= 0) & (b >= 0)
        shared = np.zeros(len(pairs))
        shared[both] = self.own_M_M[a[both], b[both]]
        apart = np.where(i == j, 0.0, own + other - 2 * shared)
        return first - second, np.asarray(apart, dtype=np.float64)

    def added_to_differences(self, z_n_D: Floats, pairs: Pairs) -> Floats:
        """How much more variance f_i − f_j has than that of the features alone, shape (n,)."""
        cross, own = self.difference(pairs)
        return np.asarray(own + 2 * np.einsum("nd,nd->n", z_n_D, cross), dtype=np.float64)

    def covariance(self, features: Floats, rows: Rows) -> Floats:
        """What effects add to the covariance of the scores of some images, shape (k, k)."""
        cross, own = self.variance(rows)
        added = features @ cross.T
        added += added.T
        at = self.place_N[rows]
        known = np.flatnonzero(at >= 0)
        mutual = (np.asarray(rows)[:, None] == np.asarray(rows)) * own[:, None]
        mutual[np.ix_(known, known)] = self.own_M_M[np.ix_(at[known], at[known])]
        return np.asarray(added + mutual, dtype=np.float64)

    def after(
        self, pair: NDArray[np.int64], z: Floats, gain_D: Floats, step: float, shrink: float
    ) -> tuple[ImageEffects, Floats]:
        """The effects after an answer: they move along their covariance with f_i − f_j and lose `shrink` times its square.

        Args:
            pair: (i, j).
            z: φ_i − φ_j, shape (D,).
            gain_D: covariance of the weights with f_i − f_j.
            step: how far along.
            shrink: below 0 where an answer is taken back.

        Returns:
            The effects, and how much every image's offset grows, shape (N,).
        """
        both = self._knowing(pair)
        first, second = both.place_N[pair]
        reach = both.cross_M_D @ z + both.own_M_M[first] - both.own_M_M[second]
        moved = ImageEffects(
            both.place_N,
            both.mean_M + step * reach,
            both.cross_M_D - shrink * np.outer(reach, gain_D),
            both.own_M_M - shrink * np.outer(reach, reach),
            self.deviation,
        )
        return moved, both._spread(step * reach)

    def joint(self, covariance_D_D: Floats) -> Floats:
        """Covariance of weights and effects together, shape (D + M, D + M)."""
        return np.block([[covariance_D_D, self.cross_M_D.T], [self.cross_M_D, self.own_M_M]])

    def drawn(self, noise_n_M: Floats, rng: np.random.Generator) -> Floats:
        """Deviations of all images' effects from their means, shape (n, N); those of strangers are drawn here."""
        found = self.deviation * rng.standard_normal((len(noise_n_M), len(self.place_N)))
        known = self.place_N >= 0
        found[:, known] = noise_n_M[:, self.place_N[known]]
        return np.asarray(found, dtype=np.float64)

    def _knowing(self, pair: NDArray[np.int64]) -> ImageEffects:
        """The same, with effects for both images of a pair."""
        new = [image for image in dict.fromkeys(pair.tolist()) if self.place_N[image] < 0]
        if not new:
            return self
        place, m = self.place_N.copy(), len(self.mean_M)
        place[new] = m + np.arange(len(new))
        own = np.zeros((m + len(new),) * 2)
        own[:m, :m] = self.own_M_M
        own[np.arange(m, len(own)), np.arange(m, len(own))] = self.deviation**2
        cross = np.vstack([self.cross_M_D, np.zeros((len(new), self.cross_M_D.shape[1]))])
        return ImageEffects(place, np.append(self.mean_M, np.zeros(len(new))), cross, own, self.deviation)

    def _spread(self, values_M: Floats) -> Floats:
        found = np.zeros(len(self.place_N))
        known = self.place_N >= 0
        found[known] = values_M[self.place_N[known]]
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as named arrays."""
        return {
            "effects.place": self.place_N, "effects.mean": self.mean_M, "effects.cross": self.cross_M_D,
            "effects.own": self.own_M_M, "effects.deviation": np.array([self.deviation]),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> ImageEffects | None:
        """What `to_arrays` gave, among other arrays; None where it is not among them."""
        if "effects.place" not in arrays:
            return None
        mean, cross, own = (
            np.asarray(arrays[f"effects.{k}"], dtype=np.float64) for k in ("mean", "cross", "own")
        )
        place = np.asarray(arrays["effects.place"], dtype=np.int64)
        return cls(place, mean, cross, own, float(arrays["effects.deviation"][0]))
