"""Circular triads, by enumeration and by chance."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from steelyard.evaluate.triads import circular_triads


def enumerated(pairs: np.ndarray, answers: np.ndarray) -> tuple[int, int]:
    beats = {
        (int(i), int(j)) if c == 1 else (int(j), int(i))
        for (i, j), c in zip(pairs, answers, strict=True)
        if c != 0.5
    }
    images = sorted({i for pair in beats for i in pair})
    triangles = circular = 0
    for three in combinations(images, 3):
        edges = [(a, b) for a in three for b in three if (a, b) in beats]
        if len(edges) == 3:
            triangles += 1
            circular += len({a for a, _ in edges}) == 3
    return triangles, circular


def test_counts_are_those_of_an_enumeration() -> None:
    rng = np.random.default_rng(0)
    for n in (4, 9, 14):
        every = np.array(list(combinations(range(n), 2)))
        pairs = every[rng.random(len(every)) < 0.7]
        answers = rng.choice([0.0, 0.5, 1.0], len(pairs), p=[0.45, 0.1, 0.45])
        found = circular_triads(pairs, answers)
        assert (found.triangles, found.circular) == enumerated(pairs, answers)


def test_guessing_makes_a_quarter_with_the_variance_of_kendall() -> None:
    rng = np.random.default_rng(1)
    pairs = np.array(list(combinations(range(9), 2)))
    drawn = [circular_triads(pairs, rng.integers(0, 2, len(pairs))).circular for _ in range(600)]
    assert np.mean(drawn) == pytest.approx(84 / 4, rel=0.03)
    assert np.var(drawn) == pytest.approx(84 * 3 / 16, rel=0.15)


def test_verdicts() -> None:
    pairs = np.array(list(combinations(range(8), 2)))
    sound = circular_triads(pairs, np.zeros(len(pairs)))
    assert (sound.circular, sound.expected, sound.verdict()) == (0, 14, "better than guessing")
    rng = np.random.default_rng(2)
    called = [circular_triads(pairs, rng.integers(0, 2, len(pairs))).verdict() for _ in range(200)]
    assert np.mean([one == "better than guessing" for one in called]) < 0.1, "about 5% of those who guess"
    assert np.mean([one == "no better than guessing" for one in called]) > 0.4
    assert circular_triads(pairs[:3], [1, 1, 1]).verdict() == "too few"
    assert circular_triads(np.zeros((0, 2), int), []).triangles == 0
    few = circular_triads([[0, 1], [1, 2], [2, 0], [0, 1]], [1, 1, 1, 0])
    assert (few.triangles, few.circular) == (1, 1), "the first answer about a pair counts"
