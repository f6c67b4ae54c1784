"""Is it enough? The study's lead says what is; this decides, and puts it into words that every place shows alike.

Somebody who looks often enough will see what they wait for. So decisions fall only at *looks* – each `STEP` times as many answers as
the last, marked by a forecast in the model's metrics – and the error that is allowed is shared out among all looks up to the
budget: with J of them a look may be wrong with probability (1 − sure) / J, and all together with 1 − sure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from steelyard.config.enough import Enough
from steelyard.progress import duration
from steelyard.trust.accuracy import share_interval
from steelyard.trust.forecast import FIRST_LOOK, Forecast, look_count

__all__ = ["AccuracyEstimate", "Pace", "accuracy_of", "advise", "in_words", "lower_limit"]

_Z95 = 1.959963984540054
_WIDEST = 0.3  # an interval wider than 30 points says nothing that is worth a number


@dataclass(frozen=True)
class Pace:
    """How fast answers come.

    Attributes:
        seconds: that one person takes for one; NaN where it was not measured.
        people: who are at work.
    """

    seconds: float = math.nan
    people: int = 1

    def time(self, answers: int) -> str:
        """How long so many answers take, as the end of a phrase: “, 8 minutes”; empty where nobody knows."""
        if math.isnan(self.seconds):
            return ""
        seconds = max(60.0, answers * self.seconds / max(1, self.people))
        return f", {duration(seconds)}" + (f" for {self.people} people" if self.people > 1 else "")


@dataclass(frozen=True)
class AccuracyEstimate:
    """Share of unseen pairs that are ordered as people order them, and whether it is enough.

    Attributes:
        estimate: the share, None as long as it cannot be told.
        low: lower end of the 95% interval.
        high: upper end.
        pairs: random pairs that it rests on, ties left out.
        stop: whether stopping is recommended.
        sentence: estimate and advice in words.
        advice: the advice alone.
        enough: what is enough, in words.
        level: the accuracy that is asked for, None where none is.
        more: answers after which stopping will probably be recommended; None where that cannot be told.
        ahead: (answers, accuracy, low, high) as forecast, from the last look to the end of the plan; empty without a forecast.
    """

    estimate: float | None
    low: float | None
    high: float | None
    pairs: int
    stop: bool
    sentence: str
    advice: str = ""
    enough: str = ""
    level: float | None = None
    more: int | None = None
    ahead: tuple[tuple[int, float, float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def in_words(enough: Enough) -> str:
    """What is enough, as a sentence."""
    if enough.rule == "accuracy":
        return f"Enough is at least {_share(enough.least)} of unseen pairs ordered right, {_share(enough.sure)} sure."
    if enough.rule == "gain":
        rest = f"the next {enough.answers:,} answers" if enough.answers else "the rest of the plan"
        return f"Enough is when {rest} would bring less than {_points(enough.points)}, {_share(enough.sure)} sure."
    return "Enough is when the planned answers are in."


def advise(
    accuracy: tuple[float, float, float, int],
    *,
    answers: int,
    budget: int,
    enough: Enough,
    models: Sequence[Mapping[str, Any]],
    pace: Pace | None = None,
) -> AccuracyEstimate:
    """Decide, and put estimate and advice into words.

    Args:
        accuracy: estimate, low, high and random pairs of the newest model; NaN where it cannot be told.
        answers: given so far.
        budget: planned.
        enough: what is.
        models: metrics of all models, oldest first.
        pace: for the time that further answers take.
    """
    estimate, low, high, n = accuracy
    known = high - low <= _WIDEST  # not so where they are NaN
    accuracy = accuracy if known else (math.nan, math.nan, math.nan, n)
    looks = [(f, m) for f, m in ((Forecast.from_metrics(m), m) for m in models) if f is not None]
    look, metrics = looks[-1] if looks else (None, {})
    start = accuracy_of(metrics) or ((estimate, low, high) if known else None)
    ahead = tuple(look.fan(*start)) if look is not None and look.gains and start is not None else ()
    found = _Case(answers, budget, enough, look, start, ahead, pace or Pace())
    stop, advice, more = found.decide(low if known else math.nan)
    said = _accuracy_in_words(accuracy, model=bool(models))
    shown = (estimate, low, high) if known else (None, None, None)
    return AccuracyEstimate(
        estimate=shown[0], low=shown[1], high=shown[2], pairs=n, stop=stop, sentence=f"{said} {advice}", advice=advice,
        enough=in_words(enough), level=enough.least if enough.rule == "accuracy" else None, more=more, ahead=ahead,
    )  # fmt: skip


def lower_limit(estimate: float, low: float, sure: float) -> float:
    """What the accuracy exceeds with this probability, from an estimate and the lower end of its 95% interval.

    The interval is read as Wilson's of n answers, n = z²·low(1 − low)/(estimate − low)², and taken at another level.
    """
    if low >= estimate:
        return low
    n = _Z95**2 * low * (1 - low) / (estimate - low) ** 2
    if n <= 0:
        return 0.0
    z2 = NormalDist().inv_cdf(sure) ** 2
    half = math.sqrt(z2 * (estimate * (1 - estimate) / n + z2 / (4 * n * n)))
    return max(0.0, (estimate + z2 / (2 * n) - half) / (1 + z2 / n))


@dataclass(frozen=True)
class _Case:
    """Everything that a decision rests on."""

    answers: int
    budget: int
    enough: Enough
    look: Forecast | None
    start: tuple[float, float, float] | None
    ahead: tuple[tuple[int, float, float, float], ...]
    pace: Pace

    def decide(self, low: float) -> tuple[bool, str, int | None]:
        """Whether to stop, why, and after how many more answers that will probably be.

        Args:
            low: lower end of the accuracy's interval; NaN where it cannot be told.
        """
        if self.answers >= self.budget:
            return self._spent(low)
        stop, advice, more = getattr(self, f"_{self.enough.rule}")()
        if stop and not low > 0.5:
            # Nothing more to gain from a model that is no better than a coin is no reason to be content with it.
            why = (
                "How good the order is cannot be told yet."
                if math.isnan(low)
                else "So far the order may be no better than tossing a coin."
            )
            return False, f"{self._planned} {why}", None
        return stop, advice, more

    @property
    def _left(self) -> int:
        return self.budget - self.answers

    @property
    def _planned(self) -> str:
        are = "answer is" if self._left == 1 else "answers are"
        return f"{self._left:,} more {are} planned{self.pace.time(self._left)}."

    @property
    def _sure(self) -> float:
        """How sure a single look has to be."""
        return 1.0 - (1.0 - self.enough.sure) / look_count(self.budget)

    def _spent(self, low: float) -> tuple[bool, str, int | None]:
        done = f"The planned {self.budget:,} answers are in"
        if not low > 0.5:
            return (
                False,
                f"{done}, but the order may be no better than tossing a coin: plan more (ask.budget).",
                None,
            )
        if self.enough.rule == "accuracy" and not self._reached():
            wanted = f"{_share(self.enough.least)} is not surely reached"
            return False, f"{done}, but {wanted}: plan more (ask.budget), or accept that.", None
        return True, f"{done}: you can stop.", 0

    def _budget(self) -> tuple[bool, str, int | None]:
        return False, self._planned, self._left

    def _gain(self) -> tuple[bool, str, int | None]:
        if self.look is None:
            return False, f"{self._planned} {self._too_early}", None
        horizon = (
            min(self.budget, self.look.answers + self.enough.answers) if self.enough.answers else self.budget
        )
        gain = self.look.until(horizon)
        if gain is None:
            why = "This model makes no forecast of what they would bring." if not self.look.gains else (
                "More are planned than the last forecast knew; the next will say what they bring."
            )  # fmt: skip
            return False, f"{self._planned} {why}", None
        allowed = self.enough.points / 100
        what = (
            f"The next {self.enough.answers:,} answers"
            if self.enough.answers
            else "The answers still planned"
        )
        if gain.at_most(self._sure) < allowed:
            surely = f"less than {_points(self.enough.points)}, {_share(self.enough.sure)} sure"
            return True, f"{what} would bring {surely}: you can stop.", 0
        about = f"{what} may bring {_points(round(100 * gain.mean, 1), about=True)}"
        upto = f"up to {_points(math.ceil(100 * gain.at_most(0.95)))}"
        more = None if self.enough.answers else self._until_gain(gain.mean, gain.deviation, allowed)
        return False, f"{about}, {upto}. {self._when(more)}", more

    def _accuracy(self) -> tuple[bool, str, int | None]:
        wanted = _share(self.enough.least)
        if self.look is None:
            return False, f"{self._planned} {self._too_early}", None
        if self.start is None:
            return False, f"{self._planned} Whether {wanted} are ordered right cannot be told yet.", None
        if self._reached():
            sure = _share(self.enough.sure)
            return True, f"At least {wanted} are ordered right, {sure} sure: you can stop.", 0
        more = self._until_level()
        if more is None and self.ahead and self.ahead[-1][3] < self.enough.least:
            return False, f"{self._planned} They will probably not reach {wanted}.", None
        return False, f"It is not yet sure that {wanted} are ordered right. {self._when(more)}", more

    @property
    def _too_early(self) -> str:
        return f"What they would bring can be said after {FIRST_LOOK} answers and a training."

    def _reached(self) -> bool:
        return self.start is not None and lower_limit(*self.start[:2], self._sure) >= self.enough.least

    def _when(self, more: int | None) -> str:
        if more is None or more >= self._left:
            return self._planned
        return f"Enough after about {more:,} more answers{self.pace.time(more)}; {self._left:,} are planned."

    def _until_gain(self, mean: float, deviation: float, allowed: float) -> int | None:
        """Answers until what is left brings less than allowed, if all goes as forecast: deviations fall with the root of it."""
        assert self.look is not None
        if mean <= 0:
            return None
        z = NormalDist().inv_cdf(self._sure)
        for gain in self.look.gains:
            left = max(0.0, mean - gain.mean)
            if left + z * deviation * math.sqrt(left / mean) < allowed:
                return self._rounded(gain.answers - self.answers)
        return None

    def _until_level(self) -> int | None:
        """Answers until the level is surely reached, if all goes as forecast and the interval shrinks with the root of them."""
        if not self.ahead or self.start is None:
            return None
        first, (estimate, low, _) = self.ahead[0][0], self.start
        for answers, middle, _, _ in self.ahead[1:]:
            below = middle - (estimate - low) * math.sqrt(first / answers)
            if lower_limit(middle, below, self._sure) >= self.enough.least:
                return self._rounded(answers - self.answers)
        return None

    def _rounded(self, more: int) -> int:
        """To tens, as befits “about”; at least ten."""
        return max(10, math.ceil(more / 10) * 10)


def _accuracy_in_words(accuracy: tuple[float, float, float, int], *, model: bool) -> str:
    estimate, low, high, n = accuracy
    if not model:
        return "There is no model yet, so accuracy cannot be estimated."
    if n == 0:
        return "No random pair has been answered yet, so accuracy cannot be estimated."
    pairs = "1 random pair" if n == 1 else f"{n:,} random pairs"
    if math.isnan(estimate):
        return f"Accuracy cannot be told from {pairs} yet."
    return f"About {estimate:.0%} of unseen pairs are ordered as people order them ({low:.0%}–{high:.0%}, from {pairs})."


def accuracy_of(metrics: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """What the trainer estimated for a model: the share and its 95% interval; None where that says nothing.

    Models of 0.1 have no interval; theirs is Wilson's.
    """
    share, pairs = metrics.get("accuracy"), metrics.get("accuracy_pairs")
    if share is None or not pairs:
        return None
    low, high = metrics.get("accuracy_low"), metrics.get("accuracy_high")
    if low is None or high is None:
        low, high = share_interval(float(share), int(pairs))
    return (float(share), float(low), float(high)) if high - low <= _WIDEST else None


def _share(value: float) -> str:
    return f"{100 * value:g}%"


def _points(value: float, *, about: bool = False) -> str:
    return f"{'about ' if about else ''}{value:g} point{'' if value == 1 else 's'}"
