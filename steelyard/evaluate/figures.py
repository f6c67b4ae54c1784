"""Figures about everybody's answers together, each with its interval and one plain sentence: what it means, what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steelyard.evaluate.agreement import fleiss_kappa, side_bias
from steelyard.evaluate.krippendorff import Estimate, agreement_interval, alpha_interval
from steelyard.evaluate.misfit import misfit
from steelyard.evaluate.reliability import Answered, counts_by_pair, in_line, repeats_of
from steelyard.evaluate.separation import FEWEST, Separation, separation
from steelyard.evaluate.shares import share_interval
from steelyard.evaluate.speed import quick_and_slow, quicker_half
from steelyard.evaluate.triads import ENOUGH, Triads, circular_triads
from steelyard.pairs import unique_pairs
from steelyard.progress import counted

__all__ = ["Figure", "figures_of"]

FIRM, TENTATIVE = 0.8, 0.667
"""Krippendorff's own limits: conclusions are firm from .8 on and tentative from .667 on."""


@dataclass(frozen=True)
class Figure:
    """One figure about a study's answers.

    Attributes:
        key: its name for programs.
        name: its name for people.
        value: the figure; None where there is nothing to tell it from.
        low: lower end of its 95% interval, None where it has none.
        high: upper end.
        percent: whether it is a share.
        means: a sentence.
    """

    key: str
    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    percent: bool = False
    means: str = ""

    @property
    def shown(self) -> str:
        """The figure with its interval, for people."""
        if self.value is None:
            return "–"
        value, low, high = (self._one(x) for x in (self.value, self.low, self.high))
        return value if self.low is None or self.high is None else f"{value} ({low} to {high})"

    def _one(self, value: float | None) -> str:
        if value is None:
            return ""
        rounded = round(value, 2) + 0.0  # no minus before a zero
        return (f"{rounded:.0%}" if self.percent else f"{rounded:.2f}").replace("-", "−")

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "shown": self.shown}


def figures_of(answered: Answered, images: int, rng: np.random.Generator) -> list[Figure]:
    """All figures, in the order in which they are read.

    Args:
        answered: the answers.
        images: N.
        rng: for intervals.
    """
    return [
        *_between(answered, rng),
        _within(answered),
        *_triangles(answered),
        _side(answered),
        *_pace(answered),
        _surprise(answered),
        _separated(answered, images, rng),
    ]


def _between(answered: Answered, rng: np.random.Generator) -> list[Figure]:
    table = counts_by_pair(answered)[1]
    shared = table[table.sum(axis=1) >= 2] if len(table) else np.zeros((0, 3))
    names = (
        ("agreement", "Raw agreement"), ("alpha_ordinal", "Krippendorff’s α, ordinal"),
        ("alpha_nominal", "Krippendorff’s α, nominal"), ("fleiss", "Fleiss’ κ"),
    )  # fmt: skip
    if not len(shared):
        alone = "Nobody has answered a pair that somebody else answered too. Set [ask] raters = 2, or import answers of others."
        return [
            Figure(key, name, None, percent=key == "agreement", means=alone if key == "agreement" else "")
            for key, name in names
        ]
    raw = agreement_interval(shared, rng)
    ordinal, nominal = alpha_interval(shared, "ordinal", rng), alpha_interval(shared, "nominal", rng)
    kappa = fleiss_kappa(shared)
    how = f"On {counted(len(shared), 'pair')} that several people answered, two of them said the same in {raw.value:.0%} of cases."
    how += " Guessing gives about half." if not shared[:, 1].any() else " Guessing gives half at most."
    return [
        Figure("agreement", names[0][1], raw.value, raw.low, raw.high, percent=True, means=how),
        _estimated("alpha_ordinal", names[1][1], ordinal, _alpha_words(*ordinal)),
        _estimated("alpha_nominal", names[2][1], nominal, _NOMINAL),
        Figure(
            "fleiss", names[3][1], _plain(kappa),
            means="Much the same as nominal α, for comparison with what others publish.",
        ),
    ]  # fmt: skip


