"""What is measured is what is shipped: a study and a cell of fold 0 with the same seed ask the same pairs and give the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import steelyard as sy
from steelyard.acquire import Choice
from steelyard.annotators import PerfectAnnotator
from steelyard.experiment import ExperimentConfig
from steelyard.experiment.cell import Cell, run_cell
from steelyard.experiment.data import ExperimentData, load_data
from steelyard.loop.choose import next_pairs
from steelyard.loop.state import State
from steelyard.splits import Split
from steelyard.study import Study

N, D, SEED, ROUNDS = 300, 12, 5, 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("matrix")
    rng = np.random.default_rng(0)
    severity = rng.normal(size=N)
    grades = np.searchsorted(np.quantile(severity, [0.5, 0.75, 0.9]), severity)
    np.save(
        folder / "x.npy",
        (severity[:, None] * rng.normal(size=D) + rng.normal(0, 2, (N, D))).astype(np.float32),
    )
    table = pd.DataFrame({"image": [f"i{k}" for k in range(N)], "grade": grades, "group": np.arange(N) % 60})
    table.to_csv(folder / "labels.csv", index=False)
    return {"features": str(folder / "x.npy"), "labels": str(folder / "labels.csv")}


def experiment(
    files: dict[str, str], tmp_path: Path, start: str
) -> tuple[ExperimentConfig, ExperimentData, Split]:
    config = ExperimentConfig(
        **files, methods=("epig",), start=start, r=10.0, s=5.0, rounds=ROUNDS, classify=False, test_pairs=100
    )
    data = load_data(config, tmp_path)
    return config, data, data.splits(config, SEED)[0]


def cell_of(files: dict[str, str], tmp_path: Path, method: str, start: str) -> tuple[list[Any], list[Any]]:
    """Pairs of the pool and its scores, round by round."""
    config, data, split = experiment(files, tmp_path, start)
    result = run_cell(Cell(method, 0, SEED), data, config)
    place = {int(row): k for k, row in enumerate(split.train)}
    asked = [
        {tuple(sorted((place[i], place[j]))) for i, j in zip(part["first"], part["second"], strict=True)}
        for part in result.asked
    ]
    return asked, [part["score"][: len(split.train)] for part in result.scores]


def study_of(files: dict[str, str], tmp_path: Path, method: str, start: str) -> tuple[list[Any], list[Any]]:
    """The same from a study of the pool's images, answered by the same perfect annotator."""
    _, data, split = experiment(files, tmp_path, start)
    catalog = sy.Catalog.from_features(files["features"], files["labels"]).subset(split.train)
    ask = {
        "strategy": method, "start": start, "start_share": 0.1, "round_share": 0.05, "mode": "rounds", "random_share": 0.0,
    }  # fmt: skip
    asked, scores = [], []
    with Study.create(tmp_path / "study", catalog, preset="features", seed=SEED, ask=ask) as study:
        for number in range(ROUNDS + 1):
            study.ask(1)  # puts the whole start, then a whole round up
            columns = study.store.pairs.columns()
            asked.append({tuple(sorted(pair)) for pair in columns.rows[columns.round == number].tolist()})
            study.simulate(PerfectAnnotator(data.grades[split.train]), name="you")
            study.fit()
            scores.append(study.score().set_index("image").loc[list(study.catalog.ids), "score"].to_numpy())
    return asked, scores


@pytest.mark.parametrize(
    ("method", "start"), [("epig", "spread"), ("ubs", "random"), ("coreset", "random"), ("random", "spread")]
)
def test_a_study_and_a_cell_ask_the_same_and_learn_the_same(
    files: dict[str, str], tmp_path: Path, method: str, start: str
) -> None:
    asked, scores = cell_of(files, tmp_path, method, start)
    same, alike = study_of(files, tmp_path, method, start)
    assert [len(part) for part in asked] == [18, 9, 9, 9, 9]
    assert asked == same
    for one, other in zip(scores, alike, strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("room", ["study.questions", "loop.trial"])
def test_the_comparison_notices_whoever_chooses_in_a_way_of_his_own(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    def otherwise(state: State, n: int, **request: Any) -> Choice:
        return next_pairs(state, n, **{**request, "options": {"targets": 50}} if state.round else request)

    monkeypatch.setattr(f"steelyard.{room}.next_pairs", otherwise)
    asked, scores = cell_of(files, tmp_path, "epig", "spread")
    same, alike = study_of(files, tmp_path, "epig", "spread")
    assert asked[0] == same[0]
    assert asked != same
    assert not np.allclose(scores[-1], alike[-1], rtol=1e-5, atol=1e-6)
