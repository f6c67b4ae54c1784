"""A strategy from another package gets the features it asks for: in a study, from the trainer, in an experiment."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import steelyard as sy
from steelyard.experiment import ExperimentConfig
from steelyard.experiment.cell import Cell, run_cell
from steelyard.experiment.data import load_data
from steelyard.study import Study
from steelyard.web.trainer import pending_work, run_worker

CODE = '''
import numpy as np
from steelyard.acquire import Choice, needs

@needs("features")
def extremes(posterior, n, /, *, taken, rng, features):
    """Compare the images whose first feature differs most."""
    assert features.shape[0] == taken.size
    order = np.argsort(features[:, 0])
    pairs = np.stack([order, order[::-1]], axis=1)[: len(order) // 2]
    pairs = pairs[~taken.contains(pairs)][:n]
    return Choice(pairs, np.zeros(len(pairs)), ["These two look most unlike."] * len(pairs))
'''
N = 60


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Feature rows with grades, and the plug-in, installed as pip would: a module and its metadata on the path."""
    (tmp_path / "extremes_plugin.py").write_text(CODE, encoding="utf-8")
    metadata = tmp_path / "extremes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: extremes\nVersion: 1.0\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        "[steelyard.strategies]\nextremes = extremes_plugin:extremes\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "extremes_plugin", raising=False)
    rows = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)
    table = pd.DataFrame({"image": [f"i{k}" for k in range(N)], "grade": (rows[:, 0] > 0).astype(int)})
    table.to_csv(tmp_path / "labels.csv", index=False)
    return {"features": str(tmp_path / "x.npy"), "labels": str(tmp_path / "labels.csv")}


def test_in_a_study_and_from_the_trainer(files: dict[str, str], tmp_path: Path) -> None:
    catalog = sy.Catalog.from_features(files["features"], files["labels"])
    ask = {"start": "extremes", "strategy": "extremes", "random_share": 0.0}
    with Study.create(tmp_path / "study", catalog, preset="features", ask=ask) as study:
        few = study.questions.draft_for_page(
            5
        )  # features are at hand, so the page need not wait for the trainer
        assert few is not None
        assert {pair.strategy for pair in few} == {"extremes"}
        assert pending_work(study) == "start"
        assert run_worker(study.folder, once=True, nice=False) == 1
        first = np.load(files["features"])[:, 0]
        asked = {frozenset(pair) for pair in study.store.pairs.columns().rows.tolist()}
        assert frozenset({int(first.argmin()), int(first.argmax())}) in asked
        assert {pair.strategy for pair in study.store.pairs.all()} == {"extremes"}
        assert [pair.strategy for pair in study.propose(2)] == ["extremes"] * 2


def test_in_an_experiment(files: dict[str, str], tmp_path: Path) -> None:
    config = ExperimentConfig(**files, methods=("extremes",), rounds=1, classify=False, near_duplicates=False)
    data = load_data(config, tmp_path)
    split = data.splits(config)[0]
    asked = run_cell(Cell("extremes", 0, 0), data, config).asked[1]
    first = data.inputs[split.train][:, 0]
    wanted = {int(split.train[first.argmin()]), int(split.train[first.argmax()])}
    assert {int(asked["first"][0]), int(asked["second"][0])} == wanted
