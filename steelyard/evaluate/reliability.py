"""How reliable a study's answers are: each person by themselves, and everybody together. Arrays in, plain records out.

What is flagged of a person is tested so that, whatever the number of people, a study in which everybody is fine flags anybody
at all in at most 5 of 100 cases for each kind of flag (Bonferroni).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Ints, Pairs
from steelyard.evaluate.agreement import SideBias, side_bias
from steelyard.evaluate.misfit import Misfit, misfit
from steelyard.evaluate.shares import share_interval
from steelyard.evaluate.speed import QuickAndSlow, quick_and_slow, quicker_half
from steelyard.evaluate.triads import Triads, circular_triads
from steelyard.pairs import unique_pairs

__all__ = ["Answered", "Person", "counts_by_pair", "in_line", "people_of", "repeats_of"]

FLAGGED = 0.05
_OUTCOMES = np.array([1.0, 0.5, 0.0])


@dataclass(frozen=True)
class Answered:
    """Answers as columns, in the order in which they were given; all (n,) but where said.

    Attributes:
        pairs: rows of the two images of each, shape (n, 2); of one pair always in the same order.
        labels: P1 for the pair, NaN where nobody could judge.
        annotator: codes into `annotators`.
        annotators: names.
        left_first: whether the first image of the pair was shown on the left.
        seconds: from shown to answered, NaN where not known.
        random: whether the pair was drawn at random.
        probabilities: P(first), P(tie), P(second) by somebody who has not seen the answers about the pair, shape (n, 3), NaN
            where nothing is said.
        against: who that is, in words ("the model").
    """

    pairs: Pairs
    labels: Floats
    annotator: Ints
    annotators: tuple[str, ...]
    left_first: NDArray[np.bool_]
    seconds: Floats
    random: NDArray[np.bool_]
    probabilities: Floats
    against: str

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Answers of people who could judge."""
        return ~np.isnan(self.labels)

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Answers that chose a side."""
        return np.asarray(self.judged & (self.labels != 0.5), dtype=np.bool_)


@dataclass(frozen=True)
class Person:
    """One annotator's figures; None where there is nothing to tell them from.

    Attributes:
        annotator: who.
        answers: all of them.
        equal: ties.
        cannot_judge: answers that say so.
        seconds: median from shown to answered.
        left_share: share of clear answers that chose the left image, with its 95% interval.
        repeats: questions that were asked again, and `repeats_alike` how many of them were answered as before.
        triangles: threes of images with all three pairs answered, `circular` how many go round, `circular_expected` by guessing.
        others: comparisons with other people's answers about the same pairs, `others_alike` the share that is alike.
        in_line: share of clear answers as the model (or the other answers) would have it, and `in_line_expected` what that
            share should be on these pairs.
        infit: mean square of surprise, 1 is as expected; `infit_others` is that of everybody else.
        outfit: the same, unweighted.
        quick_gap: how much less often quick answers are in line than their pairs explain, with its interval.
        flags: `side`, `guessing`, `erratic`, `quick` (docs/statistics.md).
    """

    annotator: str
    answers: int
    equal: int
    cannot_judge: int
    seconds: float | None = None
    left_share: float | None = None
    left_low: float | None = None
    left_high: float | None = None
    repeats: int = 0
    repeats_alike: int = 0
    repeats_low: float | None = None
    repeats_high: float | None = None
    triangles: int = 0
    circular: int = 0
    circular_expected: float = 0.0
    others: int = 0
    others_alike: float | None = None
    in_line: float | None = None
    in_line_expected: float | None = None
    infit: float | None = None
    infit_others: float | None = None
    outfit: float | None = None
    quick_gap: float | None = None
    quick_low: float | None = None
    quick_high: float | None = None
    flags: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "flags": list(self.flags)}


def people_of(answered: Answered) -> list[Person]:
    """Everybody's figures, in the order of `annotators`; people without answers are left out."""
    codes = [k for k in range(len(answered.annotators)) if (answered.annotator == k).any()]
    fit = misfit(answered.probabilities, answered.labels, answered.annotator, len(answered.annotators))
    quick = quicker_half(answered.seconds, answered.annotator)
    others = _with_others(answered)
    return [_person(answered, k, fit, quick, others[k], FLAGGED / len(codes)) for k in codes]


