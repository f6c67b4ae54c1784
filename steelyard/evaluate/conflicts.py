"""Pairs on which people contradict each other, or a sure model contradicts people, the worst first.

Two answers are as far apart as they can be (1) where one person says the first image and another the second. `equal` lies half-way
between the two, and "cannot judge" half-way from everything else: whether a pair can be judged at all is a question, too.

    people = mean distance of two answers of different people, drawn at random from those about the pair
    model  = 1 − p / s below s, else 0, where p is the mean probability that the model gave to the answers

A pair is in conflict where either is above 0, by the larger of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Pairs
from steelyard.errors import PairError
from steelyard.pairs import unique_pairs

__all__ = ["SURPRISING", "Conflicts", "rank_conflicts"]

SURPRISING = 0.05
"""Below this probability of what people said, a model contradicts them."""

# second, equal, first, cannot judge
_DISTANCE = np.array([[0.0, 0.5, 1.0, 0.5], [0.5, 0.0, 0.5, 0.5], [1.0, 0.5, 0.0, 0.5], [0.5, 0.5, 0.5, 0.0]])


@dataclass(frozen=True)
class Conflicts:
    """Pairs in conflict, the worst first; all (m,) but `pairs`.

    Attributes:
        pairs: rows (i, j) with i < j, shape (m, 2).
        people: how far people are apart, 0 to 1.
        model: how surely the model contradicts them, 0 to 1.
        probability: mean probability that the model gave to the answers; NaN where it cannot tell.
        answers: how many answers there are.
    """

    pairs: Pairs
    people: Floats
    model: Floats
    probability: Floats
    answers: NDArray[np.int64]

    @property
    def disagreement(self) -> Floats:
        """The larger of `people` and `model`, by which they are ranked."""
        return np.maximum(self.people, self.model)

    def __len__(self) -> int:
        return len(self.pairs)


def rank_conflicts(
    pairs: ArrayLike,
    labels: ArrayLike,
    annotator: ArrayLike,
    probability: ArrayLike | None = None,
    *,
    surprising: float = SURPRISING,
) -> Conflicts:
    """Find the pairs on which answers contradict each other or the model, and rank them.

    At equal disagreement the pair with more answers comes first, then the one that surprises the model more.

    Args:
        pairs: rows (i, j) of each answer, i < j, shape (n, 2).
        labels: P1 for (i, j): 1, 0.5, 0; NaN where somebody could not judge. Shape (n,).
        annotator: a code for who answered, shape (n,). Nobody is in conflict with themselves.
        probability: that the model gave to each answer, without having learnt it; NaN where it cannot tell, None where
            there is no model.
        surprising: probability below which the model contradicts an answer.

    Raises:
        PairError: the shapes do not fit.

    >>> found = rank_conflicts([[0, 1], [0, 1], [2, 3], [2, 3]], [1.0, 0.5, 1.0, 0.0], [0, 1, 0, 1])
    >>> found.pairs.tolist(), found.people.tolist()
    ([[2, 3], [0, 1]], [1.0, 0.5])
    """
    index = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    given, who = (
        np.asarray(labels, dtype=np.float64).reshape(-1),
        np.asarray(annotator, dtype=np.int64).reshape(-1),
    )
    chance = np.full(len(index), np.nan) if probability is None else np.asarray(probability, dtype=np.float64)
    if not len(index) == len(given) == len(who) == len(chance):
        raise PairError(
            f"{len(index)} pairs have {len(given)} answers by {len(who)} annotators and {len(chance)} probabilities; give one of "
            "each for every answer"
        )
    unique, _, place, _ = unique_pairs(index)
    kind = np.where(np.isnan(given), 3, np.rint(2 * np.nan_to_num(given))).astype(np.int64)

    # Sums over all pairs of answers, less those over the answers of one and the same person.
    persons = unique_pairs(np.stack([place, who], axis=1))
    of, within = persons.pairs[:, 0], persons.place
    apart, compared = _distances(_counts(place, kind, len(unique)))
    own_apart, own_compared = _distances(_counts(within, kind, len(of)))
    apart -= np.bincount(of, own_apart, minlength=len(unique))
    compared -= np.bincount(of, own_compared, minlength=len(unique))
    # Sums of halves are exact: no dust makes a conflict of an agreement.
    people = np.divide(apart, compared, out=np.zeros(len(unique)), where=compared > 0)

    told = ~np.isnan(chance)
    number = np.bincount(place, told, minlength=len(unique))
    total = np.bincount(place, np.where(told, chance, 0.0), minlength=len(unique))
    mean = np.divide(total, number, out=np.full(len(unique), np.nan), where=number > 0)
    model = (
        np.clip(1.0 - np.nan_to_num(mean, nan=np.inf) / surprising, 0.0, 1.0)
        if surprising > 0
        else 0.0 * people
    )

    answers = np.bincount(place, minlength=len(unique))
    found = np.flatnonzero((people > 0) | (model > 0))
    surprise = np.nan_to_num(mean[found], nan=1.0)
    order = np.lexsort((found, surprise, -answers[found], -np.maximum(people, model)[found]))
    chosen = found[order]
    return Conflicts(unique[chosen], people[chosen], model[chosen], mean[chosen], answers[chosen])


def _counts(place: NDArray[np.int64], kind: NDArray[np.int64], n: int) -> Floats:
    """How many answers of each kind there are in each place, shape (n, 4)."""
    return np.bincount(4 * place + kind, minlength=4 * n).reshape(n, 4).astype(np.float64)


def _distances(counts: Floats) -> tuple[Floats, Floats]:
    """The sum of distances over all pairs of answers, and how many such pairs there are."""
    total = counts.sum(axis=1)
    return 0.5 * np.einsum("na,ab,nb->n", counts, _DISTANCE, counts), total * (total - 1) / 2
