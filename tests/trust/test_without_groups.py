"""Scores as if a group had never been compared or graded: against fits that never saw it."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import RankerError
from steelyard.ranker.convex import ConvexHead, Ties
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Reduction
from steelyard.trust.without_groups import scores_without_groups

N, D = 60, 5


def world(seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, groups, pairs, answers with ties, grades."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D))
    true = x @ rng.standard_normal(D)
    pairs = rng.integers(0, N, (150, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    gap = true[pairs[:, 0]] - true[pairs[:, 1]] + rng.logistic(size=len(pairs))
    grades = np.clip(np.round(true + 2), 0, 4)
    return x, rng.integers(0, 20, N), pairs, np.where(np.abs(gap) < 0.5, 0.5, gap > 0), grades


def fitted(
    x: np.ndarray, pairs: np.ndarray, answers: np.ndarray, ties: Ties, **more: object
) -> tuple[ConvexHead, Posterior]:
    head = ConvexHead.fit(
        x, pairs, answers, reduction=Reduction.identity(D), rows=x, ties=ties, **more  # type: ignore[arg-type]
    )  # fmt: skip
    return head, head.posterior(rows=x)


@pytest.mark.parametrize("ties", ["half", "rao_kupper"])
@pytest.mark.parametrize("multitask", [False, True])
def test_it_is_what_a_fit_without_the_group_says(ties: Ties, multitask: bool) -> None:
    x, groups, pairs, answers, grades = world()
    rows = np.arange(0, N, 2)
    taught = None
    if multitask:
        taught = np.full(N, np.nan)
        taught[rows] = grades[rows]
    head, posterior = fitted(x, pairs, answers, ties, grades=taught)
    mean, std = scores_without_groups(posterior, rows, groups, pairs, answers, taught=taught)
    moved, missed = [], []
    for row, at, spread in zip(rows, mean, std, strict=True):
        out = groups == groups[row]
        kept = ~out[pairs].any(axis=1)
        rest = None if taught is None else np.where(out, np.nan, taught)
        weight = np.full(int(kept.sum()), head.share)
        _, other = fitted(
            x, pairs[kept], answers[kept], ties, grades=rest, precision=head.precision, sample_weight=weight
        )
        moved.append(abs(other.mean[row] - posterior.mean[row]))
        missed.append(abs(other.mean[row] - at))
        assert spread == pytest.approx(float(np.sqrt(other.variance[row])), rel=0.1)
    # One Newton step, with a tenth of the answers gone: what it misses is small beside what leaving out changes.
    assert np.mean(missed) < 0.3 * np.mean(moved)
    assert (std >= np.sqrt(posterior.variance[rows]) - 1e-9).all()


def test_nothing_said_about_a_group_leaves_its_scores() -> None:
    x, _, pairs, answers, _ = world()
    groups = np.arange(N)
    never = np.setdiff1d(groups, pairs)
    pairs, answers = pairs[(pairs != 0).all(axis=1)], answers[(pairs != 0).all(axis=1)]
    _, posterior = fitted(x, pairs, answers, "rao_kupper")
    rows = np.append(never, 0)
    mean, std = scores_without_groups(posterior, rows, groups, pairs, answers)
    np.testing.assert_allclose(mean, posterior.mean[rows])
    np.testing.assert_allclose(std, np.sqrt(posterior.variance[rows]))


def test_what_cannot_be_taken_back_is_refused() -> None:
    x, groups, pairs, answers, _ = world()
    _, posterior = fitted(x, pairs, answers, "half")
    network = Posterior.closed_form(x, np.ones(D), 0.2)
    with pytest.raises(RankerError, match="not from closed_form"):
        scores_without_groups(network, np.arange(3), groups, pairs, answers)
    with pytest.raises(RankerError, match="one answer for each"):
        scores_without_groups(posterior, np.arange(3), groups, pairs, answers[:-1])
    with pytest.raises(RankerError, match="one group for each"):
        scores_without_groups(posterior, np.arange(3), groups[:-1], pairs, answers)
