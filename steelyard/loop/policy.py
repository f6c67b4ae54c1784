"""The asking policy: when to fit, when to choose pairs, how many, by which strategy, and what to do before features are there.

Everybody who asks decides here: `Study.ask`, the page, its chooser, the trainer, the command line and experiments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.acquire.needs import needs_of
from steelyard.config import AskConfig

__all__ = ["AHEAD", "AT_ONCE", "FEW", "Policy", "Schedule", "Standing", "Work"]

AHEAD = 6  # pairs a browser holds
FEW = 12  # random pairs that keep people busy while features are computed
AT_ONCE = 500
"""Pairs that are chosen at once for people who wait: twice as many take four times as long, and meanwhile people use up what
is there. About this many come quickest (docs/scaling.md)."""
_LOW = 24  # the trainer chooses again when fewer pairs are up
_QUICK = 8  # pairs; fewer are found as well by a smaller search, in a fraction of the time

Work = Literal["", "describe", "fit", "start", "choose"]


@dataclass(frozen=True)
class Schedule:
    """How many pairs have been asked by the end of each round.

    Rounded in sum, not round by round: after the last round it is r + sK of the images to the pair.

    Attributes:
        images: what may be asked about.
        r: first pairs, in % of the images.
        s: pairs per round, in % of the images.
    """

    images: int
    r: float
    s: float

    def total(self, round: int) -> int:
        """Pairs by the end of a round; round 0 is the start.

        >>> [Schedule(90, 20, 5).total(k) for k in range(4)]
        [18, 22, 27, 31]
        """
        return _rounded((self.r + self.s * round) / 100 * self.images)

    def rest_of_round(self, asked: int) -> int:
        """Pairs that are missing to the end of the round that so many asked pairs are in; never 0 where rounds have pairs."""
        if self.s <= 0 or self.images <= 0:
            return 0
        round = max(0, int((100 * asked / self.images - self.r) / self.s) - 1)
        while self.total(round) <= asked:
            round += 1
        return self.total(round) - asked


@dataclass(frozen=True)
class Standing:
    """Where a study stands, as far as the policy wants to know.

    Attributes:
        model: whether there is one.
        answered: answers that count.
        new: entries in the log of answers since the newest model.
        learnt: answers that the newest model knows.
        new_grades: entries in the log of grades since then, where grades are learnt; else 0.
        up: tells how many pairs are open.
        started: tells whether pairs of the start strategy have been put up.
        described: whether everything a ranker sees of the images has been computed.
        grown: whether images have joined, or far more been computed, since the newest model.
        some: whether enough of it has been computed to go on with what is there.
    """

    model: bool
    answered: int
    new: int
    learnt: int
    new_grades: int
    up: Callable[[], int]
    started: Callable[[], bool]
    described: bool = True
    grown: bool = False
    some: bool = False


@dataclass(frozen=True)
class Policy:
    """Decides about asking.

    Attributes:
        ask: the settings.
        images: number of images.
        learns_reserved: whether the ranker learns from pairs held back to measure accuracy, so that any number may be.
    """

    ask: AskConfig
    images: int
    learns_reserved: bool = False

    @property
    def budget(self) -> int:
        """Answers that are planned."""
        return self.ask.planned(self.images)

    @property
    def schedule(self) -> Schedule:
        """Pairs round by round."""
        # In percent without the dust of binary fractions, so that 5% of a set is the same here and in an experiment.
        return Schedule(
            self.images, round(100 * self.ask.start_share, 9), round(100 * self.ask.round_share, 9)
        )

    # ------------------------------------------------------------------ when

    def work(self, now: Standing, *, refit_after: int) -> Work:
        """What a trainer should do: describe images, fit, choose the first pairs, choose pairs on features, or nothing."""
        if (
            not now.described and not now.some
        ):  # whatever comes next waits for it, and people should hear how long
            return "describe"
        return self._with_features(now, refit_after) or ("" if now.described else "describe")

    def _with_features(self, now: Standing, refit_after: int) -> Work:
        enough = refit_after if now.model else min(refit_after, self.budget)
        # The end of the plan is learnt at once; who goes on beyond it is learnt from as before.
        ended = now.answered >= self.budget and (now.answered == self.budget or now.learnt < self.budget)
        if now.answered and (now.new >= enough or (now.new > 0 and ended)):
            return "fit"
        if now.model and (now.grown or now.new_grades >= refit_after):
            return "fit"  # images that a model knows nothing of are neither asked about nor ranked
        if not self.needs_features(self.strategy(now.model)):
            return ""
        if not now.model:
            return "" if now.started() else "start"
        return "choose" if now.answered < self.budget and now.up() < _LOW else ""

    # ------------------------------------------------------------------ how many

    def how_many(self, missing: int, *, asked: int, model: bool) -> int:
        """Pairs to choose when `missing` are wanted: the whole start or the rest of the round, or just these.

        Where every answer moves the next question, nobody waits for a start of thousands: it is chosen in parts, and what
        comes after the first model is chosen by that.

        Args:
            missing: wanted at least.
            asked: pairs put up so far.
            model: whether there is one.
        """
        if not model:
            return max(missing, self._in_parts(self.schedule.total(0) - asked))
        return max(missing, self.schedule.rest_of_round(asked)) if self.ask.mode == "rounds" else missing

    def in_one_go(self, *, asked: int, model: bool) -> int:
        """Pairs that somebody who names no number chooses: the whole start or the rest of the round, in either mode."""
        if not model and (start := self.schedule.total(0) - asked) > 0:
            return start
        return self.schedule.rest_of_round(asked)

    def by_trainer(self, *, asked: int, model: bool) -> int:
        """Pairs that the trainer chooses on features, enough for everybody who waits for them."""
        return min(max(FEW, self._in_parts(self.in_one_go(asked=asked, model=model))), self.budget)

    def _in_parts(self, n: int) -> int:
        """The next part of so many pairs; rounds are chosen whole, as the paper does."""
        return n if self.ask.mode == "rounds" else min(n, AT_ONCE)

    def left(self, *, answered: int, up: int) -> int:
        """Pairs that the budget still allows."""
        return max(0, self.budget - answered - up * self.ask.raters)

    def page_wants(self, *, people: int, up: int, answered: int, beyond: int = 0) -> int:
        """Pairs that are missing on the page, or the next part of them.

        Args:
            people: who are at work.
            up: pairs that want an answer.
            answered: answers that count.
            beyond: how many of these people go on though the planned answers are in.
        """
        # Everybody holds up to AHEAD of the pairs that are up; the same number waits for the next hand.
        target = (people + 1) * AHEAD * 2
        if up > target - max(AHEAD, people):
            return 0
        allowed = max(self.left(answered=answered, up=up), 2 * AHEAD * beyond - up)
        return min(target - up, allowed, AT_ONCE)

    # ------------------------------------------------------------------ by which strategy

    def strategy(self, model: bool) -> str:
        """How pairs are chosen before and after the first model."""
        return self.ask.strategy if model else self.ask.start

    def needs_features(self, strategy: str) -> bool:
        """Whether it has to wait for features of the images."""
        return "features" in needs_of(strategy)

    def needs_answers(self, strategy: str) -> bool:
        """Whether it has to be told what was answered so far."""
        return "answers" in needs_of(strategy)

    def for_page(
        self, n: int, *, model: bool, described: Callable[[], bool], up: Callable[[], int]
    ) -> tuple[int, str]:
        """What is chosen for people who wait; where features are needed and missing, that is left to the trainer.

        Args:
            n: pairs wanted.
            model: whether there is one.
            described: tells whether features are there.
            up: tells how many pairs are open and in nobody's hands.

        Returns:
            How many and by which strategy. None while pairs are up, and a few random ones when there is nothing else to do: nobody
            looks at an empty page while features are computed.
        """
        strategy = self.strategy(model)
        if not self.needs_features(strategy) or described():
            return n, strategy
        return (0 if up() else min(n, FEW)), "random"

    def shares(self, asked: int, strategy: str) -> dict[str, float]:
        """Shares of random and repeated pairs; before anything was asked there is nothing to repeat.

        Where accuracy is measured and measuring costs nothing, pairs asked at random are all drawn so that they measure it: one
        by one from all pairs. (The strategy `random` alone pairs a few images among themselves, as the paper does: images of
        such a pair are better known than others, and accuracy measured on it is too high by points.)
        """
        again = self.ask.repeat_share if asked else 0.0
        every = strategy == "random" and self.learns_reserved and self.ask.random_share > 0
        return {"random_share": 1.0 - again if every else self.ask.random_share, "repeat_share": again}

    def options(self, strategy: str, n: int) -> dict[str, Any]:
        """Options of a choice; strategies take those they know."""
        options: dict[str, Any] = {"noise": self.ask.noise, "reselect": self.ask.reselect}
        if n <= _QUICK and self.ask.mode == "continuous" and not self.needs_features(strategy):
            options |= {"images": 1_500, "candidates": 6_000, "targets": 1_000}  # somebody waits for it
        return options


_rounded = round  # the methods above have an argument of that name
