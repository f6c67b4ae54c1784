"""Who said what about which pair, lately: what it was worth, and whose opinion would be worth most next.

Of many answers the latest are kept: they are enough to find pairs whose second opinion would teach something, and looking through
them takes the same time in a large study as in a small one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.heard import Heard
from steelyard.arrays import Floats, Pairs, Rows
from steelyard.pairs import PairSet
from steelyard.ranker.judges import Panel, Said
from steelyard.ranker.posterior import Posterior

__all__ = ["Hearing", "Opinions"]

LATEST = 4096
WAITING = 24  # pairs up for a further opinion, beyond which others come first


@dataclass(frozen=True, eq=False)
class Opinions:
    """Answered pairs, and who is best asked about each.

    Attributes:
        heard: the pairs.
        best: of those who have not answered a pair, whose answer is worth most; empty where nobody is left.
    """

    heard: Heard
    best: list[str]

    def best_for(self, pair: tuple[int, int]) -> str:
        """Who is best asked about a pair, empty where nobody is."""
        low, high = self.heard.pairs.min(axis=1), self.heard.pairs.max(axis=1)
        found = np.flatnonzero((low == min(pair)) & (high == max(pair)))
        return self.best[int(found[0])] if len(found) else ""


class Hearing:
    """The latest answers, in the order they came.

    Args:
        images: how many there are.
    """

    def __init__(self, images: int) -> None:
        self._images = images
        self._pairs: Pairs = np.empty((0, 2), dtype=np.int64)
        self._answers: Floats = np.empty(0)
        self._who: NDArray[np.str_] = np.empty(0, dtype=np.str_)
        self._left: NDArray[np.bool_] = np.empty(0, dtype=bool)
        self._apart: NDArray[np.bool_] = np.empty(0, dtype=bool)

    def add(self, pairs: Pairs, answers: Floats, said: Said, apart: NDArray[np.bool_] | None = None) -> None:
        """Answers that came in.

        Args:
            pairs: rows (i, j), shape (n, 2).
            answers: P1, shape (n,); NaN where a pair could not be judged.
            said: who gave them.
            apart: which are of pairs that nobody else is to be asked about, shape (n,): those that measure accuracy.
        """
        kept = slice(-LATEST, None)
        if not len(pairs):
            return
        names = np.asarray(said.names, dtype=np.str_)[said.annotator]
        out = np.zeros(len(pairs), dtype=bool) if apart is None else apart
        self._pairs = np.concatenate([self._pairs, pairs])[kept]
        self._answers = np.concatenate([self._answers, answers])[kept]
        self._who = np.concatenate([self._who, names])[kept]
        self._left = np.concatenate([self._left, said.left_first])[kept]
        self._apart = np.concatenate([self._apart, out])[kept]

    def opinions(
        self, posterior: Posterior, *, up: Pairs | None = None, annotator: str | None = None
    ) -> Opinions | None:
        """What the answers are worth as the judges are known now, and who could still be asked.

        Args:
            posterior: what is believed, with the judges.
            up: pairs that somebody is being asked about; while many of them wait for a further opinion, no more are wanted.
            annotator: who is going to be asked; None is whoever is best asked.

        Returns:
            None where one person answers alone.
        """
        present = self._who if annotator is None else np.append(self._who, annotator)
        names, codes = np.unique(present, return_inverse=True)
        code = codes[: len(self._who)]
        if len(names) < 2:
            return None
        keys = PairSet(self._images).keys(self._pairs)
        known, place = np.unique(keys, return_inverse=True)
        panel = posterior.panel or Panel({})
        each = np.array([panel[name].worth for name in names.tolist()])
        said = Said(code, names.tolist(), self._left)
        worth = np.zeros(len(known))
        np.add.at(worth, place, self._worth(posterior, panel, said))
        asked = np.zeros((len(known), len(names)), dtype=bool)
        asked[place, code] = True
        left = np.where(asked | ((names != annotator) & (annotator is not None)), 0.0, each)
        tells = left.max(axis=1) / _usual(each, code)
        closed = np.zeros(len(known), dtype=bool)
        np.logical_or.at(closed, place, self._apart)
        if up is not None and len(up):
            waiting = np.isin(known, PairSet(self._images).keys(up))
            closed |= waiting | (annotator is None and int(waiting.sum()) >= WAITING)
        tells[closed] = 0.0
        pairs = np.stack([known // self._images, known % self._images], axis=1)
        best = [str(names[k]) if tells[n] > 0 else "" for n, k in enumerate(left.argmax(axis=1).tolist())]
        return Opinions(Heard(pairs, worth, tells), best)

    def _worth(self, posterior: Posterior, panel: Panel, said: Said) -> Floats:
        """Of each answer: its judge's, as far as they are likely to have looked; 0 where it could not be judged."""
        judged = ~np.isnan(self._answers)
        worth = np.zeros(len(self._answers))
        own = panel.judging(said[judged])
        mean, _ = posterior.difference(self._pairs[judged])
        looked = own.attention(mean, self._answers[judged], posterior.tau)
        each = np.array([panel[name].worth for name in said.names])
        worth[judged] = looked * each[said.annotator[judged]]
        return worth


def _usual(each: Floats, code: Rows) -> float:
    """What an answer of these people is worth on average, by how much each answers."""
    return max(float(np.average(each, weights=np.bincount(code, minlength=len(each)))), 1e-12)
