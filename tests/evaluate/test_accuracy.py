from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from steelyard.errors import ExperimentError
from steelyard.evaluate.accuracy import (
    TestPairs,
    accuracy,
    correct,
    draw_test_pairs,
    neighbor_names,
    neighboring_pairs,
    overall_pairs,
    rank_correlation,
)

IMBALANCED = np.repeat([0, 1, 2, 3], [650, 190, 140, 20])


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_overall_pairs_hold_every_grade_equally_often(counts: list[int], seed: int) -> None:
    grades = np.repeat(np.arange(len(counts)), counts)
    pairs = overall_pairs(grades, at_least=3000, rng=np.random.default_rng(seed))
    assert len(pairs) >= 3000
    assert (grades[pairs[:, 0]] != grades[pairs[:, 1]]).all()
    share = np.bincount(grades[pairs].ravel()) / pairs.size
    assert np.abs(share - 1 / len(counts)).max() < 0.04


def test_each_pair_of_grades_is_equally_likely_however_rare_the_grade() -> None:
    pairs = overall_pairs(IMBALANCED, at_least=20_000, rng=np.random.default_rng(0))
    grades = np.sort(IMBALANCED[pairs], axis=1)
    _, counts = np.unique(grades, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts / len(pairs) - 1 / 6).max() < 0.01


def test_overall_accuracy_approaches_the_mean_auc_of_all_pairs_of_grades() -> None:
    rng = np.random.default_rng(1)
    scores = IMBALANCED + rng.normal(0, 1.5, len(IMBALANCED))
    test = draw_test_pairs(IMBALANCED, 4, size=20_000, rng=rng)
    aucs = []
    for low in range(4):
        for high in range(low + 1, 4):
            rows = np.isin(IMBALANCED, [low, high])
            aucs.append(roc_auc_score(IMBALANCED[rows] == high, scores[rows]))
    assert accuracy(scores, IMBALANCED, test).overall == pytest.approx(np.mean(aucs), abs=0.01)


def test_neighbouring_accuracy_with_all_pairs_is_the_auc() -> None:
    rng = np.random.default_rng(2)
    grades = np.repeat([0, 1, 2], [9, 7, 5])
    scores = grades + rng.normal(size=21)
    result = accuracy(scores, grades, draw_test_pairs(grades, 3, size=100, rng=rng))
    expected = [
        roc_auc_score(grades[grades != gone] == max(keep), scores[grades != gone])
        for gone, keep in ((2, (0, 1)), (0, (1, 2)))
    ]
    assert result.by_neighbor == pytest.approx(expected)
    assert result.neighboring == pytest.approx(np.mean(expected))


def test_neighbouring_pairs_are_distinct_and_join_adjacent_grades() -> None:
    pairs = neighboring_pairs(IMBALANCED, 1, at_most=500, rng=np.random.default_rng(0))
    assert len(np.unique(pairs, axis=0)) == 500
    assert set(map(tuple, IMBALANCED[pairs].tolist())) == {(1, 2)}


def test_a_missing_grade_is_left_out_of_the_mean_and_said_to_be_missing() -> None:
    grades = np.array([0, 0, 1, 1, 3, 3])
    result = accuracy(grades, grades, draw_test_pairs(grades, 4, size=50, rng=np.random.default_rng(0)))
    assert result.by_neighbor[0] == 1.0
    assert np.isnan(result.by_neighbor[1:]).all()
    assert result.neighboring == 1.0
    assert result.overall == 1.0


def test_one_grade_only_has_no_accuracy() -> None:
    test = draw_test_pairs(np.zeros(5, dtype=int), 2, rng=np.random.default_rng(0))
    result = accuracy(np.arange(5.0), np.zeros(5, dtype=int), test)
    assert np.isnan(result.overall)
    assert np.isnan(result.neighboring)


def test_equal_scores_count_one_half() -> None:
    grades = np.array([0, 1, 2])
    pairs = np.array([[0, 1], [2, 0], [1, 2]])
    assert correct([5.0, 5.0, 4.0], grades, pairs).tolist() == [0.5, 0.0, 0.0]
    assert correct(np.zeros(3), grades, pairs).mean() == 0.5


def test_unknown_grades_are_never_drawn() -> None:
    grades = np.array([-1, 0, 0, 1, -1, 1])
    pairs = overall_pairs(grades, at_least=30, rng=np.random.default_rng(0))
    assert not np.isin(pairs, [0, 4]).any()


def test_the_same_seed_draws_the_same_pairs() -> None:
    first, second = (draw_test_pairs(IMBALANCED, 4, rng=np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first.overall, second.overall)
    assert all(np.array_equal(a, b) for a, b in zip(first.neighboring, second.neighboring, strict=True))


def test_what_cannot_be_measured_raises() -> None:
    grades = np.array([0, 1])
    with pytest.raises(ExperimentError, match="row 1 is not finite"):
        accuracy([0.0, np.nan], grades, TestPairs(np.array([[0, 1]]), ()))
    with pytest.raises(ExperimentError, match="equal grades"):
        correct([0.0, 1.0], [1, 1], [[0, 1]])


def test_rank_correlations_of_a_small_case_by_hand() -> None:
    tau, rho = rank_correlation([1.0, 2.0, 3.0, 4.0], [0, 1, 1, 0])
    # concordant 2, discordant 2, two ties in the grades → τ-b 0; ranks (1.5, 3.5, 3.5, 1.5) → ρ 0
    assert tau == pytest.approx(0.0)
    assert rho == pytest.approx(0.0)
    tau, _ = rank_correlation([1.0, 2.0, 3.0], [0, 0, 1])
    assert tau == pytest.approx(2 / np.sqrt(3 * 2))
    assert np.isnan(rank_correlation([1.0, 1.0], [0, 1])).all()


def test_neighbour_columns_are_named_by_codes() -> None:
    assert neighbor_names(4) == ["0-1", "1-2", "2-3"]
