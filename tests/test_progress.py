"""Forecasts of long work, and how they are put into words."""

from __future__ import annotations

import pytest

from steelyard.progress import Pace, duration, how_far


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_steady_work_is_forecast_exactly() -> None:
    clock = Clock()
    pace = Pace(clock)
    for done in range(0, 41, 4):
        pace.reached(done, 100)
        clock.now += 2
    clock.now -= 2
    assert pace.left == pytest.approx(30)  # 2 a second, 60 to go


def test_what_was_there_before_took_no_time() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.reached(900, 1000)  # from the cache
    clock.now += 10
    pace.reached(910, 1000)
    assert pace.left == pytest.approx(90)


def test_nothing_is_forecast_from_nothing() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.left is None
    pace.reached(0, 10)
    assert pace.left is None
    clock.now += 30
    pace.reached(0, 10)
    assert pace.left is None


def test_the_last_minute_counts_and_a_halt_shows() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.reached(0, 1000)
    for done in range(1, 601):  # quick for ten minutes, one a second
        clock.now += 1
        pace.reached(done, 1000)
    assert pace.left == pytest.approx(400, rel=0.02)
    for done in range(601, 621):  # then another program takes the machine: one in ten seconds
        clock.now += 10
        pace.reached(done, 1000)
    assert pace.left == pytest.approx(3800, rel=0.05)
    clock.now += 600
    assert pace.left > 20_000  # type: ignore[operator]


def test_other_work_starts_anew() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.reached(0, 10)
    clock.now += 10
    pace.reached(10, 10)
    pace.reached(0, 500)
    clock.now += 10
    pace.reached(5, 500)
    assert pace.left == pytest.approx(990)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute"), (44, "less than a minute"), (46, "1 minute"), (100, "2 minutes"), (3600, "60 minutes"),
        (7200, "2 hours"), (90_000, "25 hours"),
    ],
)  # fmt: skip
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_phrase_for_every_stage_of_work() -> None:
    assert how_far(0, 0, "waiting for somebody") == "waiting for somebody"
    assert how_far(12, 2000, "features", None) == "features 12 of 2,000"
    assert how_far(12, 2000, "features", 20) == "features 12 of 2,000, less than a minute left"
    assert how_far(2000, 2000, "features", 0) == "features 2,000 of 2,000"
