"""Nothing of the test images reaches what is learnt or asked, and a planted leak is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import ExperimentError
from steelyard.experiment.cell import Cell, check_leaks, run_cell
from steelyard.experiment.config import fixed_of_old
from steelyard.experiment.folder import RunFolder
from tests.experiment.small import data_of, small


def trace(matrix: dict[str, str], tmp_path: Path, method: str, *, disturb: bool) -> tuple[Any, ...]:
    """All that is asked and believed about the pool, optionally with the test and validation sets replaced by noise."""
    config = small(matrix)
    data = data_of(matrix, tmp_path, config)
    split = data.splits(config)[0]
    if disturb:
        inputs, grades = data.inputs.copy(), data.grades.copy()
        inputs[split.test] = np.random.default_rng(7).normal(0, 50, inputs[split.test].shape)
        inputs[split.validation] *= -3
        grades[split.test] = np.random.default_rng(8).permutation(grades[split.test])
        data = replace(data, inputs=inputs)
        object.__setattr__(
            data, "splits", lambda _config, seed: data_of(matrix, tmp_path, config).splits(config, seed)
        )
    result = run_cell(Cell(method, 0, 0), data, config)
    pool = len(split.train)
    return (
        [part["first"].tolist() for part in result.asked],
        [part["second"].tolist() for part in result.asked],
        [part["score"][:pool].tolist() for part in result.scores],
    )


@pytest.mark.parametrize("method", ["ubs", "epig"])
def test_test_images_change_nothing_that_is_learnt_or_asked(
    matrix: dict[str, str], tmp_path: Path, method: str
) -> None:
    assert trace(matrix, tmp_path, method, disturb=False) == trace(matrix, tmp_path, method, disturb=True)


def test_a_planted_leak_into_the_reduction_is_noticed(
    matrix: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.ranker.reduction import Reduction

    honest = Reduction.fit.__func__  # type: ignore[attr-defined]

    def leaky(cls: Any, features: Any, *, pool: Any, **settings: Any) -> Any:
        return honest(cls, features, pool=None, **settings)

    monkeypatch.setattr(Reduction, "fit", classmethod(leaky))
    assert trace(matrix, tmp_path, "ubs", disturb=False) != trace(matrix, tmp_path, "ubs", disturb=True)


def test_no_test_image_is_ever_asked_about(
    finished: RunFolder, matrix: dict[str, str], tmp_path: Path
) -> None:
    config = small(matrix)
    data = data_of(matrix, tmp_path, config)
    asked, outcomes = finished.table("asked"), finished.table("outcomes")
    for fold in (0, 1):
        split = data.splits(config)[fold]
        rows = np.unique(asked.loc[asked["fold"] == fold, ["first", "second"]])
        assert np.isin(rows, split.train).all()
        tested = np.unique(outcomes.loc[outcomes["fold"] == fold, ["first", "second"]])
        assert np.isin(tested, split.test).all()
        assert not set(data.groups[rows]) & set(data.groups[tested])


def test_every_seed_deals_anew_and_an_older_run_keeps_its_one_deal(
    matrix: dict[str, str], tmp_path: Path
) -> None:
    each, one = small(matrix), small(matrix, deals="one")
    data = data_of(matrix, tmp_path, each)
    first, second = (data.splits(each, seed) for seed in (0, 1))
    assert any(not np.array_equal(a.test, b.test) for a, b in zip(first, second, strict=True))
    assert np.array_equal(np.sort(np.concatenate([split.test for split in second])), np.arange(len(data)))
    for a, b, c in zip(first, data.splits(one, 0), data.splits(one, 1), strict=True):
        assert np.array_equal(a.test, b.test)
        assert np.array_equal(b.test, c.test)
    assert fixed_of_old({"ranker": {}})["deals"] == "one"
    assert each.fixed()["deals"] == "each"


def test_a_planted_test_image_in_a_pair_is_refused(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix)
    split = data_of(matrix, tmp_path, config).splits(config)[0]
    check_leaks(split.train[:4].reshape(2, 2), split)
    with pytest.raises(ExperimentError, match=f"image {split.test[0]} is not in the training pool"):
        check_leaks(np.array([[split.train[0], split.test[0]]]), split)


def test_a_planted_group_in_two_sets_stops_the_cell(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix)
    data = data_of(matrix, tmp_path, config)
    split = data.splits(config)[0]
    groups = data.groups.copy()
    groups[split.train[0]] = groups[split.test[0]]
    leaky = replace(data, groups=groups)
    object.__setattr__(leaky, "splits", data.splits)
    with pytest.raises(ExperimentError, match="leak: group"):
        run_cell(Cell("random", 0, 0), leaky, config)
