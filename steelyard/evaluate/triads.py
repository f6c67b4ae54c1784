"""Circular triads: A over B, B over C, and C over A. Who follows one scale makes few, who guesses one in four.

Each triangle of answers is circular by chance with probability ¼, and two triangles are uncorrelated even where they share a
side: whichever way that goes, the rest is circular in one of four. So the count of n triangles has the mean n/4 and the
variance 3n/16 for every graph (Kendall and Babington Smith, 1940, for complete ones).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from steelyard.pairs import unique_pairs

__all__ = ["ENOUGH", "Triads", "Verdict", "circular_triads"]

ENOUGH = 11
"""Triangles below which nothing is said: of fewer, none is circular in more than 1 of 20 people who guess."""
Verdict = Literal["too few", "better than guessing", "undecided", "no better than guessing"]


class Triads(NamedTuple):
    """Triangles of answers.

    Attributes:
        triangles: threes of images with a clear answer about each of the three pairs.
        circular: those that go round.
        p_guessing: how often somebody who guesses has so few of them or fewer.
        p_sound: how often somebody who makes half as many as a guesser has so many or more.
    """

    triangles: int
    circular: int
    p_guessing: float
    p_sound: float

    @property
    def expected(self) -> float:
        """How many would go round by guessing."""
        return self.triangles / 4

    def verdict(self, limit: float = 0.05) -> Verdict:
        """What they say; *no better than guessing* only where somebody sound would hardly look like that.

        Args:
            limit: how often somebody sound may be called a guesser.
        """
        if self.triangles < ENOUGH:
            return "too few"
        if self.p_guessing < 0.05:
            return "better than guessing"
        return "no better than guessing" if self.p_sound < limit else "undecided"


def circular_triads(pairs: ArrayLike, answers: ArrayLike) -> Triads:
    """Count the triangles of one person's answers, or of a majority's.

    Args:
        pairs: rows (i, j), shape (n, 2); of a pair that was answered several times the first answer counts.
        answers: P1 for (i, j), shape (n,); what is neither above nor below one half takes no part.
    """
    from scipy import sparse
    from scipy.stats import binom

    index, given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2), np.asarray(answers, dtype=np.float64)
    first = unique_pairs(np.sort(index, axis=1)).first
    first = first[~np.isnan(given[first]) & (given[first] != 0.5)]
    index, given = index[first], given[first]
    if not len(index):
        return Triads(0, 0, 1.0, 1.0)
    rows, local = np.unique(index, return_inverse=True)
    local = local.reshape(-1, 2)
    above = np.where((given > 0.5)[:, None], local, local[:, ::-1])
    shape = (len(rows), len(rows))
    beats = sparse.coo_array((np.ones(len(above)), (above[:, 0], above[:, 1])), shape=shape).tocsr()
    either = beats + beats.T
    circular = round(float((beats @ beats).multiply(beats.T).sum()) / 3)
    triangles = round(float((either @ either).multiply(either).sum()) / 6)
    if not triangles:
        return Triads(0, 0, 1.0, 1.0)
    guessing, sound = binom.cdf(circular, triangles, 0.25), binom.sf(circular - 1, triangles, 0.125)
    return Triads(triangles, circular, float(guessing), float(sound))