_NOMINAL = "The same with every disagreement as bad as any other; with ordinal α, left against right is worse than left against equal."


def _estimated(key: str, name: str, found: Estimate, means: str) -> Figure:
    return Figure(key, name, _plain(found.value), _plain(found.low), _plain(found.high), means=means)


def _alpha_words(value: float, low: float, high: float) -> str:
    if np.isnan(value):
        return "Everybody always said the same, so chance would have done as well; ask about more pairs."
    scale = "1 is perfect agreement, 0 what chance gives; pairs that a strategy chose are close calls, on which people agree less."
    if high - low > 0.5:
        return (
            f"{scale} The interval is too wide to say more: let several people answer more of the same pairs."
        )
    if value >= FIRM:
        return f"{scale} High: conclusions from these answers are firm."
    if value >= TENTATIVE:
        return f"{scale} Fair: conclusions are tentative. Look at pairs on which people disagree and sharpen the question."
    return f"{scale} Low: people see different things, or these pairs are too close to call. Look at some together, and sharpen the question."


def _within(answered: Answered) -> Figure:
    repeats, alike = repeats_of(answered)
    if not repeats:
        text = "Nobody was asked the same question twice. Set [ask] repeat_share = 0.05 to ask some again."
        return Figure("repeats", "Agreement with oneself", None, percent=True, means=text)
    share = alike / repeats
    low, high = share_interval(share, repeats)
    advice = (
        "Agreement with others is hardly ever higher, so this is the most that can be hoped for there."
        if share >= 0.7
        else "Many answers are guesses: allow breaks, ask for a tie where nothing is to choose, or leave out the closest pairs."
    )
    return Figure(
        "repeats", "Agreement with oneself", share, low, high, percent=True,
        means=f"Asked the same question again, people gave the same answer {counted(alike, 'time')} in {repeats:,}. {advice}",
    )  # fmt: skip


def _triangles(answered: Answered) -> list[Figure]:
    """Of each person's own answers, added up; and of what most people say about each pair."""
    own = [
        circular_triads(answered.pairs[answered.annotator == k], answered.labels[answered.annotator == k])
        for k in range(len(answered.annotators))
    ]
    together = _added(own)
    used = answered.judged
    unique, _, place, count = unique_pairs(np.sort(answered.pairs[used], axis=1))
    turned = answered.pairs[used][:, 0] > answered.pairs[used][:, 1]
    said = np.where(turned, 1 - answered.labels[used], answered.labels[used])
    mean = np.bincount(place, said, minlength=len(unique)) / count
    majority = circular_triads(unique, mean)
    return [
        _triangle("triads", "Circular triads, each person’s own", together),
        _triangle("triads_majority", "Circular triads, of what most say", majority),
    ]


def _added(parts: list[Triads]) -> Triads:
    from scipy.stats import binom

    triangles, circular = sum(p.triangles for p in parts), sum(p.circular for p in parts)
    if not triangles:
        return Triads(0, 0, 1.0, 1.0)
    guessing, sound = binom.cdf(circular, triangles, 0.25), binom.sf(circular - 1, triangles, 0.125)
    return Triads(triangles, circular, float(guessing), float(sound))


def _triangle(key: str, name: str, found: Triads) -> Figure:
    if found.triangles < ENOUGH:
        text = (
            f"{counted(found.triangles, 'three', 'threes')} of images with all three pairs answered: too few to say anything; "
            f"{ENOUGH} are needed. Pairs are chosen for what they teach, and seldom close a triangle."
        )
        return Figure(key, name, None, percent=True, means=text)
    share = found.circular / found.triangles
    low, high = share_interval(share, found.triangles)
    verdict = {
        "better than guessing": "People follow one scale.",
        "undecided": "That may still be guessing: wait for more answers.",
        "no better than guessing": "That is no better than guessing: is there one scale in this question at all? Sharpen it.",
        "too few": "",
    }[found.verdict()]
    return Figure(
        key, name, share, low, high, percent=True,
        means=f"{found.circular:,} of {found.triangles:,} threes go round (A over B over C over A); guessing makes {found.expected:,.0f} (25%). {verdict}",
    )  # fmt: skip


