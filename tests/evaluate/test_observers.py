"""Real observers: figures agree with independent computations where they overlap."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import choix
import evalica
import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa
from statsmodels.stats.proportion import proportion_confint

from steelyard.evaluate import agreement
from steelyard.evaluate.figures import figures_of
from steelyard.evaluate.krippendorff import krippendorff_alpha
from steelyard.evaluate.reliability import Answered, counts_by_pair, people_of
from steelyard.ranker.bradley_terry import likeliest_scores

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from observers import expected, read, select

pytestmark = pytest.mark.realdata


def by_person(told: Answered) -> np.ndarray:
    """A person's first answer about each pair, NaN for none, shape (people, pairs); by a loop."""
    different, place = np.unique(told.pairs, axis=0, return_inverse=True)
    table = np.full((len(told.annotators), len(different)), np.nan)
    for who, where, said in zip(told.annotator, place.reshape(-1), told.labels, strict=True):
        if np.isnan(table[who, where]):
            table[who, where] = said
    return table


@pytest.mark.parametrize(("name", "people", "alpha"), [("tmo", 18, 0.303155), ("lf", 29, 0.294656)])
def test_figures_of_published_experiments(name: str, people: int, alpha: float) -> None:
    """α is what the package krippendorff 0.8 says of the same table."""
    told, _ = read(name)
    table = by_person(told)
    assert krippendorff_alpha(counts_by_pair(told)[1], "nominal") == pytest.approx(alpha, abs=1e-6)
    assert krippendorff_alpha(counts_by_pair(told)[1], "ordinal") == pytest.approx(alpha, abs=1e-6), "no ties"
    for one, other in list(combinations(range(people), 2))[:40]:
        both = ~np.isnan(table[one]) & ~np.isnan(table[other])
        if both.sum() > 5:
            a, b = table[one, both], table[other, both]
            square = np.array([[np.sum((a == x) & (b == y)) for y in (0, 1)] for x in (0, 1)])
            if 0 < a.mean() < 1 and 0 < b.mean() < 1:
                assert agreement.cohen_kappa(a, b) == pytest.approx(cohens_kappa(square).kappa, abs=1e-6)
    counts = counts_by_pair(told)[1]
    most = np.bincount(counts.sum(axis=1).astype(int))[2:].argmax() + 2
    even = counts[counts.sum(axis=1) == most][:, [0, 2]]
    assert agreement.fleiss_kappa(even) == pytest.approx(fleiss_kappa(even), abs=1e-6)


def test_every_observer_of_tone_mapping() -> None:
    told, images = read("tmo")
    told = expected(told, images)
    people = people_of(told)
    assert len(people) == 18
    assert sum(person.answers for person in people) == 1213
    for person in people:
        clear = person.answers
        left = round(person.left_share * clear)  # type: ignore[operator]
        low, high = proportion_confint(left, clear, method="wilson")
        assert (person.left_low, person.left_high) == pytest.approx((low, high), abs=1e-6)
        assert 0.5 < person.infit < 1.7  # type: ignore[operator]
    flagged = {person.annotator: person.flags for person in people if person.flags}
    assert flagged == {"M02": ("erratic",), "M09": ("side",), "bab": ("erratic",)}
    figures = {figure.key: figure for figure in figures_of(told, images, np.random.default_rng(0))}
    assert figures["triads"].value == 0, "the experiment sorted, and a sort never asks what could go round"
    assert figures["infit"].value == pytest.approx(1, abs=0.1)
    assert figures["side"].value == pytest.approx(0.5276, abs=5e-4)


def test_scores_are_those_of_choix_and_evalica() -> None:
    told, images = read("tmo")
    won = np.where((told.labels == 1)[:, None], told.pairs, told.pairs[:, ::-1])
    oracle = choix.opt_pairwise(images, [tuple(map(int, pair)) for pair in won], alpha=0.5 / 4, tol=1e-10)
    assert likeliest_scores(told.pairs, told.labels, images, prior=2.0) == pytest.approx(oracle, abs=1e-3)
    scene = select(told, (told.pairs < 7).all(axis=1))  # conditions are sorted by scene, seven each
    assert len(np.unique(scene.pairs)) == 7
    names = np.array([f"c{k}" for k in range(7)])
    winner = [evalica.Winner.X if said == 1 else evalica.Winner.Y for said in scene.labels]
    found = evalica.bradley_terry(
        names[scene.pairs[:, 0]].tolist(), names[scene.pairs[:, 1]].tolist(), winner, tolerance=1e-12, limit=100_000
    )  # fmt: skip
    plain = np.log(found.scores.sort_index().to_numpy())
    ours = likeliest_scores(scene.pairs, scene.labels, 7, prior=1e3)
    assert ours - ours.mean() == pytest.approx(plain - plain.mean(), abs=1e-3)
