"""Krippendorff's α: agreement of any number of people, beyond chance, also where not everybody answered everything.

    α = 1 − D_o / D_e,    D_o = Σ o_ck δ²_ck / n,    D_e = Σ n_c n_k δ²_ck / (n (n − 1))

with o the coincidences of answers within pairs (each pair with m answers counts m), n_c their margins and n their total.
δ² is 1 for different answers (nominal), or how many answers lie between the two, squared (ordinal): *left* against *right* is
worse than *left* against *equal*. Krippendorff, Content Analysis, chapter 12.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats
from steelyard.errors import ExperimentError

__all__ = ["Estimate", "Level", "agreement_interval", "alpha_interval", "krippendorff_alpha"]

Level = Literal["nominal", "ordinal"]
_DRAWS = 2_000


class Estimate(NamedTuple):
    """A number with its 95% interval; NaN where there is nothing to tell it from."""

    value: float
    low: float
    high: float


def krippendorff_alpha(counts: ArrayLike, level: Level = "nominal") -> float:
    """α of a table of counts.

    Args:
        counts: how many people gave item n the answer c, shape (n, C), columns in their order; items with fewer than two answers
            are passed over.
        level: nominal or ordinal.

    Returns:
        NaN without an item that two people answered, and where everybody always said the same.

    Raises:
        ExperimentError: not a table of counts.
    """
    table = _table(counts)
    return float(_alpha(_coincidences(table).sum(axis=0)[None], level)[0])


def alpha_interval(
    counts: ArrayLike, level: Level, rng: np.random.Generator, draws: int = _DRAWS
) -> Estimate:
    """α with its 95% interval: items are drawn again, with replacement (percentiles).

    Args:
        counts: as in `krippendorff_alpha`.
        level: nominal or ordinal.
        rng: draws the items.
        draws: how often.
    """
    table = _table(counts)
    kinds, many = np.unique(table, axis=0, return_counts=True)
    parts = _coincidences(kinds)
    drawn = _alpha(np.einsum("bk,kcd->bcd", _again(many, rng, draws), parts), level)
    return _estimate(float(_alpha(np.einsum("k,kcd->cd", many, parts)[None], level)[0]), drawn)


def agreement_interval(counts: ArrayLike, rng: np.random.Generator, draws: int = _DRAWS) -> Estimate:
    """How often two people who answered the same item said the same, with its 95% interval: items are drawn again.

    Items count alike, however many people answered them.

    Args:
        counts: as in `krippendorff_alpha`.
        rng: draws the items.
        draws: how often.
    """
    kinds, many = np.unique(_table(counts), axis=0, return_counts=True)
    total = kinds.sum(axis=1)
    alike = (kinds * (kinds - 1)).sum(axis=1) / (total * (total - 1))
    again = _again(many, rng, draws)
    value = float(many @ alike / many.sum()) if many.sum() else float("nan")
    return _estimate(value, again @ alike / max(1, int(many.sum())))


def _table(counts: ArrayLike) -> Floats:
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or (table < 0).any():
        raise ExperimentError(f"agreement needs a table (items, answers) of counts, not {table.shape}")
    return np.asarray(table[table.sum(axis=1) >= 2], dtype=np.float64)


def _coincidences(table: Floats) -> Floats:
    """o_ck of every item, shape (n, C, C)."""
    total = table.sum(axis=1)
    each = np.einsum("nc,nk->nck", table, table)
    each[:, np.arange(table.shape[1]), np.arange(table.shape[1])] -= table
    return np.asarray(each / (total - 1)[:, None, None], dtype=np.float64)


def _alpha(coincidences: Floats, level: Level) -> Floats:
    """α of sums of coincidences, shape (b, C, C) → (b,)."""
    margin = coincidences.sum(axis=2)
    n = margin.sum(axis=1)
    apart = _apart(margin, level)
    seen = (coincidences * apart).sum(axis=(1, 2))
    expected = np.einsum("bc,bk,bck->b", margin, margin, apart) / np.maximum(n - 1, 1e-9)
    return np.where(expected > 0, 1 - seen / np.where(expected > 0, expected, 1), np.nan)


def _apart(margin: Floats, level: Level) -> Floats:
    """δ² of every two answers, shape (b, C, C)."""
    categories = margin.shape[1]
    if level == "nominal":
        return np.broadcast_to(1.0 - np.eye(categories), (len(margin), categories, categories))
    middle = np.cumsum(margin, axis=1) - margin / 2  # the mid-rank of each answer
    return np.square(middle[:, :, None] - middle[:, None, :])


def _again(many: ArrayLike, rng: np.random.Generator, draws: int) -> Floats:
    """How often each kind of item comes when items are drawn again; equal items are drawn together."""
    counts = np.asarray(many, dtype=np.float64)
    total = int(counts.sum())
    if not total:
        return np.zeros((draws, len(counts)))
    return rng.multinomial(total, counts / total, size=draws).astype(np.float64)


def _estimate(value: float, drawn: Floats) -> Estimate:
    told = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not len(told):
        return Estimate(float("nan"), float("nan"), float("nan"))
    low, high = np.quantile(told, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
