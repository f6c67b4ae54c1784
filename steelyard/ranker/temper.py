"""What answers teach about a fit that was made without them: how much an answer counts, and how far its scale is right.

Laplace's approximation errs in two ways that can be seen in the answers themselves. Its mode lies too close to 0 when answers
are few, so that probabilities are too cautious; and it takes answers about the same image for independent, although what the
features cannot see of an image is in all of them. Both show in predictions made without the images: for each answered pair
every answer about either of its images is taken out, by one Newton step in closed form. numpy; scipy only where it is fitted.

- *The design effect.* With r the standardised residuals of those predictions and ρ their correlation where two answers share
  an image, n answers tell as much as n / (1 + ρ Σ_i d_i (d_i − 1) / n) independent ones, d_i being the answers about image i
  (Kish; Liang and Zeger estimate ρ in the same way). ρ is 0 where the features tell all, and at most ½, since either image of
  a pair has half a share in its answer.
- *The temper.* Differences of scores and their deviations times one number (a network's, times two), and a half-width of ties to go with it, by the
  likelihood of the same predictions. It changes probabilities and no order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Pairs
from steelyard.pairs import unique_pairs
from steelyard.ranker.likelihood import outcomes

__all__ = ["Sharing", "Temper", "design_effect", "fit_temper", "tau_prior", "without_images"]

_MOST = 2_000  # answers predicted; as many settle two numbers
_WORK = 2e9  # multiplications that predicting them may take
# Beyond it new images would gain (up to 2 points where each image was compared a dozen times) what the compared ones lose.
_LIMIT = 2.0
_PIECE = 1 << 22  # numbers held at a time
_GUESS = np.array([0.5, 0.0, 0.5])


@dataclass(frozen=True)
class Temper:
    """How stated probabilities are made from a posterior: Δ ~ N(scale · mean, spread² · variance), ties within ± tau.

    Attributes:
        scale: 1 leaves the differences of the scores as they are.
        tau: half-width of a tie on the scaled differences, 0 where there are none.
        spread: of their deviations; None is the same as the scale.
    """

    scale: float
    tau: float
    spread: float | None = None

    def outcomes(self, mean: ArrayLike, variance: ArrayLike, tie: ArrayLike = 1.0) -> Floats:
        """P(first), P(tie), P(second), shape (n, 3); `tie` times as wide for people who call more, or less, equal."""
        return outcomes(
            self.scale * np.asarray(mean, dtype=np.float64),
            (self.scale if self.spread is None else self.spread) ** 2
            * np.asarray(variance, dtype=np.float64),
            np.asarray(tie, dtype=np.float64) * self.tau,
        )


@dataclass(frozen=True)
class Sharing:
    """Which answers go when a pair is to be predicted without its images.

    Attributes:
        pairs: the images of each answer, shape (n, 2).
        chosen: the answers that are predicted – all, or as many as are affordable, evenly spread –, shape (m,).
        groups: for each of these, every answer that either of its images has a part in.
    """

    pairs: Pairs
    chosen: NDArray[np.int64]
    groups: list[list[int]]

    @classmethod
    def of(cls, pairs: Pairs, width: int) -> Sharing:
        """Find them; predicting costs more with wider features."""
        listed = pairs.tolist()
        answers_of: dict[int, set[int]] = {}
        for n, pair in enumerate(listed):
            for image in pair:
                answers_of.setdefault(image, set()).add(n)
        many = np.array([len(answers_of[i]) + len(answers_of[j]) for i, j in listed], dtype=np.float64)
        work = float(np.mean(many**2 * (many + width))) if len(many) else 1.0
        size = min(int(np.clip(_WORK / work, 50, _MOST)), len(pairs))
        chosen = np.unique(np.linspace(0, len(pairs) - 1, size).astype(np.int64))
        return cls(pairs, chosen, [sorted(answers_of[i] | answers_of[j]) for i, j in pairs[chosen].tolist()])


def without_images(
    z_n_D: Floats,
    sharing: Sharing,
    covariance_D_D: Floats,
    slopes: Floats,
    bends: Floats,
    among: Callable[[NDArray[np.int64]], Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Differences as a fit would have had them without any answer about either image of a pair.

    With Z the rows of those answers, g and h their slopes and curvatures and V = ZΣZᵀ, one Newton step lowers Zw by
    (I − V diag h)⁻¹ V g and makes its covariance (I − V diag h)⁻¹ V.

    Args:
        z_n_D: differences of features, one row for each answer.
        sharing: what goes.
        covariance_D_D: of the weights.
        slopes: ℓ′ of each answer at the mode, times what it counts, shape (n,).
        bends: −ℓ″, likewise.
        among: V of given groups of answers, (c, k) → (c, k, k), where it is more than ZΣZᵀ; the rows then say nothing.

    Returns:
        How much less each chosen answer's difference is than the fit's, and its variance.
    """
    sizes = np.array([len(group) for group in sharing.groups], dtype=np.int64)
    turned = z_n_D @ covariance_D_D if among is None else z_n_D
    shift, variance = np.empty(len(sizes)), np.empty(len(sizes))
    for k in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == k)
        step = max(1, _PIECE // (k * z_n_D.shape[1]))
        for start in range(0, len(same), step):
            part = same[start : start + step]
            rows = np.array([sharing.groups[n] for n in part.tolist()])  # (c, k)
            inner = turned[rows] @ z_n_D[rows].transpose(0, 2, 1) if among is None else among(rows)
            right = np.concatenate([inner @ slopes[rows][:, :, None], inner], axis=2)
            solved = np.linalg.solve(np.eye(k) - inner * bends[rows][:, None, :], right)
            own = (rows == sharing.chosen[part][:, None]).argmax(axis=1)
            at = np.arange(len(part))
            shift[part], variance[part] = solved[at, own, 0], solved[at, own, 1 + own]
    return shift, np.maximum(variance, 0.0)


def design_effect(
    sharing: Sharing, answers: Floats, mean: Floats, variance: Floats, tau: float, errors_m_D: Floats
) -> float:
    """How many answers tell as much as one independent one, 1 or more.

    Args:
        sharing: which answers were predicted without their images.
        answers: P1 of those, shape (m,).
        mean: their predicted differences, shape (m,).
        variance: of these.
        tau: half-width of a tie.
        errors_m_D: rows whose products are, up to a factor for each, the covariances of the predicted differences: what is
            not known of the weights makes residuals alike too, and the posterior has counted that already.
    """
    if not len(answers):
        return 1.0
    p = outcomes(mean, variance, tau)
    expected = p[:, 0] + p[:, 1] / 2
    spread = np.maximum(p[:, 0] + p[:, 1] / 4 - expected**2, 1e-3)
    r = (answers - expected) / np.sqrt(spread)
    some, size = sharing.pairs[sharing.chosen], int(sharing.pairs.max()) + 1
    counts = np.bincount(some.ravel(), minlength=size)
    # Two answers about one pair share both images: they count in both, and are twice as alike.
    asked = unique_pairs(np.sort(some, axis=1)).times
    alike = float(np.sum(counts * (counts - 1)) + 2 * np.sum(asked * (asked - 1)))
    if alike == 0 or not r.any():
        return 1.0
    # The noise of an answer is logistic, of variance π²/3; (2/π) asin x ≈ 2x/π turns a correlation of latent differences
    # into one of answers.
    length = np.sqrt(np.maximum(np.sum(errors_m_D**2, axis=1), 1e-12))
    known = errors_m_D * (np.sqrt(variance / (variance + np.pi**2 / 3)) / length)[:, None]
    rho = (_alike(some, r[:, None] / np.sqrt(np.mean(r**2))) - 2 / np.pi * _alike(some, known)) / alike
    every = np.bincount(sharing.pairs.ravel(), minlength=size)
    effect = 1.0 + float(np.clip(rho, 0.0, 0.5)) * float(np.sum(every * (every - 1))) / len(sharing.pairs)
    return min(effect, _LIMIT)


def _alike(pairs: Pairs, rows: Floats) -> float:
    """The sum of the products of rows over answers that share an image, which pulls up where it stands first."""
    pulls = np.zeros((int(pairs.max()) + 1, rows.shape[1]))
    np.add.at(pulls, pairs[:, 0], rows)
    np.subtract.at(pulls, pairs[:, 1], rows)
    return float(np.sum(pulls**2) - 2 * np.sum(rows**2))


def fit_temper(
    mean: Floats,
    variance: Floats,
    answers: Floats,
    tau: float,
    *,
    ties: bool,
    spread: bool = False,
    tie: ArrayLike = 1.0,
    lapse: ArrayLike = 0.0,
) -> Temper:
    """The scale, and with ties as outcomes their half-width, that make given answers most likely.

    A weak prior – log scale ~ N(0, 1), and τ's own – decides where answers do not.

    Args:
        mean: differences predicted without these answers, shape (m,).
        variance: of the differences.
        answers: P1, shape (m,).
        tau: half-width to start from.
        ties: whether a tie is an outcome of its own.
        spread: whether deviations have a factor of their own, as those of a network need: dropout's are in no proportion to
            its errors.
        tie: how many times as wide a difference whoever answered calls equal, shape (m,).
        lapse: how often they answer without looking, shape (m,).
    """
    if not len(answers):
        return Temper(1.0, tau)
    from scipy.optimize import minimize

    slips = np.asarray(lapse, dtype=np.float64)[..., None]
    won, tied = (answers, 0.0 * answers) if not ties else (1.0 * (answers == 1.0), 1.0 * (answers == 0.5))

    def temper(at: Floats) -> Temper:
        numbers = [float(x) for x in np.exp(at)]
        return Temper(numbers[0], numbers[1] if ties else 0.0, numbers[-1] if spread else None)

    def loss(at: Floats) -> float:
        here = temper(at)
        seen = here.outcomes(mean, variance, tie)
        p = np.log(np.maximum(seen + slips * (_GUESS - seen), 1e-12))
        likely = won @ p[:, 0] + tied @ p[:, 1] + (1.0 - won - tied) @ p[:, 2]
        prior = at[0] ** 2 / 2 + (at[-1] ** 2 / 2 if spread else 0.0)
        return float(prior - likely - (tau_prior(here.tau)[0] if ties else 0.0))

    start, bounds = [0.0], [(-4.0, 4.0)]
    if ties:
        start, bounds = [0.0, float(np.log(max(tau, 1e-2)))], [(-4.0, 4.0), (-7.0, 4.0)]
    if spread:
        start, bounds = [*start, 0.0], [*bounds, (-4.0, 4.0)]
    return temper(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x)


def tau_prior(tau: float) -> tuple[float, float, float]:
    """One imagined answer about two equal images, half a tie and half a decision: value, slope, second derivative.

    It keeps τ away from 0 where nobody ever tied and from infinity where everybody did.
    """
    # ½ log P(tie | 0) + ½ log P(win | 0) = ½ log(e^{2τ} − 1) + 3/2 log σ(−τ)
    barrier = np.expm1(2 * tau)
    s = 1.0 / (1.0 + np.exp(-tau))
    value = 0.5 * np.log(barrier) - 1.5 * np.logaddexp(0.0, tau)
    return (
        float(value),
        float((1 + 1 / barrier) - 1.5 * s),
        float(-2 * (1 + 1 / barrier) / barrier - 1.5 * s * (1 - s)),
    )
