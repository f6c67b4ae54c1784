from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steelyard.errors import ExperimentError
from steelyard.splits import Split, check_split, folds, halves


@st.composite
def catalogs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(12, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = rng.integers(0, draw(st.integers(1, n)), size=n)
    grades = rng.choice(5, p=rng.dirichlet(np.ones(5)), size=n) - 1
    same = rng.integers(0, n, size=n)
    return groups, grades, same


@given(catalogs(), st.integers(3, 6), st.integers(0, 99), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_folds_rotate_and_keep_together_what_belongs_together(
    catalog: tuple[np.ndarray, np.ndarray, np.ndarray], k: int, seed: int, by_group: bool, by_cluster: bool
) -> None:
    groups, grades, same = catalog
    n = len(grades)
    together = {"groups": groups if by_group else None, "same": same if by_cluster else None}
    try:
        splits = folds(together["groups"], grades, n=n, k=k, seed=seed, same=together["same"])
    except ExperimentError:
        # Refusing is right only when everything hangs together in fewer than k lumps.
        assert by_group or by_cluster
        assume(False)
    assert len(splits) == k
    for f, split in enumerate(splits):
        assert np.array_equal(
            np.sort(np.concatenate([split.train, split.validation, split.test])), np.arange(n)
        )
        assert min(len(split.train), len(split.validation), len(split.test)) > 0
        check_split(split, **together)
        assert np.array_equal(split.validation, splits[(f + 1) % k].test)
    again = folds(together["groups"], grades, n=n, k=k, seed=seed, same=together["same"])
    assert all(np.array_equal(a.test, b.test) for a, b in zip(splits, again, strict=True))


@given(st.integers(15, 400), st.integers(3, 7), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_without_groups_every_grade_and_every_part_is_even_to_one_image(n: int, k: int, seed: int) -> None:
    grades = np.random.default_rng(seed).choice(4, p=[0.65, 0.19, 0.14, 0.02], size=n)
    parts = [split.test for split in folds(None, grades, n=n, k=k, seed=seed)]
    for grade in range(4):
        counts = [int((grades[part] == grade).sum()) for part in parts]
        assert max(counts) - min(counts) <= 1
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_patients_of_different_size_still_spread_the_rare_grade() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(200), rng.integers(5, 40, size=200))
    grades = rng.choice(4, p=[0.6, 0.25, 0.12, 0.03], size=len(groups))
    share = [
        np.bincount(grades[s.test], minlength=4) / np.bincount(grades, minlength=4)
        for s in folds(groups, grades, n=len(groups))
    ]
    assert np.abs(np.array(share) - 0.2).max() < 0.03


def test_the_seed_changes_the_folds() -> None:
    first, second = (folds(None, None, n=50, seed=seed)[0].test for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_the_note_says_what_was_kept_together() -> None:
    same = np.arange(20)
    same[7] = 3
    assert "1 clusters of near-duplicates" in folds(None, None, n=20, same=same)[0].note
    assert "not looked for" in folds(None, None, n=20)[0].note
    assert "10 groups, none in two sets" in folds(np.arange(20) // 2, None, n=20)[0].note
    assert "as well" in folds(np.arange(20) // 2, None, n=20, same=same)[0].note


def test_a_cluster_that_spans_two_groups_joins_them() -> None:
    groups = np.repeat(np.arange(10), 2)
    same = np.arange(20)
    same[19] = same[0]
    for split in folds(groups, None, n=20, same=same):
        assert any(
            {0, 1, 18, 19} <= set(rows.tolist()) for rows in (split.train, split.validation, split.test)
        )


def test_text_groups_work() -> None:
    groups = [f"patient {i % 9}" for i in range(40)]
    for split in folds(groups, None, n=40):
        check_split(split, groups)


@pytest.mark.parametrize("kind", ["image", "group", "cluster"])
def test_a_planted_leak_is_found(kind: str) -> None:
    groups, same = np.arange(30) // 3, np.arange(30)
    clean = folds(groups, None, n=30, seed=1)[0]
    check_split(clean, groups, same)
    if kind == "image":
        leaky = Split(np.append(clean.train, clean.test[0]), clean.validation, clean.test)
    elif kind == "group":
        leaky = Split(np.append(clean.train, clean.test[0]), clean.validation, clean.test[1:])
    else:
        leaky = clean
        same[clean.test[0]] = same[clean.train[0]]
    with pytest.raises(ExperimentError, match=f"leak: {kind}"):
        check_split(leaky, None if kind == "image" else groups, same)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 30, "k": 2}, "at least 3 folds, not 2"),
        ({"n": 4}, "5 folds need at least 5 images"),
        ({"n": 30, "groups": np.zeros(30)}, "5 folds need at least 5 groups, but there are 1"),
        ({"n": 30, "groups": np.zeros(29)}, r"groups have the shape \(29,\)"),
        ({"n": 30, "grades": np.zeros(31)}, r"grades have the shape \(31,\)"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        folds(arguments.pop("groups", None), arguments.pop("grades", None), **arguments)


def test_halves_share_no_group_and_no_near_duplicate_and_have_the_same_grades() -> None:
    rng = np.random.default_rng(0)
    grades = rng.choice(4, size=301, p=[0.6, 0.25, 0.12, 0.03])
    groups, same = np.arange(301) // 2, np.arange(301)
    same[7] = same[200]  # images 6, 7, 200 and 201 belong together
    choose, report = halves(groups, grades, n=301, same=same)
    assert sorted([*choose.tolist(), *report.tolist()]) == list(range(301))
    assert not set(groups[choose].tolist()) & set(groups[report].tolist())
    assert {6, 7, 200, 201} <= set(choose.tolist()) or {6, 7, 200, 201} <= set(report.tolist())
    apart = np.bincount(grades[choose], minlength=4) - np.bincount(grades[report], minlength=4)
    assert np.abs(apart).max() <= 3
    again = halves(groups, grades, n=301, same=same)
    assert (again[0] == choose).all()


def test_what_all_belongs_together_has_no_halves() -> None:
    with pytest.raises(ExperimentError, match="two groups or more"):
        halves(np.zeros(10), None, n=10)
