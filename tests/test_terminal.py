"""Long work is told where there is no terminal, too."""

from __future__ import annotations

import threading

import pytest

from steelyard import terminal
from steelyard.terminal import Lines, progress_bar
from tests.test_progress import Clock
from tests.waiting import until


def test_a_line_after_ten_seconds_then_one_a_minute_and_a_last_one() -> None:
    said: list[str] = []
    clock = Clock()
    lines = Lines(said.append, clock)
    for second in range(200):
        lines.report(second, 200, "features")
        lines.look()
        clock.now += 1
    lines.report(200, 200, "features")
    lines.report(1, 30, "epochs: loss 0.41")
    assert said == [
        "features 10 of 200, about 3 minutes left",
        "features 70 of 200, about 2 minutes left",
        "features 130 of 200, about 1 minute left",
        "features 190 of 200, less than a minute left",
        "features 200 of 200",
    ]


def test_short_work_says_nothing() -> None:
    said: list[str] = []
    with progress_bar(said.append) as report:
        report(0, 2, "features")
        report(2, 2, "features")
    assert said == []


def test_a_step_that_takes_long_still_gives_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing calls `report` in the meantime: the lines come by the clock."""
    monkeypatch.setattr(terminal, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(terminal, "EVERY_SECONDS", 0.0)
    said: list[str] = []
    enough = threading.Event()

    def write(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            enough.set()

    with progress_bar(write) as report:
        report(3, 30, "cells")
        assert enough.wait(30)
    assert set(said) == {"cells 3 of 30"}


def test_without_a_terminal_lines_go_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "FIRST_SECONDS", 0.0)
    told: list[str] = []
    with progress_bar() as report:
        report(3, 30, "cells")

        def seen() -> bool:
            told.append(capsys.readouterr().err)
            return "cells 3 of 30" in "".join(told)

        until(seen, "a line")
    assert capsys.readouterr().out == ""
