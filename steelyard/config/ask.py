"""`[ask]`: what is asked, of whom, and how much."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from steelyard.config.budget import Budget, planned_answers, read_budget
from steelyard.config.enough import Enough, read_enough
from steelyard.config.section import AtLeastOne, Expect, Section, Share
from steelyard.config.strategies import ALIASES, WEIGH_NO_PAIRS, is_strategy, plugins, unknown_strategy
from steelyard.errors import ConfigError, did_you_mean

__all__ = ["ANY_STRATEGY", "STARTS", "AskConfig", "ask_preset", "not_a_start"]

ANY_STRATEGY = {"any_strategy": True}
"""Context of a validation that takes strategies which are not installed here."""

STARTS = ("spread", "clusters", "random")
"""Strategies of ours that need no model."""


def not_a_start(name: str) -> str:
    """Why the first pairs cannot be chosen by this strategy, as the end of a sentence; empty where they can."""
    if name in STARTS or name in plugins():
        return ""
    return f"is one of {', '.join(STARTS)}, or a plug-in that is installed here; not {name!r}{did_you_mean(name, STARTS)}"


class AskConfig(Section):
    """What is asked, of whom, and how much.

    Attributes:
        strategy: how pairs are chosen once there is a model: `epig` asks what teaches most about the order of all images; the
            others are in docs/acquire.md, or a plug-in's.
        start: how the first pairs are chosen: `spread` over the features, one image of each of many `clusters` of them, `random` (the paper),
            or a plug-in that needs no model.
        start_share: first pairs, as a share of the number of images; 500 at a time where every answer moves the next question.
        round_share: pairs a round, as a share of the number of images (the paper's s).
        mode: `rounds` (choose a batch, retrain) or `continuous` (every answer moves the next question).
        budget: answers after which the study is done: up to 1 a share of the number of images, from each rater (0.5 is half as
            many); a whole number from 2 on is answers in all (120); a percentage in a text is a larger share (`"300%"`).
        enough: when to stop earlier: `gain:points=1`, `accuracy:least=0.85` or `budget`.
        random_share: share of pairs drawn at random and held back to estimate accuracy.
        repeat_share: share of pairs asked again, so that agreement can be measured.
        raters: different people asked about each pair.
        reading: `plain` asks as many people as `raters` says; `two_plus_one` asks two, and where they differ a lead decides
            (page *Adjudicate*); `two_plus_annotator` asks two, where they differ a third, and a lead where all three do.
        second_opinions: ask somebody else about a pair once more wherever that is expected to teach more than a new pair; `raters`
            is then the least. It needs two people or more, and a strategy that weighs pairs (docs/acquire.md).
        reselect: may images that were already compared be chosen again (the paper: yes).
        noise: how much chance goes into the choice (Gumbel noise, as in PowerBALD); 0 takes the best.
        lease_seconds: seconds that a handed-out pair waits for its answer before somebody else may get it.
    """

    place: ClassVar[str] = "ask"

    strategy: str = "epig"
    start: str = "spread"
    start_share: Share = 0.05
    round_share: Share = 0.05
    mode: Literal["rounds", "continuous"] = "continuous"
    budget: Annotated[Budget, Expect('a share, a number of answers, or a percentage as in "300%"')] = 0.5
    enough: str = "gain:points=1"
    random_share: Share = 0.1
    repeat_share: Share = 0.0
    raters: AtLeastOne = 1
    reading: Literal["plain", "two_plus_one", "two_plus_annotator"] = "plain"
    second_opinions: bool = False
    reselect: bool = True
    noise: Annotated[float, Field(ge=0), Expect("0 or more")] = 0.0
    lease_seconds: AtLeastOne = 900

    @field_validator("strategy")
    @classmethod
    def _is_installed(cls, name: str, info: ValidationInfo) -> str:
        if not info.context and not is_strategy(name):
            raise ValueError(f"'ask.strategy': {unknown_strategy(name)}; a plug-in has to be installed here")
        return name

    @field_validator("start")
    @classmethod
    def _needs_no_model(cls, name: str, info: ValidationInfo) -> str:
        if not info.context and (why := not_a_start(name)):
            raise ValueError(f"'ask.start' {why}")
        return name

    @field_validator("budget", mode="before")
    @classmethod
    def _is_a_plan(cls, given: Any) -> Budget:
        try:
            return read_budget(given)
        except ConfigError as error:
            raise ValueError(f"'ask.budget' {error}") from None

    @field_validator("enough")
    @classmethod
    def _can_be_read(cls, text: str) -> str:
        try:
            read_enough(text)
        except ConfigError as error:
            raise ValueError(f"'ask.enough' {error}") from None
        return text

    def planned(self, images: int) -> int:
        """Answers after which a study of so many images is done."""
        return planned_answers(self.budget, images=images, raters=self.raters)

    @property
    def stopping(self) -> Enough:
        """`enough`, read."""
        return read_enough(self.enough)

    def conflict(self) -> str:
        """Why these values cannot stand together; empty where they can."""
        if self.random_share + self.repeat_share > 1:
            return "'ask.random_share' and 'ask.repeat_share' add up to more than 1; lower one of them"
        if self.second_opinions and ALIASES.get(self.strategy, self.strategy) in WEIGH_NO_PAIRS:
            return (
                f"'ask.second_opinions' is true, but 'ask.strategy' {self.strategy!r} does not weigh pairs against each other; "
                'set strategy = "epig", or second_opinions to false'
            )
        if self.reading != "plain" and self.second_opinions:
            return (
                f"'ask.reading' is {self.reading!r}, which says itself who is asked again, but 'ask.second_opinions' is true; "
                'set it to false, or reading = "plain"'
            )
        if self.reading != "plain" and self.raters != 2:
            return (
                f"'ask.reading' is {self.reading!r}, which asks two people about each pair, but 'ask.raters' is {self.raters}; "
                'set raters = 2, or reading = "plain" to ask everybody alike'
            )
        return ""


_PRESETS: dict[str, dict[str, Any]] = {
    # The paper as it is: 20% at random, six rounds of 5% by uncertainty, 50% in the end, one perfect annotator.
    "paper": {
        "strategy": "variance", "start": "random", "start_share": 0.20, "round_share": 0.05, "mode": "rounds",
        "budget": 0.5, "random_share": 0.0,
    },
    "small": {"strategy": "variance", "mode": "rounds"},
    "tuned": {"strategy": "variance", "mode": "rounds"},
}  # fmt: skip


def ask_preset(preset: str) -> AskConfig:
    """How a preset asks.

    >>> ask_preset("paper").strategy
    'variance'
    """
    return AskConfig(**_PRESETS.get(preset, {}))
