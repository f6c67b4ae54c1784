"""Infit and outfit: do somebody's answers, or the answers about an image, surprise as much as they should?

Probabilities say how far an answer y ∈ {1, ½, 0} usually lies from its expectation E: by V = Var y on average, squared.

    outfit = mean of (y − E)² / V        a few answers that nobody would have expected raise it
    infit  = Σ(y − E)² / ΣV              the same, weighted by what each answer tells; unexpected close calls raise it

Both are 1 where the probabilities hold, above it where answers are more erratic, below where they are more regular (Wright
and Masters). The probabilities must not have seen the answers, or everything looks too regular.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats, Ints
from steelyard.errors import ExperimentError

__all__ = ["Misfit", "expectations", "misfit"]

_SUREST = 0.002  # nobody is surer of an answer than that: one slip of a finger must not be an outfit of 500


@dataclass(frozen=True)
class Misfit:
    """Of every group (a judge, an image); NaN where it has no answers.

    Attributes:
        infit: weighted mean square, shape (G,).
        outfit: plain mean square, shape (G,).
        answers: how many, shape (G,).
        level: infit of all other groups together, 1 where there are none or they are not asked for, shape (G,).
        z: how far the infit is from that level, in deviations of chance, shape (G,); above 0 more erratic.
        overall: infit of all answers together.
    """

    infit: Floats
    outfit: Floats
    answers: Ints
    level: Floats
    z: Floats
    overall: float


def misfit(
    probabilities: ArrayLike,
    answers: ArrayLike,
    group: ArrayLike,
    groups: int,
    *,
    against_others: bool = True,
) -> Misfit:
    """Mean squares of each group.

    Args:
        probabilities: P(first), P(tie), P(second), shape (n, 3); rows of NaN, and answers of NaN, take no part.
        answers: P1, shape (n,).
        group: which group each answer belongs to, shape (n,).
        groups: G.
        against_others: hold a group against the mean square of all others, so that probabilities that are too sure or too
            cautious for everybody flag nobody; False, or a single group: against 1.

    Raises:
        ExperimentError: the shapes do not fit.
    """
    p, y, code = _columns(probabilities, answers, group)
    expected, variance, spread = _moments(_never_sure(p))
    squared = np.square(y - expected)
    count = np.bincount(code, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        over, under = (np.bincount(code, x, minlength=groups) for x in (squared, variance))
        infit, outfit = over / under, np.bincount(code, squared / variance, minlength=groups) / count
        noise = np.sqrt(np.bincount(code, spread, minlength=groups)) / under
        level, level_noise = np.ones(groups), np.zeros(groups)
        if against_others and (count > 0).sum() > 1:
            rest = under.sum() - under
            level = (over.sum() - over) / rest
            level_noise = np.sqrt(np.maximum(spread.sum() - np.square(noise * under), 0)) / rest
        # Wilson and Hilferty: the cube root of a mean square is nearly normal, also where answers are few.
        q = np.sqrt(np.square(noise) + np.square(level_noise))
        z = (np.cbrt(infit / level) - 1) * 3 / q + q / 3
        # Of one or two answers that were all but certain q is large, and q / 3 alone would call them erratic.
        z = np.where(infit > level, z, np.minimum(z, 0.0))
    level = np.where(count > 0, level, np.nan)
    overall = float(squared.sum() / variance.sum()) if len(y) else float("nan")
    return Misfit(infit, outfit, count, level, z, overall)


def expectations(probabilities: ArrayLike, answers: ArrayLike) -> tuple[Floats, Floats, Ints, Floats, Floats]:
    """Of the answers of which something is said: probabilities, y, their places, E and V.

    Args:
        probabilities: as in `misfit`.
        answers: P1, shape (n,).
    """
    p, y, at = _columns(probabilities, answers, np.arange(len(np.asarray(answers))))
    p = _never_sure(p)
    expected, variance, _ = _moments(p)
    return p, y, at, expected, variance


def _columns(probabilities: ArrayLike, answers: ArrayLike, group: ArrayLike) -> tuple[Floats, Floats, Ints]:
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    code = np.asarray(group, dtype=np.int64)
    if p.shape != (len(y), 3) or len(code) != len(y):
        raise ExperimentError(
            f"{len(y)} answers need probabilities of the shape ({len(y)}, 3) and a group each, not {p.shape} and {len(code)}"
        )
    told = ~np.isnan(y) & ~np.isnan(p).any(axis=1)
    return np.clip(p[told], 0.0, 1.0), y[told], code[told]


def _never_sure(p: Floats) -> Floats:
    """A little of every answer that can be given; *equal* cannot where it has no probability."""
    possible = np.array([True, False, True]) | (p > 0)
    mixed = (1 - _SUREST * possible.sum(axis=1, keepdims=True)) * p + _SUREST
    return np.asarray(np.where(possible, mixed, 0.0), dtype=np.float64)


def _moments(p: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of y, and the variance of (y − E)²."""
    values = np.array([1.0, 0.5, 0.0])
    expected = p @ values
    away = np.square(values - expected[:, None])
    variance = (p * away).sum(axis=1)
    return expected, variance, (p * np.square(away)).sum(axis=1) - np.square(variance)
