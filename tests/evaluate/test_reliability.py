"""Everybody's figures: counted by hand, planted raters found, sound ones left alone."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from steelyard.evaluate.figures import Figure, figures_of
from steelyard.evaluate.people_words import about
from steelyard.evaluate.reliability import Answered, counts_by_pair, in_line, people_of, repeats_of

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from agreement import SOUND, Rater, flags, simulate

NAN = float("nan")


def by_hand() -> Answered:
    """ann and bob share (0, 1) and (2, 3); ann answers (0, 1) twice; bob cannot judge (4, 5)."""
    return Answered(
        pairs=np.array([(0, 1), (0, 1), (0, 1), (2, 3), (2, 3), (4, 5)]),
        labels=np.array([1.0, 1.0, 0.5, 0.0, 1.0, NAN]),
        annotator=np.array([0, 1, 0, 0, 1, 1]),
        annotators=("ann", "bob", "nobody"),
        left_first=np.array([True, False, True, True, True, True]),
        seconds=np.array([1.0, 2.0, 3.0, NAN, 4.0, 5.0]),
        random=np.ones(6, dtype=bool),
        probabilities=np.array([[0.6, 0.1, 0.3]] * 5 + [[NAN] * 3]),
        against="the model",
    )


def test_figures_of_two_people_as_counted_by_hand() -> None:
    told = by_hand()
    ann, bob = people_of(told)
    assert (ann.annotator, ann.answers, ann.equal, ann.cannot_judge) == ("ann", 3, 1, 0)
    assert (bob.answers, bob.cannot_judge) == (3, 1)
    assert (ann.repeats, ann.repeats_alike) == (1, 0)
    assert (bob.repeats, bob.repeats_low) == (0, None)
    assert repeats_of(told) == (1, 0)
    assert ann.seconds == 2.0
    assert ann.left_share == 0.5, "left once, right once; the tie does not count"
    assert bob.left_share == 0.5
    assert (ann.others, ann.others_alike) == (2, 0.5)
    assert (bob.others, bob.others_alike) == (2, 0.5)
    assert ann.in_line == 0.5
    assert bob.in_line == 1.0
    assert bob.in_line_expected == pytest.approx(0.6 / 0.9)
    assert ann.flags == ()
    right, expected = in_line(told)
    assert np.isnan(right).tolist() == [False, False, True, False, False, True]
    assert expected[0] == pytest.approx(2 / 3)
    where, table = counts_by_pair(told)
    assert where.tolist() == [0, 0, -1, 1, 1, -1], "a person's first answer about a pair"
    assert table.tolist() == [[2, 0, 0], [1, 0, 1], [0, 0, 0]]


def test_every_figure_has_a_sentence_and_says_what_is_missing() -> None:
    found = {f.key: f for f in figures_of(by_hand(), 6, np.random.default_rng(0))}
    assert found["agreement"].value == 0.5
    assert found["repeats"].value == 0.0
    assert found["seconds"].value == 3.0
    assert found["triads"].value is None
    assert "11 are needed" in found["triads"].means
    assert found["separation"].value is None
    assert "whatever people do" in found["separation"].means
    assert all(figure.means for figure in found.values())
    empty = Answered(
        np.zeros((0, 2), dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64), (), np.zeros(0, dtype=bool), np.zeros(0),
        np.zeros(0, dtype=bool), np.zeros((0, 3)), "",
    )  # fmt: skip
    assert people_of(empty) == []
    said = figures_of(empty, 6, np.random.default_rng(0))
    assert all(figure.value is None for figure in said)
    assert "raters = 2" in said[0].means


def test_a_simulated_study_gets_every_figure() -> None:
    told, _ = simulate(
        [SOUND] * 4, images=30, pairs=250, each=2, spread=1.5, tau=0.5, rng=np.random.default_rng(3)
    )
    found = {f.key: f for f in figures_of(told, 30, np.random.default_rng(0))}
    for key in (
        "agreement",
        "alpha_ordinal",
        "alpha_nominal",
        "repeats",
        "triads",
        "side",
        "separation",
        "quick_gap",
    ):
        figure = found[key]
        assert figure.value is not None
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high, key
        assert " to " in figure.shown
    assert found["infit"].value == pytest.approx(1.0, abs=0.15)


def test_sound_people_are_left_alone_and_planted_ones_found() -> None:
    """The short form of benchmarks/agreement.py."""
    size = {"images": 40, "pairs": 400, "each": 2, "spread": 1.5, "tau": 0.5}
    anybody, _, fit = flags(12, [SOUND] * 4, **size)  # type: ignore[arg-type]
    assert sum(anybody.values()) <= 0.5, "5% of studies for each of four flags"
    assert fit == pytest.approx([1, 1], abs=0.15)
    planted = [Rater(sharp=0.0), Rater(side=1.5), Rater(hasty=1.0), SOUND, SOUND]
    told, _ = simulate(planted, **{**size, "pairs": 1200}, rng=np.random.default_rng(1))  # type: ignore[arg-type]
    people = people_of(told)
    assert "erratic" in people[0].flags
    assert "side" in people[1].flags
    assert "quick" in people[2].flags
    assert not people[3].flags
    words = [about(person.to_dict()) for person in people]
    assert all(len(said) == len(person.flags) for said, person in zip(words, people, strict=True))
    assert "times as much as those of the others" in words[0][-1]


def test_figures_are_shown_with_proper_signs() -> None:
    assert Figure("x", "x", -0.004, -0.12, 0.11, percent=True).shown == "0% (−12% to 11%)"
    assert Figure("x", "x", 0.456).shown == "0.46"
    assert Figure("x", "x", None).shown == "–"
