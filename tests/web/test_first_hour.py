"""The first minutes of a new study, by the real commands in a real browser; a short form of benchmarks/first_hour.py."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from steelyard.loop.policy import FEW


@pytest.mark.browser
@pytest.mark.slow
def test_from_a_folder_to_scores_without_a_word_of_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any
) -> None:
    """Features come with `init`, so pairs are chosen from the start, and a model comes by itself after twenty answers."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    first_hour = importlib.import_module("first_hour")
    first_hour.draw_images(tmp_path / "images", 60, 96)
    found = first_hour.walk(tmp_path / "images", tmp_path / "my study", browser, seconds=0.0)
    assert found["init"] < found["link"] < found["first pair"] < found["20 answers"] <= found["scores"]
    assert found["random before it"] <= FEW, "no more than a handful, while the trainer starts"
    assert found["first model"] < found["scores"]
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert len(scores) == 60
    assert sorted(scores["rank"]) == list(range(1, 61))
