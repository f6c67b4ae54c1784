"""The convex head: Bayesian logistic regression on differences of features. numpy and scipy only.

    minimise  −Σ_n s_n log P(c_n | wᵀz_n) + λ/2 ‖w‖²  (+ Σ_i (wᵀφ_i + b − A_i)² over graded images, P6)

with z = φ_i − φ_j and the likelihoods of `likelihood.py`. One optimum, found by Newton's method to rounding error; λ is
where the marginal likelihood (Laplace's approximation) is highest with every answer for itself; then all answers count s_n
times the same share, because those about one image are not independent (`temper.py`); the Hessian's inverse is the posterior
covariance, for free. The same input always gives the same head. Where it is known who answered, each answer has the likelihood of
its judge (`judges.py`). With image effects Δ is wᵀz + u_i − u_j (`image_effects.py`), and w, u are found together.
"""

from __future__ import annotations

import logging
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.blocks import gather
from steelyard.ranker.convex_objective import ConvexObjective, Ties
from steelyard.ranker.image_effects import ImageEffects
from steelyard.ranker.judges import Judging
from steelyard.ranker.likelihood import check_answers
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Kernel, Reduction
from steelyard.ranker.temper import Sharing, Temper, fit_temper

__all__ = ["ConvexHead", "Ties"]

log = logging.getLogger("steelyard")

# Deviations of an image's own part that are tried, beside that of what its features say (whose mean squared length is 1).
_SPREADS = (0.25, 0.5, 1.0, 2.0)
_CONVINCING = 2.0  # how much more log marginal likelihood a first effect takes: chance alone gives as much in one study of forty
_HINT = 1.0  # deviations of Rao's score below which no spread was ever convincing: spares the search where it would be in vain
_MOST_EFFECTS = 2_000  # compared images; finding the effects costs the cube of it


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
        effects: what the images of the fit have of their own; None where features tell all that the answers do.
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
    effects: ImageEffects | None = None

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
        image_effects: bool = False,
        effect_spread: float | None = None,
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
            image_effects: whether compared images may have a part of their own, where the marginal likelihood favours it.
            effect_spread: deviation of that part in units of 1/√λ; None takes the most likely of a few, 0 among them.

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
        at, free, spread, evidence = problem.start(start), precision is None, 0.0, -np.inf
        if precision is None:
            precision, at, evidence = problem.best_precision(at, None if start is None else start.precision)
        elif not (np.isfinite(precision) and precision > 0):
            raise RankerError(f"the prior precision is above 0, not {precision}")
        if image_effects:
            compared = np.stack([left, right], axis=1).astype(np.int64)
            problem, at, precision, spread = _with_effects(
                problem, at, precision, compared, len(needed), evidence, free, effect_spread
            )
        share, sharing = 1.0, Sharing.of(index, problem.size)
        if free and spread == 0:  # what answers about one image share is otherwise in its effect
            share = 1.0 / problem.design_effect(at, precision, sharing)
            problem = replace(problem, share=share * problem.share)
        # With lapses the last digits come slowly, and nobody needs them.
        at, hessian = problem.climb(at, precision, tolerance=1e-9 if judging is None else 1e-6)
        if judging is not None:
            hessian = problem.derivatives(at, precision, lapses=True)[1]
        factor, evidence = problem.evidence(at, hessian, precision)
        inverse = linalg.cho_solve((factor, True), np.eye(len(factor)))
        d = problem.size
        covariance = (inverse + inverse.T)[:d, :d] / 2
        tau = float(at[-1]) if ties == "rao_kupper" else 0.0
        bias = float(at[d]) if len(graded) else 0.0
        mean, variance = problem.without_images(at, covariance, sharing)
        said = problem.heard(mean, variance, sharing.chosen)
        # τ is that of an ordinary judge: how ready each is to say "equal" must not be counted twice.
        own = (
            {}
            if judging is None
            else {"tie": judging.tie[sharing.chosen], "lapse": judging.lapse[sharing.chosen]}
        )
        temper = fit_temper(
            *said, given[sharing.chosen], tau, ties=ties == "rao_kupper", spread=spread > 0, **own
        )
        d, effects = reduction.size, None
        if spread > 0:
            place = np.full(len(features_N_F), -1, dtype=np.int64)
            place[needed] = np.arange(len(needed))
            own, cross = spread**2 * covariance[d:, d:], spread * covariance[d:, :d]
            effects = ImageEffects(
                place, spread * at[d : problem.size], cross, own, spread / np.sqrt(precision)
            )
            covariance = covariance[:d, :d].copy()
        return cls(
            reduction, at[:d], covariance, float(precision), evidence, tau, bias, share, temper, effects
        )

    def transform(self, features_N_F: ArrayLike) -> NDArray[np.float32]:
        """Reduced features, shape (N, D)."""
        return self.reduction.transform(features_N_F)

    def posterior(
        self,
        features_N_F: NDArray[np.floating] | None = None,
        *,
        rows: NDArray[np.floating] | None = None,
        images: Rows | None = None,
    ) -> Posterior:
        """The posterior of the scores of any images, from raw features or from reduced rows.

        Args:
            features_N_F: raw features of the images.
            rows: reduced ones, in place of the raw.
            images: which images of the fit these are, in their order; None takes them for others, of which only features are known.

        Raises:
            RankerError: neither was given.
        """
        if rows is None:
            if features_N_F is None:
                raise RankerError("a posterior needs images: give features, or rows that were reduced before")
            rows = self.transform(features_N_F)
        own = Posterior(
            self.bias, rows, self.weights, self.covariance, "laplace", self.tau, self.share, self.temper
        )
        if self.effects is None:
            return own
        strangers = ImageEffects.of_strangers(len(rows), len(self.weights), self.effects.deviation)
        return own.with_effects(strangers if images is None else self.effects.of_images(images))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as named arrays that safetensors can hold; writing them is the caller's."""
        numbers = [self.precision, self.log_evidence, self.tau, self.bias]
        if self.temper is not None:
            numbers += [self.share, *(x for x in astuple(self.temper) if x is not None)]
        own = {"weights": self.weights, "covariance": self.covariance, "numbers": np.array(numbers)}
        own |= {f"reduction.{name}": value for name, value in self.reduction.to_arrays().items()}
        if self.effects is not None:
            own |= self.effects.to_arrays()
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
            effects = ImageEffects.from_arrays(arrays)
            return cls(own, weights, covariance, precision, evidence, tau, bias, share, temper, effects)
        except KeyError as missing:
            raise RankerError(f"the saved head lacks the array {missing}; train it anew") from None


