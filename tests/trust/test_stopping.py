"""Deciding whether it is enough, and saying so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from steelyard.config.enough import Enough, read_enough
from steelyard.trust.accuracy import share_interval
from steelyard.trust.forecast import Forecast, Gain, look_count
from steelyard.trust.stopping import AccuracyEstimate, Pace, accuracy_of, advise, in_words, lower_limit

DEFAULT = read_enough("gain:points=1")
KNOWN = (0.8, 0.72, 0.87, 90)
UNKNOWN = (math.nan, math.nan, math.nan, 3)


def model(
    answers: int, *gains: tuple[int, float, float], accuracy: tuple[float, float, float] | None = None
) -> dict[str, Any]:
    """Metrics of a model that was a look."""
    found: dict[str, Any] = {
        "answers": answers,
        "forecast": Forecast(answers, 0.75, tuple(Gain(*g) for g in gains)).to_dict(),
    }
    if accuracy is not None:
        names = ("accuracy", "accuracy_low", "accuracy_high")
        found |= dict(zip(names, accuracy, strict=True)) | {"accuracy_pairs": 90}
    return found


def said(
    accuracy: tuple[float, float, float, int] = KNOWN, enough: Enough = DEFAULT, answers: int = 100, budget: int = 500,
    models: list[dict[str, Any]] | None = None, pace: Pace | None = None,
) -> AccuracyEstimate:  # fmt: skip
    found = [{"answers": answers}] if models is None else models
    return advise(accuracy, answers=answers, budget=budget, enough=enough, models=found, pace=pace)


def test_what_would_bring_little_is_enough_and_what_may_bring_more_is_not() -> None:
    little = said(models=[model(100, (300, 0.002, 0.001), (500, 0.003, 0.001))])
    assert little.stop
    assert (
        "The answers still planned would bring less than 1 point, 90% sure: you can stop." in little.sentence
    )
    unsure = said(models=[model(100, (300, 0.002, 0.005), (500, 0.003, 0.005))])
    assert not unsure.stop, "the mean is small, but it may be more"
    assert "up to 2 points" in unsure.sentence


def test_the_error_is_shared_out_among_the_looks() -> None:
    # 90% sure at one look, but not at each of the looks that a plan of 500 answers has.
    gain = Gain(500, 0.005, 0.003)
    assert gain.at_most(0.9) < 0.01 < gain.at_most(1 - 0.1 / look_count(500))
    assert not said(models=[model(100, (500, gain.mean, gain.deviation))]).stop


def test_only_looks_decide() -> None:
    look = model(100, (500, 0.05, 0.01))
    assert not said(models=[look, {"answers": 110}]).stop
    assert said(models=[look, model(120, (500, 0.001, 0.001))], answers=130).stop


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [(UNKNOWN, "cannot be told"), ((0.4, 0.28, 0.55, 60), "no better than tossing a coin")],
)
@pytest.mark.parametrize("answers", [100, 500])
def test_nobody_may_stop_at_what_may_be_a_coin(
    accuracy: tuple[float, float, float, int], words: str, answers: int
) -> None:
    found = said(accuracy, answers=answers, models=[model(100, (500, 0.0, 0.0))])
    assert not found.stop
    assert "you can stop" not in found.sentence
    assert words in found.sentence


def test_an_interval_that_says_nothing_gives_no_number() -> None:
    found = said((1.0, 0.57, 1.0, 5), answers=20, models=[{"answers": 20}])
    assert (found.estimate, found.low, found.high, found.pairs) == (None, None, None, 5)
    assert "100%" not in found.sentence
    assert "cannot be told from 5 random pairs yet" in found.sentence
    assert accuracy_of({"accuracy": 1.0, "accuracy_pairs": 5}) is None
    assert accuracy_of({"accuracy": 0.9, "accuracy_pairs": 100}) is not None, "as 0.1 wrote it"


def test_a_level_is_reached_when_it_is_sure() -> None:
    rule = read_enough("accuracy:least=0.85")
    far = said(
        enough=rule, models=[model(100, (300, 0.03, 0.01), (500, 0.04, 0.01), accuracy=(0.8, 0.72, 0.87))]
    )
    assert not far.stop
    assert far.level == 0.85
    assert "not yet sure that 85% are ordered right" in far.sentence
    near = (0.92, 0.89, 0.945)
    there = said((*near, 300), enough=rule, models=[model(100, (500, 0.01, 0.01), accuracy=near)])
    assert there.stop
    assert "At least 85% are ordered right, 95% sure: you can stop." in there.sentence
    never = said((*near, 300), rule, 500, models=[model(400, (500, 0.0, 0.0), accuracy=(0.8, 0.77, 0.83))])
    assert not never.stop
    assert "85% is not surely reached" in never.sentence


def test_an_accuracy_that_cannot_be_told_reaches_no_level() -> None:
    found = said(UNKNOWN, read_enough("accuracy:least=0.85"), 30, models=[model(30, (500, 0.1, 0.05))])
    assert not found.stop
    assert found.ahead == ()
    assert "Whether 85% are ordered right cannot be told yet." in found.sentence
    assert "after 30 answers" not in found.sentence, "they are in"


def test_a_limit_at_the_level_of_the_interval_is_its_end() -> None:
    for share, n in ((0.8, 50), (1.0, 30), (0.55, 400)):
        low, _ = share_interval(share, n)
        assert lower_limit(share, low, 0.975) == pytest.approx(low)
        assert lower_limit(share, low, 0.999) < low < lower_limit(share, low, 0.9)
    assert lower_limit(0.9, 0.9, 0.9) == 0.9


def test_how_much_longer_is_said_in_answers_and_time() -> None:
    look = model(100, (150, 0.012, 0.003), (300, 0.018, 0.004), (500, 0.02, 0.004))
    found = said(models=[look], pace=Pace(8.0, 1))
    assert found.more is not None
    assert (
        f"Enough after about {found.more} more answers, {round(found.more * 8 / 60)} minutes; 400 are planned."
        in found.sentence
    )
    assert "for 3 people" in said(models=[look], pace=Pace(8.0, 3)).sentence
    assert Pace(1.0).time(3) == ", 1 minute"
    assert Pace(60.0).time(300) == ", 5 hours"
    assert Pace().time(3) == ""


def test_before_a_forecast_the_plan_is_told() -> None:
    assert "There is no model yet" in said(UNKNOWN, models=[]).sentence
    early = said(UNKNOWN, answers=20, models=[{"answers": 20}])
    assert "480 more answers are planned." in early.sentence
    assert "after 30 answers" in early.sentence
    other = said(models=[model(100)])  # a network was trained
    assert "makes no forecast" in other.sentence
    assert "More are planned than" in said(budget=900, models=[model(100, (500, 0.01, 0.01))]).sentence
    assert said(enough=read_enough("budget")).sentence.endswith("400 more answers are planned.")
    assert said(answers=500).sentence.endswith("The planned 500 answers are in: you can stop.")


def test_what_is_enough_is_said_in_words() -> None:
    assert in_words(read_enough("gain:points=2:answers=100:sure=0.8")) == (
        "Enough is when the next 100 answers would bring less than 2 points, 80% sure."
    )
    assert "85% of unseen pairs ordered right, 95% sure" in in_words(read_enough("accuracy:least=0.85"))
    assert in_words(read_enough("budget")) == "Enough is when the planned answers are in."


def _first_stop(rng: np.random.Generator, z: float) -> bool:
    """A study whose rest brings 1.2 points at every look: does it ever seem to be less than one?"""
    errors = np.cumsum(rng.normal(size=15)) / np.sqrt(np.arange(1, 16))  # looks are not independent
    return bool((0.012 + 0.003 * errors + z * 0.003 < 0.01).any())


def test_looking_often_does_not_stop_a_study_that_has_more_to_gain() -> None:
    rng = np.random.default_rng(0)
    budget = round(30 * 1.2**14.5)
    assert look_count(budget) == 15
    once, shared = Gain(0, 0.0, 1.0).at_most(0.9), Gain(0, 0.0, 1.0).at_most(1 - 0.1 / 15)
    runs = 2000
    assert np.mean([_first_stop(rng, shared) for _ in range(runs)]) < 0.1
    assert np.mean([_first_stop(rng, once - 0.67) for _ in range(runs)]) > 0.1, "the attack is one"


def test_the_old_rule_took_noise_for_a_plateau() -> None:
    # Estimates from 40 random pairs while the truth rises by 12 points: "less than a point over three models".
    rng = np.random.default_rng(1)
    fooled = 0
    for _ in range(200):
        truth = np.linspace(0.70, 0.82, 12)
        seen = rng.binomial(40, truth) / 40
        fooled += any(max(seen[k - 3 : k]) - seen[k - 4] < 0.01 for k in range(4, 12))
    assert fooled / 200 > 0.5
    rising = [model(20 * k, (500, 0.12 - 0.01 * k, 0.01)) for k in range(2, 12)]
    assert not any(said(models=rising[:k]).stop for k in range(1, len(rising)))
