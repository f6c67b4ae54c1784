"""Agreement between people, with themselves, with the model; the side."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.evaluate.consistency import consistency, side_in_words

NAN = float("nan")


def test_everything_agrees_as_counted_by_hand() -> None:
    pairs = [(0, 1), (0, 1), (0, 1), (2, 3), (2, 3), (4, 5)]
    labels = [1.0, 1.0, 1.0, 0.0, 1.0, NAN]
    people = [0, 1, 0, 0, 1, 1]  # ann answers (0, 1) twice
    found = consistency(
        pairs, labels, people, ["ann", "bob"], [True, False, True, True, True, True], [1.0] * 6
    )
    assert found["answers"] == 6
    assert found["could not judge"] == 1
    assert found["between people"]["pairs answered by several"] == 2
    assert found["between people"]["ann and bob"]["agreement"] == 0.5
    assert found["with themselves"] == {"ann": {"repeats": 1, "agreement": 1.0}}
    assert found["with the model"]["everybody"] == pytest.approx(4 / 5)
    assert found["with the model"]["bob"] == 1.0
    # left was chosen in answers 0 and 2 (first is left and worse) and 4; right in 1 and 3
    assert found["side"]["left"] == 3
    assert found["side"]["right"] == 2


def test_nothing_answered_is_nothing_to_say() -> None:
    found = consistency(np.empty((0, 2), int), [], [], [], [])
    assert found["answers"] == 0
    assert all(found[key] is None for key in ("between people", "with themselves", "with the model", "side"))


def test_only_ties_and_unjudged_answers_say_nothing_about_sides_or_the_model() -> None:
    found = consistency([(0, 1), (1, 2)], [0.5, NAN], [0, 0], ["ann"], [True, True], [0.3, -0.2])
    assert found["equal"] == 1
    assert found["side"] is None
    assert found["with the model"] is None


def test_the_side_is_said_in_words() -> None:
    said = side_in_words({"left": 40, "right": 10, "share left": 0.8, "p": 2e-5})
    assert said == "left was chosen 40 of 50 times; chance alone is as uneven in fewer than 1 of 100 studies: somebody may prefer a side"  # fmt: skip
    assert (
        side_in_words({"left": 1, "right": 0, "share left": 1.0, "p": None}) == "left was chosen 1 of 1 times"
    )
