"""What the convex head minimises: value, gradient and Hessian, Newton's way down, λ by the evidence.

Parameters are [w (D), b (if there are grades), τ (if ties are an outcome)]; `convex.py` has the formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from steelyard.arrays import Floats, Pairs
from steelyard.errors import RankerError
from steelyard.ranker.judges import Judging
from steelyard.ranker.likelihood import curvature, loads, log_likelihood, sigmoid, slope
from steelyard.ranker.temper import Sharing, design_effect, tau_prior, without_images

__all__ = ["ConvexObjective", "Ties"]

Ties = Literal["half", "rao_kupper"]

# λ is looked for where the prior deviation of a typical difference, √(mean |z|²/λ), lies between these.
_SPREADS = (0.05, 50.0)
_DEFAULT_SPREAD = 1.0  # before the first answer; colitis and retinopathy images settle near it


class Started(Protocol):
    """An earlier optimum."""

    @property
    def weights(self) -> Floats:
        """w."""

    @property
    def bias(self) -> float:
        """b."""

    @property
    def tau(self) -> float:
        """τ."""


@dataclass(frozen=True)
class ConvexObjective:
    """The objective of one fit. Parameters are [w (D), b (if grades), τ (if Rao–Kupper)].

    With image effects w is followed by them, and the size counts both: `own` holds the columns of z that are theirs, sparse,
    because a row compares two images.
    """

    z: Floats
    answers: Floats
    share: Floats
    phi: Floats
    grades: Floats
    grade_weight: float
    ties: Ties
    size: int
    judging: Judging | None = None
    own: Any = None

    def with_effects(self, pairs: Pairs, images: int, spread: float) -> ConvexObjective:
        """The same with an effect of its own for each of M compared images, u = spread · v with v ~ N(0, 1/λ) as the weights.

        Args:
            pairs: numbers of the compared images, below M, of each answer, shape (n, 2).
            images: M.
            spread: deviation of an effect beside that of a weight, above 0.
        """
        from scipy import sparse

        n = len(pairs)
        signs = np.concatenate([np.full(n, spread), np.full(n, -spread)])
        own = sparse.coo_array(
            (signs, (np.tile(np.arange(n), 2), pairs.T.reshape(-1))), shape=(n, images)
        ).tocsr()
        return replace(self, size=self.size + images, own=own)

    def effects_score(self, at: Floats, precision: float, pairs: Pairs, images: int) -> float:
        """Rao's score for image effects, in deviations: the slope of the evidence in their variance at 0, before any is fitted.

        With a what the answers pull at each image and A the curvature that the weights leave there, the slope is
        (aᵀa − tr A) / 2 and its variance tr A² / 2: with effects the pulls are larger than chance makes them.
        """
        at, hessian = self.climb(at, precision, tolerance=1e-4)
        gap, tau = self._gaps(at[: self.size]), self._tau(at)
        own = self.with_effects(pairs, images, 1.0).own
        bends = self.share * self._bends(gap, tau)
        pulled, bent = own.T @ (self.share * self._pulls(gap, tau)), own.T @ (bends[:, None] * self.z)
        factor = linalg.cholesky(hessian[: self.size, : self.size], lower=True)
        known = linalg.solve_triangular(factor, bent.T, lower=True)
        left = (own.T @ own.multiply(bends[:, None])).toarray() - known.T @ known
        return float((pulled @ pulled - np.trace(left)) / np.sqrt(2 * np.sum(left * left)))

    def start(self, head: Started | None) -> Floats:
        bias = [float(self.grades.mean())] if len(self.grades) else []
        tau = [0.5] if self.ties == "rao_kupper" else []
        if head is None or len(head.weights) != self.size:
            return np.array([*np.zeros(self.size), *bias, *tau])
        return np.array(
            [*head.weights, *([head.bias] if bias else []), *([max(head.tau, 1e-3)] if tau else [])]
        )

    def _tau(self, at: Floats) -> float:
        return float(at[-1]) if self.ties == "rao_kupper" else 0.0

    def value(self, at: Floats, precision: float) -> float:
        """Negative log posterior, up to constants of the prior."""
        w, tau = at[: self.size], self._tau(at)
        if self.ties == "rao_kupper" and not tau > 0:
            return np.inf
        total = precision / 2 * w @ w - self.share @ self._log_likelihood(self._gaps(w), tau)
        if len(self.grades):
            total += self.grade_weight * np.sum(np.square(self.phi @ w + at[self.size] - self.grades))
        if self.ties == "rao_kupper":
            total -= tau_prior(tau)[0]
        return float(total)

    def derivatives(self, at: Floats, precision: float, *, lapses: bool = False) -> tuple[Floats, Floats]:
        """Gradient and Hessian of `value`.

        Where judges lapse the value is not convex. The Hessian is then that of its convex bound, in which every answer counts
        as far as its judge is likely to have looked: Newton's steps cannot go astray (it is the EM algorithm's M-step). With
        `lapses` the part of the weights is the value's own, less where an answer may be a lapse.
        """
        d, w, tau = self.size, at[: self.size], self._tau(at)
        gap = self._gaps(w)
        gradient, hessian = np.zeros(len(at)), np.zeros((len(at), len(at)))
        gradient[:d] = precision * w - self._gathered(self.share * self._pulls(gap, tau))
        self._curve(hessian, self.share * self._bends(gap, tau, lapses=lapses))
        hessian[np.arange(d), np.arange(d)] += precision
        if len(self.grades):
            twice = 2 * self.grade_weight
            design = np.column_stack([self.phi, np.ones(len(self.phi))])
            gradient[: d + 1] += twice * design.T @ (design @ at[: d + 1] - self.grades)
            hessian[: d + 1, : d + 1] += twice * design.T @ design
        if self.ties == "rao_kupper":
            a, b = loads(self.answers, tau)
            one = np.ones(len(gap))
            seen, own, width, steep, share = gap, tau * one, one, one, self.share
            if (judging := self.judging) is not None:
                seen, own = judging.slope * gap + judging.pull, judging.tie * tau
                width, steep = judging.tie, judging.slope
                share = share * judging.attention(gap, self.answers, tau)
            up, down = sigmoid(own - seen), sigmoid(own + seen)
            tied = share * (self.answers == 0.5)
            barrier = np.expm1(2 * own)
            _, prior_slope, prior_bend = tau_prior(tau)
            gradient[-1] = (
                share @ (width * (a * up + b * down))
                - np.sum(tied * width * 2 * (1 + 1 / barrier))
                - prior_slope
            )
            bell_up, bell_down = up * (1 - up), down * (1 - down)
            hessian[-1, -1] = (
                share @ (width**2 * (a * bell_up + b * bell_down))
                + np.sum(tied * width**2 * 4 * (1 + 1 / barrier) / barrier)
                - prior_bend
            )
            hessian[-1, :d] = hessian[:d, -1] = -self._gathered(
                share * width * steep * (a * bell_up - b * bell_down)
            )
        return gradient, hessian

    def _gaps(self, w: Floats) -> Floats:
        if self.own is None:
            return np.asarray(self.z @ w)
        wide = self.z.shape[1]
        return np.asarray(self.z @ w[:wide] + self.own @ w[wide:])

    def _gathered(self, pulls: Floats) -> Floats:
        """Zᵀ pulls."""
        if self.own is None:
            return np.asarray(self.z.T @ pulls)
        return np.concatenate([self.z.T @ pulls, self.own.T @ pulls])

    def _curve(self, hessian: Floats, bends: Floats) -> None:
        """Put Zᵀ diag(bends) Z into a Hessian of zeros."""
        wide = self.z.shape[1]
        root = self.z * np.sqrt(bends)[:, None]
        hessian[:wide, :wide] = root.T @ root
        if self.own is not None:
            bent = self.own.multiply(bends[:, None]).tocsr()
            hessian[wide : self.size, :wide] = bent.T @ self.z
            hessian[:wide, wide : self.size] = hessian[wide : self.size, :wide].T
            both = (self.own.T @ bent).tocoo()
            hessian[wide + both.row, wide + both.col] = both.data

    def _log_likelihood(self, gap: Floats, tau: float) -> Floats:
        if self.judging is None:
            return log_likelihood(gap, self.answers, tau)
        return self.judging.log_likelihood(gap, self.answers, tau)

    def _pulls(self, gap: Floats, tau: float) -> Floats:
        if self.judging is None:
            return slope(gap, self.answers, tau)
        return self.judging.pulls(gap, self.answers, tau)

    def _bends(self, gap: Floats, tau: float, *, lapses: bool = True) -> Floats:
        if self.judging is None:
            return curvature(gap, self.answers, tau)
        if lapses:
            return self.judging.bends(gap, self.answers, tau)
        seen = self.judging.slope * gap + self.judging.pull
        looked = self.judging.attention(gap, self.answers, tau)
        own = curvature(seen, self.answers, self.judging.tie * tau)
        return np.asarray(self.judging.slope**2 * looked * own)

    def heard(self, mean: Floats, variance: Floats, chosen: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Differences as the judges of some answers see them."""
        if (judging := self.judging) is None:
            return mean, variance
        steep = judging.slope[chosen]
        return steep * mean + judging.pull[chosen], steep**2 * variance

    def climb(self, at: Floats, precision: float, tolerance: float) -> tuple[Floats, Floats]:
        """Newton with backtracking until the gradient vanishes, relative to the number of answers: optimum and Hessian."""
        # Slopes grow with the length of the rows.
        length = float(np.sqrt(np.mean(np.square(self.z)) * self.z.shape[1])) if self.z.any() else 1.0
        small = (
            tolerance * length * (1.0 + float(self.share.sum()) + 2 * self.grade_weight * len(self.grades))
        )
        value = self.value(at, precision)
        for _ in range(200):
            gradient, hessian = self.derivatives(at, precision)
            if np.max(np.abs(gradient)) <= small:
                return at, hessian
            step = -linalg.cho_solve(linalg.cho_factor(hessian, lower=True), gradient)
            # Near the optimum a step changes the value by less than its rounding error: it must not be halved for that.
            size, allowed = 1.0, value + 1e-12 * (1.0 + abs(value))
            promised = float(gradient @ step)
            while (new := self.value(at + size * step, precision)) > allowed + 1e-4 * size * promised:
                size /= 2
            at, value = at + size * step, new
        raise RankerError(
            "the convex head did not reach its optimum in 200 Newton steps; are the features finite?"
        )

    def evidence(self, at: Floats, hessian: Floats, precision: float) -> tuple[Floats, float]:
        """Cholesky factor of the Hessian without τ, and Laplace's log marginal likelihood."""
        keep = self.size + (1 if len(self.grades) else 0)
        factor = linalg.cholesky(hessian[:keep, :keep], lower=True)
        value = -self.value(at, precision) + self.size / 2 * np.log(precision) - np.log(np.diag(factor)).sum()
        if len(self.grades):  # the normalising constants of the Gaussian noise and of b, whose prior is flat
            value += len(self.grades) / 2 * np.log(self.grade_weight / np.pi) + np.log(2 * np.pi) / 2
        return factor, float(value)

    def without_images(self, at: Floats, covariance: Floats, sharing: Sharing) -> tuple[Floats, Floats]:
        """Differences of answered pairs – mean and variance – had nothing been said about either image."""
        gap, tau = self._gaps(at[: self.size]), self._tau(at)
        pulls, bends = self.share * self._pulls(gap, tau), self.share * self._bends(gap, tau)
        shift, variance = without_images(
            self.z, sharing, covariance, pulls, bends, None if self.own is None else self._among(covariance)
        )
        return gap[sharing.chosen] - shift, variance

    def _among(self, covariance: Floats) -> Callable[[NDArray[np.int64]], Floats]:
        """Covariances of the differences of some answers, (c, k) → (c, k, k), with what effects add to those of features."""
        wide, spread = self.z.shape[1], float(np.max(self.own.data, initial=0.0))
        turned, ends = self.z @ covariance[:wide, :wide], self.own.indices.reshape(-1, 2)
        # Rows are sorted by column: which end is the first image is in the signs.
        sign = np.sign(self.own.data.reshape(-1, 2)[:, 0])
        first, second = np.where(sign > 0, ends[:, 0], ends[:, 1]), np.where(sign > 0, ends[:, 1], ends[:, 0])
        own, cross = spread**2 * covariance[wide:, wide:], spread * covariance[wide:, :wide]

        def among(rows: NDArray[np.int64]) -> Floats:
            z, i, j = self.z[rows], first[rows], second[rows]
            found = turned[rows] @ z.transpose(0, 2, 1)
            mixed = z @ (cross[i] - cross[j]).transpose(0, 2, 1)
            a, b, c, d = i[:, :, None], j[:, :, None], i[:, None, :], j[:, None, :]
            found += mixed + mixed.transpose(0, 2, 1)
            return np.asarray(found + own[a, c] - own[a, d] - own[b, c] + own[b, d], dtype=np.float64)

        return among

    def design_effect(self, at: Floats, precision: float, sharing: Sharing) -> float:
        """How many of these answers tell as much as one independent one."""
        at, hessian = self.climb(at, precision, tolerance=1e-4)
        keep = self.size + (1 if len(self.grades) else 0)
        factor = linalg.cholesky(hessian[:keep, :keep], lower=True)
        root = linalg.solve_triangular(factor, np.eye(keep), lower=True)[:, : self.size]  # Σ = rootᵀ root
        mean, variance = self.heard(*self.without_images(at, root.T @ root, sharing), sharing.chosen)
        errors, said = self.z[sharing.chosen] @ root.T, self.answers[sharing.chosen]
        return design_effect(sharing, said, mean, variance, self._tau(at), errors)

    def best_precision(
        self, at: Floats, near: float | None, tolerance: float = 0.02
    ) -> tuple[float, Floats, float]:
        """λ with the highest evidence – its logarithm as exact as the tolerance –, the optimum close to it, and the evidence."""
        length = float(np.mean(np.sum(np.square(self.z), axis=1))) if len(self.z) else 0.0
        if length == 0.0:  # no answers, or none that tells two images apart: nothing to weigh the prior with
            length = length or 2.0
            return length / _DEFAULT_SPREAD**2, at, -np.inf
        low, high = (float(np.log(length / s**2)) for s in _SPREADS[::-1])
        if near is not None:
            low, high = max(low, np.log(near) - 2.0), min(high, np.log(near) + 2.0)
        memory = {"at": at}

        def loss(log_precision: float) -> float:
            precision = float(np.exp(log_precision))
            # The evidence is flat around the optimum: an error in w enters squared.
            memory["at"], hessian = self.climb(memory["at"], precision, tolerance=1e-4)
            return -self.evidence(memory["at"], hessian, precision)[1]

        found = optimize.minimize_scalar(
            loss, bounds=(low, high), method="bounded", options={"xatol": tolerance}
        )
        return float(np.exp(found.x)), memory["at"], -float(found.fun)
