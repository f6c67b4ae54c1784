"""The convex head: Bayesian logistic regression on differences of features. numpy and scipy only.

    minimise  −Σ_n s_n log P(c_n | wᵀz_n) + λ/2 ‖w‖²  (+ Σ_i (wᵀφ_i + b − A_i)² over graded images, P6)

with z = φ_i − φ_j and the likelihoods of `likelihood.py`. One optimum, found by Newton's method to rounding error; λ is
where the marginal likelihood (Laplace's approximation) is highest with every answer for itself; then all answers count s_n
times the same share, because those about one image are not independent (`temper.py`); the Hessian's inverse is the posterior
covariance, for free. The same input always gives the same head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.blocks import gather
from steelyard.ranker.likelihood import check_answers, curvature, loads, log_likelihood, sigmoid, slope
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Kernel, Reduction
from steelyard.ranker.temper import Sharing, Temper, design_effect, fit_temper, tau_prior, without_images

__all__ = ["ConvexHead", "Ties"]

Ties = Literal["half", "rao_kupper"]

# λ is looked for where the prior deviation of a typical difference, √(mean |z|²/λ), lies between these.
_SPREADS = (0.05, 50.0)
_DEFAULT_SPREAD = 1.0  # before the first answer; colitis and retinopathy images settle near it


@dataclass(frozen=True)
class ConvexHead:
    """A fitted head.

    Attributes:
        reduction: raw features → the D features that the weights belong to.
        weights: mode of the weights, shape (D,).
        covariance: of the weights, shape (D, D).
        precision: λ of the prior.
        log_evidence: log marginal likelihood at λ (Laplace).
        tau: half-width of a tie (Rao–Kupper), 0 for half ties.
        bias: b of the grades (P6), 0 without grades.
        share: what one answer counts, 1 / the design effect of answers that share images.
        temper: how probabilities are made from the scores; None in heads of earlier versions.
    """

    reduction: Reduction
    weights: Floats
    covariance: Floats
    precision: float
    log_evidence: float
    tau: float = 0.0
    bias: float = 0.0
    share: float = 1.0
    temper: Temper | None = None

    @classmethod
    def fit(
        cls,
        features_N_F: NDArray[np.floating],
        pairs: ArrayLike,
        answers: ArrayLike,
        *,
        reduction: Reduction | None = None,
        rows: NDArray[np.floating] | None = None,
        components: int = 128,
        whitening: float = 0.0,
        kernel: Kernel = "none",
        ties: Ties = "half",
        precision: float | None = None,
        sample_weight: ArrayLike | None = None,
        grades: ArrayLike | None = None,
        grade_weight: float = 1.0,
        start: ConvexHead | None = None,
    ) -> ConvexHead:
        """Fit on answered pairs.

        Args:
            features_N_F: raw features of all images, shape (N, F); those never compared help the reduction.
            pairs: rows (i, j), shape (n, 2); n may be 0, then the head is the prior.
            answers: P1, shape (n,).
            reduction: a map fitted before (the following three settings are then its own).
            rows: `reduction.transform(features_N_F)`, if the caller has it – it need not be computed again.
            components: principal axes kept.
            whitening: 0 … 1, how far the principal components are brought to equal variance.
            kernel: `none` or `rbf`.
            ties: a tie as half a win and half a loss (P3) or as an outcome of its own, with learnt τ.
            precision: λ; None takes the most likely, and lets answers count less where they share images.
            sample_weight: how much each answer counts, shape (n,).
            grades: absolute labels A, shape (N,), NaN where unknown: learns them as well (P6), each image once.
            grade_weight: weight of the squared errors against the comparisons.
            start: an earlier head of the same reduction to start from; saves time, not needed for the result.

        Raises:
            RankerError: shapes do not fit, an answer is no answer, or a feature is not finite.
        """
        if reduction is None:
            reduction = Reduction.fit(features_N_F, components=components, whitening=whitening, kernel=kernel)
            rows = None
        index = check_pairs(pairs, len(features_N_F), error=RankerError)
        given = check_answers(answers, ties=ties == "rao_kupper")
        if len(index) != len(given):
            raise RankerError(f"{len(index)} pairs have {len(given)} answers; give one for each")
        marks = _check_grades(grades, len(features_N_F))
        graded = np.flatnonzero(np.isfinite(marks))
        needed, position = np.unique(np.concatenate([index.ravel(), graded]), return_inverse=True)
        phi = np.asarray(
            gather(rows, needed) if rows is not None else reduction.transform(gather(features_N_F, needed)),
            dtype=np.float64,
        )
        left, right = position[: 2 * len(index)].reshape(-1, 2).T
        problem = _Problem(
            z=phi[left] - phi[right],
            answers=given,
            share=_check_weights(sample_weight, len(index)),
            phi=phi[position[2 * len(index) :]],
            grades=marks[graded],
            grade_weight=float(grade_weight),
            ties=ties,
            size=reduction.size,
        )
        at = problem.start(start)
        share, sharing = 1.0, Sharing.of(index, reduction.size)
        if precision is None:
            precision, at = problem.best_precision(at, None if start is None else start.precision)
            share = 1.0 / problem.design_effect(at, precision, sharing)
            problem = replace(problem, share=share * problem.share)
        elif not (np.isfinite(precision) and precision > 0):
            raise RankerError(f"the prior precision is above 0, not {precision}")
        at, hessian = problem.climb(at, precision, tolerance=1e-9)
        factor, evidence = problem.evidence(at, hessian, precision)
        inverse = linalg.cho_solve((factor, True), np.eye(len(factor)))
        d = reduction.size
        covariance = (inverse + inverse.T)[:d, :d] / 2
        tau = float(at[-1]) if ties == "rao_kupper" else 0.0
        bias = float(at[d]) if len(graded) else 0.0
        mean, variance = problem.without_images(at, covariance, sharing)
        temper = fit_temper(mean, variance, given[sharing.chosen], tau, ties=ties == "rao_kupper")
        return cls(reduction, at[:d], covariance, float(precision), evidence, tau, bias, share, temper)

    def transform(self, features_N_F: ArrayLike) -> NDArray[np.float32]:
        """Reduced features, shape (N, D)."""
        return self.reduction.transform(features_N_F)

    def posterior(
        self, features_N_F: NDArray[np.floating] | None = None, *, rows: NDArray[np.floating] | None = None
    ) -> Posterior:
        """The posterior of the scores of any images, from raw features or from reduced rows.

        Raises:
            RankerError: neither was given.
        """
        if rows is None:
            if features_N_F is None:
                raise RankerError("a posterior needs images: give features, or rows that were reduced before")
            rows = self.transform(features_N_F)
        return Posterior(
            self.bias, rows, self.weights, self.covariance, "laplace", self.tau, self.share, self.temper
        )

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Everything, as named arrays that safetensors can hold; writing them is the caller's."""
        numbers = [self.precision, self.log_evidence, self.tau, self.bias]
        if self.temper is not None:
            numbers += [self.share, self.temper.scale, self.temper.tau]
        own = {"weights": self.weights, "covariance": self.covariance, "numbers": np.array(numbers)}
        own |= {f"reduction.{name}": value for name, value in self.reduction.to_arrays().items()}
        # safetensors writes the memory of an array without asking for its order.
        return {name: np.ascontiguousarray(value) for name, value in own.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> ConvexHead:
        """What `to_arrays` gave.

        Raises:
            RankerError: an array is missing.
        """
        try:
            inner = {k.removeprefix("reduction."): v for k, v in arrays.items() if k.startswith("reduction.")}
            precision, evidence, tau, bias, *later = (float(v) for v in arrays["numbers"])
            share, temper = (later[0], Temper(*later[1:])) if later else (1.0, None)  # 0.1 had neither
            weights, covariance = (np.asarray(arrays[k], dtype=np.float64) for k in ("weights", "covariance"))
            own = Reduction.from_arrays(inner)
            return cls(own, weights, covariance, precision, evidence, tau, bias, share, temper)
        except KeyError as missing:
            raise RankerError(f"the saved head lacks the array {missing}; train it anew") from None


@dataclass(frozen=True)
class _Problem:
    """The objective of one fit. Parameters are [w (D), b (if grades), τ (if Rao–Kupper)]."""

    z: Floats
    answers: Floats
    share: Floats
    phi: Floats
    grades: Floats
    grade_weight: float
    ties: Ties
    size: int

    def start(self, head: ConvexHead | None) -> Floats:
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
        total = precision / 2 * w @ w - self.share @ log_likelihood(self.z @ w, self.answers, tau)
        if len(self.grades):
            total += self.grade_weight * np.sum(np.square(self.phi @ w + at[self.size] - self.grades))
        if self.ties == "rao_kupper":
            total -= tau_prior(tau)[0]
        return float(total)

    def derivatives(self, at: Floats, precision: float) -> tuple[Floats, Floats]:
        """Gradient and Hessian of `value`."""
        d, w, tau = self.size, at[: self.size], self._tau(at)
        gap = self.z @ w
        gradient, hessian = np.zeros(len(at)), np.zeros((len(at), len(at)))
        gradient[:d] = precision * w - self.z.T @ (self.share * slope(gap, self.answers, tau))
        root = self.z * np.sqrt(self.share * curvature(gap, self.answers, tau))[:, None]
        hessian[:d, :d] = root.T @ root
        hessian[np.arange(d), np.arange(d)] += precision
        if len(self.grades):
            twice = 2 * self.grade_weight
            design = np.column_stack([self.phi, np.ones(len(self.phi))])
            gradient[: d + 1] += twice * design.T @ (design @ at[: d + 1] - self.grades)
            hessian[: d + 1, : d + 1] += twice * design.T @ design
        if self.ties == "rao_kupper":
            a, b = loads(self.answers, tau)
            up, down = sigmoid(tau - gap), sigmoid(tau + gap)
            tied = float(self.share @ (self.answers == 0.5))
            barrier = np.expm1(2 * tau)
            _, prior_slope, prior_bend = tau_prior(tau)
            gradient[-1] = self.share @ (a * up + b * down) - tied * 2 * (1 + 1 / barrier) - prior_slope
            bell_up, bell_down = up * (1 - up), down * (1 - down)
            hessian[-1, -1] = (
                self.share @ (a * bell_up + b * bell_down)
                + tied * 4 * (1 + 1 / barrier) / barrier
                - prior_bend
            )
            hessian[-1, :d] = hessian[:d, -1] = -self.z.T @ (self.share * (a * bell_up - b * bell_down))
        return gradient, hessian

    def climb(self, at: Floats, precision: float, tolerance: float) -> tuple[Floats, Floats]:
        """Newton with backtracking until the gradient vanishes, relative to the number of answers: optimum and Hessian."""
        length = (
            float(np.sqrt(np.mean(np.square(self.z)) * self.size)) if self.z.any() else 1.0
        )  # slopes grow with it
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
        gap, tau = self.z @ at[: self.size], self._tau(at)
        pulls = self.share * slope(gap, self.answers, tau)
        bends = self.share * curvature(gap, self.answers, tau)
        shift, variance = without_images(self.z, sharing, covariance, pulls, bends)
        return gap[sharing.chosen] - shift, variance

    def design_effect(self, at: Floats, precision: float, sharing: Sharing) -> float:
        """How many of these answers tell as much as one independent one."""
        at, hessian = self.climb(at, precision, tolerance=1e-4)
        keep = self.size + (1 if len(self.grades) else 0)
        factor = linalg.cholesky(hessian[:keep, :keep], lower=True)
        root = linalg.solve_triangular(factor, np.eye(keep), lower=True)[:, : self.size]  # Σ = rootᵀ root
        mean, variance = self.without_images(at, root.T @ root, sharing)
        errors, said = self.z[sharing.chosen] @ root.T, self.answers[sharing.chosen]
        return design_effect(sharing, said, mean, variance, self._tau(at), errors)

    def best_precision(self, at: Floats, near: float | None) -> tuple[float, Floats]:
        """λ with the highest evidence, and the optimum close to it."""
        length = float(np.mean(np.sum(np.square(self.z), axis=1))) if len(self.z) else 0.0
        if length == 0.0:  # no answers, or none that tells two images apart: nothing to weigh the prior with
            length = length or 2.0
            return length / _DEFAULT_SPREAD**2, at
        low, high = (float(np.log(length / s**2)) for s in _SPREADS[::-1])
        if near is not None:
            low, high = max(low, np.log(near) - 2.0), min(high, np.log(near) + 2.0)
        memory = {"at": at}

        def loss(log_precision: float) -> float:
            precision = float(np.exp(log_precision))
            # The evidence is flat around the optimum: an error in w enters squared.
            memory["at"], hessian = self.climb(memory["at"], precision, tolerance=1e-4)
            return -self.evidence(memory["at"], hessian, precision)[1]

        found = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 0.02})
        return float(np.exp(found.x)), memory["at"]


def _check_weights(weights: ArrayLike | None, n: int) -> Floats:
    if weights is None:
        return np.ones(n)
    share = np.asarray(weights, dtype=np.float64)
    if share.shape != (n,) or not (np.isfinite(share).all() and (share >= 0).all()):
        raise RankerError(f"sample_weight holds one number of 0 or more for each of the {n} pairs")
    return share


def _check_grades(grades: ArrayLike | None, n: int) -> Floats:
    if grades is None:
        return np.full(n, np.nan)
    marks = np.asarray(grades, dtype=np.float64)
    if marks.shape != (n,):
        raise RankerError(
            f"grades hold one number for each of the {n} images (NaN where unknown), not {marks.shape}"
        )
    return marks
