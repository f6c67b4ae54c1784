"""Grade intervals hold what they say on images of new groups; a short form of benchmarks/grade_sets.py."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.errors import RankerError
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.grades import GradeScale, Method
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Reduction
from steelyard.study.grading import honest_scale
from steelyard.trust.grade_sets import calibrated_scale, sentence
from steelyard.trust.without_groups import scores_without_groups

METHODS: tuple[Method, ...] = ("ordinal", "isotonic", "rounding")


def patients(rng: np.random.Generator, n: int, each: int) -> tuple[np.ndarray, ...]:
    """Scores, deviations, grades and groups: images of a patient err alike."""
    groups = np.repeat(np.arange(n), each)
    true = rng.uniform(-0.5, 3.5, n * each)
    std = rng.uniform(0.2, 1.0, n * each)
    shared = np.repeat(rng.standard_normal(n), each)
    scores = true + std * (0.7 * shared + 0.7 * rng.standard_normal(n * each))
    return scores, std, np.clip(np.round(true), 0, 3).astype(int), groups


@pytest.mark.parametrize("method", METHODS)
def test_they_hold_on_patients_nobody_has_seen(method: Method) -> None:
    covered = []
    for seed in range(16):
        rng = np.random.default_rng([seed, 1])
        scores, std, grades, groups = patients(rng, 60, 3)
        scale = calibrated_scale(scores, std, grades, groups, 4, method)
        scores, std, grades, _ = patients(rng, 300, 3)
        said = scale.predict(scores, std)
        assert (said.low <= said.grades).all()
        assert (said.grades <= said.high).all()
        covered.append(((said.low <= grades) & (grades <= said.high)).mean())
    assert 0.88 <= np.mean(covered) <= 0.935  # 61 groups promise 90 to 93.3%


def test_grades_that_the_head_was_taught_do_not_vouch_for_it() -> None:
    """In 30 directions 40 taught grades are half learnt by heart: only scores without the own group tell how far off others are."""
    held, fooled = [], []
    for seed in range(12):
        rng = np.random.default_rng([seed, 2])
        x = rng.standard_normal((1000, 30))
        true = 1.5 + x[:, :4].sum(axis=1) / 2
        grades = np.clip(np.round(true + 0.3 * rng.standard_normal(1000)), 0, 3)
        pairs = rng.integers(0, 200, (60, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        answers = (np.sign(true[pairs[:, 0]] - true[pairs[:, 1]]) + 1) / 2
        taught = np.where(np.arange(1000) < 40, grades, np.nan)
        known, new = np.arange(40), np.arange(200, 1000)
        head = ConvexHead.fit(x, pairs, answers, reduction=Reduction.identity(30), rows=x, grades=taught)
        posterior = head.posterior(rows=x)
        honest = scores_without_groups(posterior, known, np.arange(1000), pairs, answers, taught=taught)
        by_heart = posterior.mean[known], np.sqrt(posterior.variance[known])
        for scores, found in ((honest, held), (by_heart, fooled)):
            scale = calibrated_scale(*scores, grades[known], known, 4, "rounding")
            said = scale.predict(posterior.mean[new], np.sqrt(posterior.variance[new]))
            found.append(((said.low <= grades[new]) & (grades[new] <= said.high)).mean())
    assert 0.87 <= np.mean(held) <= 0.95
    assert np.mean(fooled) < np.mean(held) - 0.04


def test_groups_count_and_not_images() -> None:
    rng = np.random.default_rng(0)
    scores, std, grades, groups = patients(rng, 8, 30)
    scale = calibrated_scale(scores, std, grades, groups, 4)
    said = scale.predict(scores, std)
    assert (said.low == 0).all()
    assert (said.high == 3).all()
    assert "9 or more" in sentence(scale)
    assert "there are 8" in sentence(scale)
    scale = calibrated_scale(scores, std, grades, np.arange(240), 4)
    assert np.isfinite(scale.reach_of(0.9))
    assert "90%" in sentence(scale)
    assert "240 graded images of 240 groups" in sentence(scale)
    # Ties aside, k of n left-out images are at least as near as the k-th, and a new one is with k / (n + 1).
    np.testing.assert_allclose(scale.shares, np.arange(1, 241) / 241)


@pytest.mark.parametrize("method", METHODS)
def test_next_to_no_grades_are_every_grade(method: Method) -> None:
    scale = calibrated_scale([0.1, 2.2], [0.3, 0.3], [0, 2], [0, 1], 4, method)
    said = scale.predict([0.5], [0.1])
    assert (said.low[0], said.high[0]) == (0, 3)
    none = calibrated_scale(
        *patients(np.random.default_rng(1), 40, 1), 4, method, witnesses=np.zeros(40, dtype=bool)
    )
    assert none.predict([0.5], [0.1]).high[0] == 3


def test_higher_levels_have_wider_intervals_and_files_keep_them() -> None:
    scores, std, grades, groups = patients(np.random.default_rng(3), 120, 1)
    for method in METHODS:
        scale = calibrated_scale(scores, std, grades, groups, 4, method)
        assert GradeScale.from_dict(json.loads(json.dumps(scale.to_dict()))) == scale
        narrow, wide = scale.predict(scores, std, level=0.6), scale.predict(scores, std, level=0.95)
        assert (wide.low <= narrow.low).all()
        assert (wide.high >= narrow.high).all()
        assert (wide.high - wide.low).sum() > (narrow.high - narrow.low).sum()


def test_a_scale_of_0_1_opens_and_says_that_nobody_measured_it() -> None:
    old = {"method": "ordinal", "n_grades": 3, "cuts": [0.0, 1.0], "slope": 2.0, "knots": [], "exceed": []}
    scale = GradeScale.from_dict(old)
    assert scale.predict([0.5]).grades.tolist() == [1]
    assert "nobody has measured" in sentence(scale)


def test_shapes_are_named() -> None:
    with pytest.raises(RankerError, match="3 groups"):
        calibrated_scale([0.1, 2.2], [0.3, 0.3], [0, 1], [0, 1, 2], 4)


@pytest.mark.parametrize("multitask", [False, True])
def test_a_study_leaves_patients_out(tmp_path: Path, multitask: bool) -> None:
    rng = np.random.default_rng(5)
    severity = rng.normal(size=90)
    np.save(tmp_path / "f.npy", np.column_stack([severity, rng.normal(size=(90, 5))]).astype(np.float32))
    grades = np.clip(np.digitize(severity, [-0.5, 0.3, 1.0]), 0, 3)
    rows = [f"i{k:03d},{g},{f'p{k % 30}' if k < 60 else ''}" for k, g in enumerate(grades)]
    (tmp_path / "l.csv").write_text("\n".join(["image,grade,group", *rows]))
    catalog = sy.Catalog.from_features(tmp_path / "f.npy", tmp_path / "l.csv")
    with sy.Study.create(
        tmp_path / "study", catalog, preset="features", ranker={"multitask": multitask}
    ) as study:
        for pair in study.ask(50):
            left, right = catalog.index_of(pair.left), catalog.index_of(pair.right)
            study.tell(pair, sy.Answer.LEFT if severity[left] > severity[right] else sy.Answer.RIGHT)
        study.fit()
        for method in METHODS:
            scale = study.grade_scale(method)
            assert len(scale.reach) == 90
            assert scale.groups == 60  # thirty patients of two images, thirty images of nobody in particular
            table = study.grade(method=method)
            assert (table["grade_low"] <= table["grade"]).all()
            assert (table["grade"] <= table["grade_high"]).all()


def test_as_in_the_benchmark_on_drawn_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short form of benchmarks/grade_sets.py: a head, pairs as the default chooses them, images of unseen groups."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    grade_sets = importlib.import_module("grade_sets")
    found = []
    for seed in range(5):
        rng = np.random.default_rng([seed, 3])
        groups = np.repeat(np.arange(200), 2)
        rows = rng.normal(size=(400, 12)) + np.repeat(rng.normal(size=(200, 12)), 2, axis=0)
        severity = rows[:, :3].sum(axis=1) + rng.normal(size=400)
        grades = np.searchsorted(np.quantile(severity, [0.4, 0.7, 0.9]), severity)
        data = grade_sets.Data(rows.astype(np.float32), grades, groups, severity)
        held = grade_sets.hold(data, seed, 80)
        found += [grade_sets.measure(held, 80, method, seed) for method in METHODS]
    covered = [cell["unseen", "after"]["coverage"] for cell in found]
    assert 0.87 <= np.mean(covered) <= 0.95
    before, after = ([cell["unseen", when] for cell in found[::3]] for when in ("before", "after"))
    assert (
        np.mean([cell["coverage"] for cell in before]) > 0.95
    )  # 0.1 counted the uncertainty of scores twice
    assert np.mean([cell["size"] for cell in after]) < np.mean([cell["size"] for cell in before])


def test_a_network_is_vouched_for_by_what_it_has_not_learnt_from() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((60, 3))
    network = Posterior.closed_form(x, np.ones(3), 0.2)
    grades = np.digitize(x.sum(axis=1) + rng.normal(size=60) / 2, [-1.0, 1.0])
    pairs = np.arange(40).reshape(-1, 2)
    answers: Any = SimpleNamespace(
        pairs=pairs, labels=np.ones(20), reserved=np.repeat([False, True], [15, 5])
    )
    rows = np.arange(60)

    def scale(taught: np.ndarray | None = None) -> GradeScale:
        return honest_scale(network, rows, grades, 3, np.arange(60), answers, convex=False, taught=taught)

    found = scale()
    assert found.groups == 30  # the first thirty were learnt from; what was held back was not
    assert np.isfinite(found.reach_of(0.9))
    told = scale(grades.astype(float))  # every grade was taught: nobody is left to vouch for it
    assert not np.isfinite(told.reach_of(0.9))
    assert (told.predict(network.mean).high == 2).all()
    assert "a network" in sentence(told)
