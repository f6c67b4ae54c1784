"""The convex head: Bayesian logistic regression on differences of features. numpy and scipy only.

    minimise  −Σ_n s_n log P(c_n | wᵀz_n) + λ/2 ‖w‖²  (+ Σ_i (wᵀφ_i + b − A_i)² over graded images, P6)

with z = φ_i − φ_j and the likelihoods of `likelihood.py`. One optimum, found by Newton's method to rounding error; λ is
where the marginal likelihood (Laplace's approximation) is highest with every answer for itself; then all answers count s_n
times the same share, because those about one image are not independent (`temper.py`); the Hessian's inverse is the posterior
covariance, for free. The same input always gives the same head. Where it is known who answered, each answer has the likelihood of
its judge (`judges.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.blocks import gather
from steelyard.ranker.convex_objective import ConvexObjective, Ties
from steelyard.ranker.judges import Judging
from steelyard.ranker.likelihood import check_answers
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Kernel, Reduction
from steelyard.ranker.temper import Sharing, Temper, fit_temper

__all__ = ["ConvexHead", "Ties"]


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
        judging: Judging | None = None,
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
            judging: what is known of who gave each answer; None takes all for ordinary judges.

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
        problem = ConvexObjective(
            z=phi[left] - phi[right],
            answers=given,
            share=_check_weights(sample_weight, len(index)),
            phi=phi[position[2 * len(index) :]],
            grades=marks[graded],
            grade_weight=float(grade_weight),
            ties=ties,
            size=reduction.size,
            judging=judging,
        )
        at = problem.start(start)
        share, sharing = 1.0, Sharing.of(index, reduction.size)
        if precision is None:
            precision, at = problem.best_precision(at, None if start is None else start.precision)
            share = 1.0 / problem.design_effect(at, precision, sharing)
            problem = replace(problem, share=share * problem.share)
        elif not (np.isfinite(precision) and precision > 0):
            raise RankerError(f"the prior precision is above 0, not {precision}")
        # With lapses the last digits come slowly, and nobody needs them.
        at, hessian = problem.climb(at, precision, tolerance=1e-9 if judging is None else 1e-6)
        if judging is not None:
            hessian = problem.derivatives(at, precision, lapses=True)[1]
        factor, evidence = problem.evidence(at, hessian, precision)
        inverse = linalg.cho_solve((factor, True), np.eye(len(factor)))
        d = reduction.size
        covariance = (inverse + inverse.T)[:d, :d] / 2
        tau = float(at[-1]) if ties == "rao_kupper" else 0.0
        bias = float(at[d]) if len(graded) else 0.0
        mean, variance = problem.without_images(at, covariance, sharing)
        said = problem.heard(mean, variance, sharing.chosen)
        temper = fit_temper(*said, given[sharing.chosen], tau, ties=ties == "rao_kupper")
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
