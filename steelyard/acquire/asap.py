"""`asap`: an active choice that looks at no image, for scores from the answers alone.

Most software for comparisons knows items only by their answers. The best known active choice for it is ASAP (Mikhailov et al.
2020): the posterior of Bradley and Terry's scores, the expected information gain of every pair, and as a batch a spanning tree of
the pairs, so that every item takes part and none is asked about twice for the same reason. This is that choice with the
likelihood of this project (ASAP passes TrueSkill's messages). The ranker that learns from the answers is the usual one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from steelyard.acquire.candidates import draw_pairs
from steelyard.acquire.choice import Choice, check_request
from steelyard.acquire.needs import needs
from steelyard.acquire.pair_bald import expected_disagreement
from steelyard.acquire.random_pairs import compared_images
from steelyard.arrays import Floats, Ints, Pairs, Rows
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet, random_pairs

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["asap", "spanning_tree"]

REASON = "The answers so far leave open which of these two comes first."

_PRIOR = 1.5  # deviation of a score before any answer, in logits; what fitted studies have (`ranker.answers_alone`)


@needs("answers")
def asap(
    posterior: Posterior | None,
    n: int,
    /,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    answered: tuple[ArrayLike, ArrayLike] | None = None,
    reselect: bool = True,
    images: int = 1_000,
    candidates: int = 50_000,
) -> Choice:
    """Choose pairs by what their answers would tell about scores that know nothing of the images.

    Args:
        posterior: only its half-width of ties is used; None is fine.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        answered: pairs and their answers (P1; NaN where nobody could judge) so far, shapes (k, 2) and (k,).
        reselect: whether images that were already compared may be chosen.
        images: size of the pool that pairs are sought in, at most: scores are inverted as one matrix.
        candidates: pairs looked at, at most.

    Raises:
        AcquireError: no answers were given though pairs were asked, or sizes that do not fit.
    """
    size = check_request(posterior, n, taken, strategy="asap", model=False)
    if images < 2 or candidates < 1:
        raise AcquireError(
            f"a pool has 2 images or more and 1 candidate or more, not {images} and {candidates}"
        )
    if answered is None and len(taken):
        raise AcquireError(
            f"'asap' chooses by the answers so far, and of {len(taken)} asked pairs none were given; give `answered`"
        )
    rows = np.arange(size) if reselect else np.setdiff1d(np.arange(size), compared_images(taken))
    if len(rows) > images:
        rows = np.sort(rng.choice(rows, size=images, replace=False, shuffle=False))
    if n == 0 or len(rows) < 2:
        return Choice.empty()
    tau = 0.0 if posterior is None else posterior.tau
    mean, covariance = _scores_alone(rows, size, answered, tau)
    first, second = draw_pairs(mean, max(candidates, 4 * n), rng=rng)
    free = ~taken.contains(np.stack([rows[first], rows[second]], axis=1))
    first, second = first[free], second[free]
    if len(first) < n:  # hardly a pair is left: look at those
        last = random_pairs(n, size, taken=taken, rng=rng, rows=rows)
        place = np.searchsorted(rows, last)
        first, second = place.min(axis=1), place.max(axis=1)
    own = np.diag(covariance)
    variance = np.maximum(own[first] + own[second] - 2.0 * covariance[first, second], 0.0)
    gain = expected_disagreement(mean[first] - mean[second], variance, tau)
    picked = _batch(first, second, gain, n, len(rows))
    pairs = np.stack([rows[first[picked]], rows[second[picked]]], axis=1)
    return Choice(pairs, gain[picked], [REASON] * len(pairs))


def _scores_alone(
    rows: Rows, size: int, answered: tuple[ArrayLike, ArrayLike] | None, tau: float
) -> tuple[Floats, Floats]:
    """Mode and covariance of the scores of some images by the answers among them, by Laplace's approximation."""
    from steelyard.ranker.bradley_terry import likeliest_scores
    from steelyard.ranker.likelihood import curvature
    from steelyard.ranker.sparse_gaussian import SparseGaussian

    empty: tuple[ArrayLike, ArrayLike] = (np.empty((0, 2), dtype=np.int64), np.empty(0))
    asked, said = answered or empty
    pairs = np.asarray(asked, dtype=np.int64).reshape(-1, 2)
    answers = np.asarray(said, dtype=np.float64).reshape(-1)
    if len(pairs) != len(answers):
        raise AcquireError(f"'asap' was given {len(pairs)} pairs and {len(answers)} answers; give one each")
    place = np.full(size, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    local: Pairs = place[pairs]
    known = (local >= 0).all(axis=1) & ~np.isnan(answers)
    local, answers = local[known], answers[known]
    mode = likeliest_scores(local, answers, len(rows), prior=_PRIOR, tau=tau)
    bend = curvature(mode[local[:, 0]] - mode[local[:, 1]], answers, tau)
    return mode, SparseGaussian(len(rows), local, bend, _PRIOR**-2).covariance


def _batch(first: Ints, second: Ints, gain: Floats, n: int, images: int) -> Ints:
    """Positions of n pairs, best first: the best of a spanning tree, then of the next tree of what is left, and so on."""
    left = np.arange(len(first))
    picked: list[Ints] = []
    while n > 0 and len(left):
        tree = spanning_tree(first[left], second[left], gain[left], images)
        best = tree[np.argsort(-gain[left[tree]], kind="stable")][:n]
        picked.append(left[best])
        n -= len(best)
        left = np.delete(left, tree)
    return np.concatenate(picked) if picked else np.empty(0, dtype=np.int64)


def spanning_tree(first: Ints, second: Ints, gain: Floats, images: int) -> Ints:
    """Positions of the pairs of a spanning forest of largest gain, each pair given once with first < second."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    # scipy takes 0 for no edge; places in the order of gain are costs without ties or zeros.
    cost = np.empty(len(gain))
    cost[np.argsort(-gain, kind="stable")] = np.arange(1, len(gain) + 1)
    tree = minimum_spanning_tree(coo_array((cost, (first, second)), shape=(images, images)).tocsr())
    order = np.argsort(cost)
    return np.asarray(np.sort(order[tree.data.astype(np.int64) - 1]), dtype=np.int64)
