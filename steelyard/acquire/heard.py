"""What was heard about pairs that were asked before, for choices that may ask somebody else about the same pair.

A second opinion and a new pair are held against each other by the same formula: what the strategy expects an answer to teach. The
pair that was answered starts lower, because the design counts what its answers were worth – next to nothing where somebody
guessed or seems to have slipped – and whoever could be asked next may tell more or less than the usual answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet

__all__ = ["Heard"]


@dataclass(frozen=True, eq=False)
class Heard:
    """Answered pairs.

    Attributes:
        pairs: different pairs, shape (k, 2).
        worth: of all that was said about each, in answers of an ordinary judge, shape (k,).
        tells: what an answer of whoever would be asked next is worth beside the usual one, shape (k,); 0 where nobody is to be asked.
    """

    pairs: Pairs
    worth: Floats
    tells: Floats

    def __post_init__(self) -> None:
        if not len(self.pairs) == len(self.worth) == len(self.tells):
            raise AcquireError(
                f"{len(self.pairs)} answered pairs have {len(self.worth)} worths and {len(self.tells)} further answers; give one each"
            )

    def again(self) -> Heard:
        """Those that somebody else may be asked about."""
        kept = self.tells > 0
        return Heard(self.pairs[kept], self.worth[kept], self.tells[kept])

    def among(self, pool: Rows) -> Heard:
        """Those of some images, numbered among them; `pool` ascends."""
        kept = np.isin(self.pairs, pool).all(axis=1)
        return Heard(np.searchsorted(pool, self.pairs[kept]), self.worth[kept], self.tells[kept])

    def worth_of(self, pairs: Pairs, taken: PairSet) -> Floats:
        """What was said about asked pairs is worth, shape (n,): 1 for those that are not known here, for somebody has them before them."""
        worth = np.ones(len(pairs))
        if len(self.pairs) and len(pairs):
            known, asked = taken.keys(self.pairs), taken.keys(pairs)
            order = np.argsort(known)
            place = order[np.minimum(np.searchsorted(known, asked, sorter=order), len(known) - 1)]
            same = known[place] == asked
            worth[same] = self.worth[place[same]]
        return worth