def _person(
    answered: Answered,
    code: int,
    fit: Misfit,
    quick: NDArray[np.bool_],
    others: tuple[int, float],
    limit: float,
) -> Person:
    own = answered.annotator == code
    clear = own & answered.clear
    left = int(((answered.labels == 1) == answered.left_first)[clear].sum())
    side = side_bias(left, int(clear.sum()) - left)
    repeats, alike = repeats_of(answered, code)
    span = share_interval(alike / repeats, repeats) if repeats else (None, None)
    triads = circular_triads(answered.pairs[own], answered.labels[own])
    right, expected = in_line(answered)
    told = clear & ~np.isnan(right)
    timed = told & ~np.isnan(answered.seconds)
    gap = quick_and_slow(quick[timed], right[timed], expected[timed])
    known = answered.seconds[own & ~np.isnan(answered.seconds)]
    return Person(
        annotator=answered.annotators[code], answers=int(own.sum()), equal=int((answered.labels[own] == 0.5).sum()),
        cannot_judge=int(np.isnan(answered.labels[own]).sum()),
        seconds=float(np.median(known)) if len(known) else None,
        left_share=_plain(side.share), left_low=_plain(side.low), left_high=_plain(side.high),
        repeats=repeats, repeats_alike=alike, repeats_low=span[0], repeats_high=span[1],
        triangles=triads.triangles, circular=triads.circular, circular_expected=triads.expected,
        others=others[0], others_alike=_plain(others[1]),
        in_line=float(right[told].mean()) if told.any() else None,
        in_line_expected=float(expected[told].mean()) if told.any() else None,
        infit=_plain(fit.infit[code]), infit_others=_plain(fit.level[code]), outfit=_plain(fit.outfit[code]),
        quick_gap=gap.gap if gap else None, quick_low=gap.low if gap else None, quick_high=gap.high if gap else None,
        flags=_flags(side, triads, float(fit.z[code]), gap, limit),
    )  # fmt: skip


def _flags(
    side: SideBias, triads: Triads, z: float, gap: QuickAndSlow | None, limit: float
) -> tuple[str, ...]:
    from scipy.stats import norm

    far = float(norm.isf(limit))  # one-sided: only what is worse is flagged
    found = []
    if side.p_value < limit:
        found.append("side")
    if triads.verdict(limit) == "no better than guessing":
        found.append("guessing")
    if z > far:
        found.append("erratic")
    if gap is not None and gap.gap < -far * gap.deviation:
        found.append("quick")
    return tuple(found)


def in_line(answered: Answered) -> tuple[Floats, Floats]:
    """Whether each clear answer chose the likelier side (1, 0; ½ where both are as likely), and the probability of that.

    Returns:
        Two columns (n,), NaN for answers that are not clear or of which nothing is said.
    """
    first, second = answered.probabilities[:, 0], answered.probabilities[:, 2]
    said = answered.clear & ~np.isnan(first)
    right, expected = np.full(len(first), np.nan), np.full(len(first), np.nan)
    chosen = np.where(answered.labels == 1, first - second, second - first)[said]
    right[said] = np.where(chosen == 0, 0.5, chosen > 0)
    expected[said] = (np.maximum(first, second) / np.maximum(first + second, 1e-12))[said]
    return right, expected


def repeats_of(answered: Answered, code: int | None = None) -> tuple[int, int]:
    """How many questions were asked of the same person again, and how many of them were answered as the first time."""
    own = answered.judged if code is None else answered.judged & (answered.annotator == code)
    place = _place(answered)
    key = place[own] * np.int64(len(answered.annotators)) + answered.annotator[own]
    _, first, back = np.unique(key, return_index=True, return_inverse=True)
    labels = answered.labels[own]
    again = first[back.reshape(-1)] != np.arange(len(labels))
    return int(again.sum()), int((labels == labels[first[back.reshape(-1)]])[again].sum())


def counts_by_pair(answered: Answered) -> tuple[Ints, Floats]:
    """For each pair how many people gave each answer – first, equal, second –, each person's first answer about it.

    Returns:
        Place of each judged first answer's pair, −1 for others, shape (n,); and the table, shape (pairs, 3).
    """
    place = _place(answered)
    key = place * np.int64(max(1, len(answered.annotators))) + answered.annotator
    key = np.where(answered.judged, key, -1)
    _, first = np.unique(key, return_index=True)
    first = first[answered.judged[first]]
    where = np.full(len(place), -1, dtype=np.int64)
    where[first] = place[first]
    table = np.zeros((int(place.max()) + 1 if len(place) else 0, 3))
    outcome = (2 - 2 * answered.labels[first]).astype(np.int64)  # 1 → 0, ½ → 1, 0 → 2
    np.add.at(table, (place[first], outcome), 1.0)
    return where, table


def _with_others(answered: Answered) -> list[tuple[int, float]]:
    """For everybody: comparisons with others' answers about the same pairs, and the share that is alike."""
    where, table = counts_by_pair(answered)
    used = where >= 0
    outcome = (2 - 2 * answered.labels[used]).astype(np.int64)
    others = table[where[used]].sum(axis=1) - 1
    alike = table[where[used], outcome] - 1
    found = []
    for code in range(len(answered.annotators)):
        own = answered.annotator[used] == code
        total = float(others[own].sum())
        found.append((int(total), float(alike[own].sum() / total) if total else float("nan")))
    return found


def _place(answered: Answered) -> Ints:
    """Which of the different pairs each answer is about."""
    return unique_pairs(np.sort(answered.pairs, axis=1)).place


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
