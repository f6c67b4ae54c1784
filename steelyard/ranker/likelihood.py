"""What an answer says about a difference of scores Δ = f(x_i) − f(x_j): RankNet and Rao–Kupper, numpy only.

    RankNet (τ = 0)      P(i ≻ j) = σ(Δ); a tie is half a win and half a loss (P2, P3)
    Rao–Kupper (τ > 0)   P(i ≻ j) = σ(Δ − τ), P(j ≻ i) = σ(−Δ − τ), tie the rest

The rest is (e^{2τ} − 1) σ(Δ − τ) σ(−Δ − τ), so that log P(tie) is the log of a win plus the log of a loss plus a
constant. Both models are therefore the same two logistic terms with different loads:

    log P(answer) = a · log σ(Δ − τ) + b · log σ(−Δ − τ) + constant,

concave in Δ and in (Δ, τ).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats
from steelyard.errors import RankerError

__all__ = [
    "check_answers",
    "curvature",
    "expected_curvature",
    "log_likelihood",
    "outcomes",
    "sigmoid",
    "slope",
    "step_to_mode",
]

Tau = float | Floats


def check_answers(answers: ArrayLike, *, ties: bool = False) -> Floats:
    """Answers as float64, each in [0, 1] (P1); exactly 0, ½ or 1 where a tie is an outcome of its own.

    Args:
        answers: shape (n,).
        ties: whether a tie is an outcome (Rao–Kupper).

    Raises:
        RankerError: an answer is not finite, out of range, or between the three outcomes.
    """
    values = np.asarray(answers, dtype=np.float64).reshape(-1)
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        raise RankerError(
            f"answer {where} is {values[where]}; an answer is 1 (first more severe), 0.5 (equal) or 0 (P1)"
        )
    if ties and not np.isin(values, (0.0, 0.5, 1.0)).all():
        where = int(np.flatnonzero(~np.isin(values, (0.0, 0.5, 1.0)))[0])
        raise RankerError(
            f"answer {where} is {values[where]}; Rao–Kupper ties know only 1, 0.5 and 0 – use ties='half' for shares"
        )
    return values


def loads(answers: Floats, tau: Tau) -> tuple[Floats, Floats]:
    """How much of a win (a) and of a loss (b) each answer is."""
    if np.any(np.greater(tau, 0)):
        return (answers >= 0.5).astype(np.float64), (answers <= 0.5).astype(np.float64)
    return answers, 1.0 - answers


def sigmoid(x: Floats) -> Floats:
    """σ(x), with all its digits at either end.

    By hand, although SciPy has it: whoever only reads a posterior, as the page does, need not import SciPy for it.
    """
    small = np.exp(-np.abs(x))  # never overflows
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small), dtype=np.float64)


def log_sigmoid(x: Floats) -> Floats:
    """log σ(x) without overflow at either end."""
    return np.asarray(np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))), dtype=np.float64)


def log_likelihood(difference: ArrayLike, answers: ArrayLike, tau: Tau = 0.0) -> Floats:
    """log P(answer | Δ), elementwise (P10; −P3 for one pair when τ = 0).

    Args:
        difference: Δ, shape (n,).
        answers: P1, shape (n,).
        tau: half-width of the tie, 0 for RankNet; one number, or one above 0 for each answer.
    """
    d = np.asarray(difference, dtype=np.float64)
    c = np.asarray(answers, dtype=np.float64)
    a, b = loads(c, tau)
    value = a * log_sigmoid(d - tau) + b * log_sigmoid(-d - tau)
    if np.any(np.greater(tau, 0)):
        value = value + np.where(c == 0.5, np.log(np.expm1(2 * np.asarray(tau))), 0.0)
    return np.asarray(value, dtype=np.float64)


def slope(difference: ArrayLike, answers: ArrayLike, tau: Tau = 0.0) -> Floats:
    """∂ log P(answer | Δ) / ∂Δ, elementwise."""
    d = np.asarray(difference, dtype=np.float64)
    a, b = loads(np.asarray(answers, dtype=np.float64), tau)
    return np.asarray(a * sigmoid(tau - d) - b * sigmoid(tau + d), dtype=np.float64)


def curvature(difference: ArrayLike, answers: ArrayLike, tau: Tau = 0.0) -> Floats:
    """−∂² log P(answer | Δ) / ∂Δ², elementwise; never negative."""
    d = np.asarray(difference, dtype=np.float64)
    a, b = loads(np.asarray(answers, dtype=np.float64), tau)
    return np.asarray(a * _bell(d - tau) + b * _bell(d + tau), dtype=np.float64)


def expected_curvature(difference: ArrayLike, tau: float = 0.0) -> Floats:
    """The curvature before the answer is known: its mean over the answers that Δ makes likely (Fisher information).

    For RankNet every answer has the same curvature σ̇(Δ) = σ(Δ)(1 − σ(Δ)).

    >>> float(expected_curvature(0.0))
    0.25
    """
    d = np.asarray(difference, dtype=np.float64)
    if tau > 0:
        # P(win or tie) = σ(Δ + τ), P(loss or tie) = σ(τ − Δ).
        return np.asarray(
            _bell(d - tau) * sigmoid(d + tau) + _bell(d + tau) * sigmoid(tau - d), dtype=np.float64
        )
    return _bell(d)


def outcomes(difference: ArrayLike, variance: ArrayLike = 0.0, tau: Tau = 0.0) -> Floats:
    """P(first), P(tie), P(second) when Δ ~ N(difference, variance).

    The integral of a logistic over a Gaussian is σ(κm) with κ = 1/√(1 + πs²/8), MacKay's approximation (error below
    .02 everywhere).

    Returns:
        Shape (n, 3), rows add up to 1.
    """
    m = np.asarray(difference, dtype=np.float64)
    kappa = 1.0 / np.sqrt(1.0 + np.pi * np.asarray(variance, dtype=np.float64) / 8.0)
    first, second = sigmoid(kappa * (m - tau)), sigmoid(kappa * (-m - tau))
    tied = np.any(np.greater(tau, 0))
    tie = np.maximum(1.0 - first - second, 0.0) if tied else np.zeros_like(first)
    return np.stack([first, tie, second], axis=-1)


def step_to_mode(mean: float, spread: float, answer: float, tau: float) -> float:
    """The root of α = ℓ′(mean + α·spread): a bracketed Newton iteration, at most a handful of steps."""
    # ℓ′ lies in (−1, 1), and the left side grows while the right side falls: exactly one root, in between.
    low, high = -1.0, 1.0
    alpha = 0.0
    for _ in range(60):
        at = mean + alpha * spread
        gap = float(slope(at, answer, tau)) - alpha
        if abs(gap) < 1e-12:
            break
        low, high = (alpha, high) if gap > 0 else (low, alpha)
        alpha += gap / (1.0 + spread * float(curvature(at, answer, tau)))
        if not low < alpha < high:
            alpha = (low + high) / 2
    return alpha


def _bell(x: Floats) -> Floats:
    """σ̇(x) = σ(x) σ(−x): the product keeps its digits where 1 − σ would lose them."""
    return np.asarray(sigmoid(x) * sigmoid(-x), dtype=np.float64)