def _side(answered: Answered) -> Figure:
    clear = answered.clear
    left = int(((answered.labels == 1) == answered.left_first)[clear].sum())
    found = side_bias(left, int(clear.sum()) - left)
    if not clear.any():
        return Figure("side", "Left chosen", None, percent=True, means="Nobody has chosen a side yet.")
    text = "Sides are drawn by chance, so half is expected. " + (
        "The left or the right is preferred: look who does, and whether both pictures look the same on their screen."
        if found.p_value < 0.05
        else "No sign that a side is preferred."
    )
    return Figure("side", "Left chosen", found.share, found.low, found.high, percent=True, means=text)


def _pace(answered: Answered) -> list[Figure]:
    known = ~np.isnan(answered.seconds)
    median = float(np.median(answered.seconds[known])) if known.any() else None
    pace = Figure(
        "seconds", "Seconds an answer", median,
        means="The median from seeing a pair to answering it; half of the answers are quicker."
        if known.any() else "When pairs were shown is not known (imported answers).",
    )  # fmt: skip
    right, expected = in_line(answered)
    used = ~np.isnan(right) & known
    found = quick_and_slow(
        quicker_half(answered.seconds, answered.annotator)[used], right[used], expected[used]
    )
    name = "Quick answers against slow ones"
    if found is None:
        return [
            pace,
            Figure("quick_gap", name, None, percent=True, means="Too few answers with a time to compare."),
        ]
    text = (
        f"In line with {answered.against}: {found.quick:.0%} of the quicker half (expected of these pairs {found.quick_expected:.0%}), "
        f"{found.slow:.0%} of the slower half (expected {found.slow_expected:.0%}). "
    )
    text += (
        "Quick answers are worse than their pairs explain: ask people to take their time."
        if found.high < 0
        else "Slow answers are worse than their pairs explain; people may tire or waver."
        if found.low > 0
        else "Haste does no harm that could be seen."
    )
    return [pace, Figure("quick_gap", name, found.gap, found.low, found.high, percent=True, means=text)]


def _surprise(answered: Answered) -> Figure:
    fit = misfit(answered.probabilities, answered.labels, np.zeros(len(answered.labels), dtype=np.int64), 1)
    if np.isnan(fit.overall):
        return Figure(
            "infit", "Infit", None, means="There is nothing yet that answers could be held against."
        )
    text = f"How much answers surprise {answered.against}, which did not see them: 1 is as much as its own probabilities say. "
    if fit.overall > 1.2:
        text += "Above 1.2 answers are more erratic than it takes them to be; look who is."
    elif fit.overall < 0.8:
        text += (
            "Below 0.8 answers are more regular than it takes them to be; its probabilities are too cautious."
        )
    else:
        text += "Between 0.8 and 1.2 all is well; single people are held against the others below."
    return Figure("infit", "Infit", fit.overall, means=text)


def _separated(answered: Answered, images: int, rng: np.random.Generator) -> Figure:
    name = "Scale separation (SSR), random pairs"
    used = answered.random & answered.judged
    found: Separation | None = None
    if int(used.sum()) >= FEWEST:
        found = separation(answered.pairs[used], answered.labels[used], images, rng)
    why = "Only pairs drawn at random count: of pairs that a strategy chose, SSR is too high whatever people do."
    if found is None:
        text = f"{counted(int(used.sum()), 'answer')} about random pairs, {FEWEST} are needed. {why}"
        return Figure("separation", name, None, means=text)
    each = 2 * found.answers / found.images
    text = (
        f"Scores made from these {counted(found.answers, 'random answer')} alone ({counted(found.images, 'image')}, {each:.1f} "
        f"answers each) would have {found.value:.0%} of their differences in common with the true ones. {why} "
    )
    text += (
        "It is about these few answers, not about the model's scores; raise [ask] random_share to measure it better."
        if each < 6
        else "Above .8 images are told apart well."
    )
    return Figure("separation", name, found.value, found.low, found.high, means=text)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
