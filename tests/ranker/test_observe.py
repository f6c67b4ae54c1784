"""A belief moved by answers against a model fitted anew: over seeds, not for one that happens to fit."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.likelihood import outcomes
from steelyard.ranker.reduction import Reduction


def ratios(seed: int, before: int) -> dict[str, list[float]]:
    """Median deviation after 12, 30 and 60 more answers, in parts of that of a fit: of the same λ, and as it would be made."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((200, 20)) / np.sqrt(20)
    scores = features @ rng.normal(0, 2.5, 20)
    pairs = rng.integers(200, size=(600, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][: before + 60]
    p = outcomes(scores[pairs[:, 0]] - scores[pairs[:, 1]], 0.0, 0.7)
    luck = rng.random(len(pairs))
    answers = np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, :2].sum(1), 0.5, 0.0))

    def fit(n: int, **options: object) -> ConvexHead:
        own = Reduction.identity(20)
        return ConvexHead.fit(features, pairs[:n], answers[:n], reduction=own, ties="rao_kupper", **options)  # type: ignore[arg-type]

    head = fit(before)
    moved, found = head.posterior(features), {"same": [], "anew": []}
    for k in range(before, before + 60):
        moved = moved.observe(pairs[k], answers[k])
        if k + 1 - before in (12, 30, 60):
            counted = np.full(k + 1, head.share)
            fits = {"same": fit(k + 1, precision=head.precision, sample_weight=counted), "anew": fit(k + 1)}
            for name, again in fits.items():
                found[name].append(
                    float(np.median(np.sqrt(moved.variance / again.posterior(features).variance)))
                )
    return found


@pytest.mark.parametrize("before", [60, 200])
def test_deviations_after_answers_are_those_of_a_fit(before: int) -> None:
    found = [ratios(seed, before) for seed in range(12)]
    # What `observe` leaves where it was – the curvatures of earlier answers, τ – hardly matters.
    same = np.median([one["same"] for one in found], axis=0)
    np.testing.assert_allclose(same, 1.0, atol=0.03)
    # λ and what an answer counts are estimated anew by a fit, and go up as often as down.
    anew = np.median([one["anew"] for one in found], axis=0)
    np.testing.assert_allclose(anew, 1.0, atol=0.05)
