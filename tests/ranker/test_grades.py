"""GradeScale: against statsmodels and scikit-learn, and with next to no data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from statsmodels.miscmodels.ordinal_model import OrderedModel

from steelyard.errors import RankerError
from steelyard.ranker.grades import GradeScale, round_scores
from steelyard.ranker.likelihood import sigmoid


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def graded(
    rng: np.random.Generator, n: int, cuts: tuple[float, ...] = (-2.0, 0.5, 3.0)
) -> tuple[np.ndarray, np.ndarray]:
    scores = rng.standard_normal(n) * 3
    noise = rng.logistic(size=n) / 2
    return scores, np.searchsorted(cuts, scores + noise)


def test_rounding_is_the_papers() -> None:
    np.testing.assert_array_equal(round_scores([1.7, -0.6, 0.49, 2.5, 8.0], 4), [2, 0, 0, 3, 3])
    scale = GradeScale.fit([], [], 4, method="rounding")
    plain = scale.predict([1.7, -5.0, 8.0])
    np.testing.assert_array_equal(plain.grades, [2, 0, 3])
    np.testing.assert_array_equal(plain.low, plain.high)
    np.testing.assert_array_equal(plain.probabilities, np.eye(4)[[2, 0, 3]])
    unsure = scale.predict([1.7], [1.0])
    assert (unsure.low[0], unsure.grades[0], unsure.high[0]) == (0, 2, 3)
    np.testing.assert_allclose(unsure.probabilities.sum(1), 1.0)


def test_ordinal_is_statsmodels(rng: np.random.Generator) -> None:
    scores, grades = graded(rng, 3000)
    scale = GradeScale.fit(scores, grades, 4)
    result = OrderedModel(grades, scores[:, None], distr="logit").fit(method="bfgs", disp=False)
    slope = float(result.params[0])
    thresholds = result.model.transform_threshold_params(result.params)[1:-1]
    assert scale.slope == pytest.approx(slope, rel=0.01)
    np.testing.assert_allclose(scale.cuts, thresholds / slope, atol=0.02)
    np.testing.assert_allclose(
        scale.predict(scores).probabilities, result.predict(scores[:, None]), atol=0.01
    )
    np.testing.assert_allclose(scale.cuts, (-2.0, 0.5, 3.0), atol=0.2)


def test_isotonic_is_scikit_learns(rng: np.random.Generator) -> None:
    scores, grades = graded(rng, 400)
    probabilities = GradeScale.fit(scores, grades, 4, method="isotonic").predict(scores).probabilities
    for k in range(3):
        oracle = IsotonicRegression().fit_transform(scores, grades > k)
        np.testing.assert_allclose(probabilities[:, k + 1 :].sum(1), oracle, atol=1e-9)


def test_the_grade_changes_at_the_cut_points(rng: np.random.Generator) -> None:
    scale = GradeScale.fit(*graded(rng, 300), 4)
    around = np.ravel([[c - 1e-3, c + 1e-3] for c in scale.cuts])
    np.testing.assert_array_equal(scale.predict(around).grades, [0, 1, 1, 2, 2, 3])
    np.testing.assert_array_equal(scale.predict(around, np.full(6, 5.0)).grades, [0, 1, 1, 2, 2, 3])


def test_uncertain_scores_have_wider_intervals_that_hold(rng: np.random.Generator) -> None:
    scores, grades = graded(rng, 4000)
    for method in ("ordinal", "isotonic"):
        seen = scores + rng.standard_normal(4000) * 2
        scale = GradeScale.fit(scores[:2000], grades[:2000], 4, method=method)
        narrow, wide = scale.predict(seen[2000:]), scale.predict(seen[2000:], np.full(2000, 2.0))
        assert (wide.high - wide.low).mean() > (narrow.high - narrow.low).mean()
        inside = (wide.low <= grades[2000:]) & (grades[2000:] <= wide.high)
        assert inside.mean() > 0.88
        assert ((narrow.low <= grades[2000:]) & (grades[2000:] <= narrow.high)).mean() < inside.mean()


def test_cut_points_hold_when_uncertainty_is_integrated(rng: np.random.Generator) -> None:
    scale = GradeScale("ordinal", 3, cuts=(0.0, 1.0), slope=2.0)
    draws = 0.4 + 0.8 * rng.standard_normal(200_000)
    exact = np.mean(sigmoid(2.0 * (draws[:, None] - np.array([0.0, 1.0]))), axis=0)
    probabilities = scale.predict([0.4], [0.8]).probabilities[0]
    np.testing.assert_allclose([probabilities[1:].sum(), probabilities[2]], exact, atol=0.02)


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 4)), min_size=1, max_size=12),
    method=st.sampled_from(["ordinal", "isotonic"]),
)
def test_next_to_no_data_still_gives_an_ordered_scale(data: list[tuple[float, int]], method: str) -> None:
    scores, grades = (np.array(column) for column in zip(*data, strict=True))
    scale = GradeScale.fit(scores, grades, 5, method=method)  # type: ignore[arg-type]
    at = np.linspace(-60, 60, 41)
    result = scale.predict(at, np.full(41, 1.0))
    assert (np.diff(result.grades) >= 0).all()
    assert (result.low <= result.grades).all()
    assert (result.grades <= result.high).all()
    np.testing.assert_allclose(result.probabilities.sum(1), 1.0)
    assert (result.probabilities >= 0).all()


def test_a_grade_nobody_has_keeps_its_room(rng: np.random.Generator) -> None:
    scale = GradeScale.fit([-2.0, -1.8, -2.1, 2.0, 1.9, 2.2], [0, 0, 0, 2, 2, 2], 4)
    assert (np.diff(scale.cuts) > 0.1).all()
    np.testing.assert_array_equal(scale.predict([-2.0, 2.0]).grades, [0, 2])


def test_dictionary_and_back(rng: np.random.Generator) -> None:
    scores, grades = graded(rng, 50)
    for method in ("ordinal", "isotonic", "rounding"):
        scale = GradeScale.fit(scores, grades, 4, method=method)
        assert GradeScale.from_dict(json.loads(json.dumps(scale.to_dict()))) == scale
    with pytest.raises(RankerError, match="cuts"):
        GradeScale.from_dict({"method": "ordinal", "n_grades": 3})


@pytest.mark.parametrize(
    ("scores", "grades", "n_grades", "method", "message"),
    [
        ([], [], 3, "ordinal", "at least one"),
        ([1.0], [1, 2], 3, "ordinal", "one grade"),
        ([1.0], [3], 3, "ordinal", "0 … 2"),
        ([1.0], [0.5], 3, "ordinal", "codes"),
        ([1.0], [0], 1, "ordinal", "2 or more"),
        ([np.nan], [0], 3, "ordinal", "finite"),
        ([1.0], [0], 3, "guess", "guess"),
    ],
)
def test_bad_input_is_named(
    scores: list[float], grades: list[int], n_grades: int, method: str, message: str
) -> None:
    with pytest.raises(RankerError, match=message):
        GradeScale.fit(scores, grades, n_grades, method=method)  # type: ignore[arg-type]


def test_a_level_is_a_probability() -> None:
    with pytest.raises(RankerError, match="level"):
        GradeScale("rounding", 3).predict([1.0], level=1.0)