def _with_effects(
    problem: ConvexObjective,
    at: Floats,
    precision: float,
    pairs: Pairs,
    images: int,
    evidence: float,
    free: bool,
    spread: float | None,
) -> tuple[ConvexObjective, Floats, float, float]:
    """The objective with effects of the most likely spread, its optimum, λ, and that spread: 0 where there had better be none."""
    if len(problem.grades):
        raise RankerError(
            "image effects and grades (P6) are not learnt together; set ranker.image_effects or ranker.multitask to false"
        )
    if images > _MOST_EFFECTS:
        log.warning(
            "%s images were compared; effects of their own are learnt for up to %s, and features alone are used",
            f"{images:,}", f"{_MOST_EFFECTS:,}",
        )  # fmt: skip
        return problem, at, precision, 0.0
    best = none = problem, at, precision, 0.0
    enough = evidence + _CONVINCING
    if not len(pairs) or spread == 0:
        return best
    if spread is None and problem.effects_score(at, precision, pairs, images) < _HINT:
        return best
    for tried in _SPREADS if spread is None else (spread,):
        before, start, near, _ = best
        wider = problem.with_effects(pairs, images, tried)
        gap = wider.size - before.size
        there = np.concatenate([start[: before.size], np.zeros(gap), start[before.size :]])
        if not free:
            return wider, there, precision, tried
        # Half a tenth of λ is nothing beside what is not known of it, and each try costs the cube of the images.
        scale, there, found = wider.best_precision(there, near, tolerance=0.05 if spread is not None else 0.2)
        if spread is not None or found > evidence:
            best, evidence = (wider, there, scale, tried), found
        elif tried >= _SPREADS[1]:  # it rises to one peak; beyond there is nothing to be found
            break
    return best if spread is not None or evidence >= enough else none


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
