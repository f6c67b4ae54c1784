from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from steelyard.errors import ConfigError, ExperimentError
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.experiment.cell import Cell, check_leaks, run_cell
from steelyard.experiment.config import parse_method
from steelyard.experiment.data import ExperimentData, load_data
from steelyard.experiment.folder import RunFolder, result_columns

SECONDS = ["train_s", "score_s", "select_s"]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """150 images in 4 imbalanced grades of 30 groups, as a feature matrix."""
    folder = tmp_path_factory.mktemp("matrix")
    rng = np.random.default_rng(0)
    severity = rng.normal(size=150)
    grades = np.searchsorted(np.quantile(severity, [0.5, 0.75, 0.9]), severity)
    rows = severity[:, None] * rng.normal(size=12) + rng.normal(0, 2, (150, 12))
    np.save(folder / "features.npy", rows.astype(np.float32))
    table = pd.DataFrame(
        {"image": [f"i{k}" for k in range(150)], "grade": grades, "group": np.arange(150) % 30}
    )
    table.to_csv(folder / "labels.csv", index=False)
    return {"features": str(folder / "features.npy"), "labels": str(folder / "labels.csv")}


def small(matrix: dict[str, str], **changes: Any) -> ExperimentConfig:
    settings = {
        "methods": ("all", "random", "ubs"),
        "seeds": 1,
        "rounds": 2,
        "only_folds": (0, 1),
        "jobs": 1,
        "test_pairs": 100,
    }
    return ExperimentConfig(**{**matrix, **settings, **changes})


@pytest.fixture(scope="module")
def finished(matrix: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    config = small(matrix, methods=("baseline", "all", "random", "ubs", "epig", "conventional"))
    return run_experiment(config, tmp_path_factory.mktemp("run") / "RUN", command="steelyard experiment …")


def data_of(matrix: dict[str, str], tmp_path: Path, config: ExperimentConfig) -> ExperimentData:
    return load_data(config, tmp_path)


# --------------------------------------------------------------------------- what comes out


def test_results_have_the_documented_columns_and_rows(finished: RunFolder) -> None:
    table = finished.table("results")
    assert list(table.columns) == result_columns(4)
    assert list(table.columns) == [
        "method", "fold", "seed", "round", "pairs", "images", "label_ratio", "overall", "neighboring",
        "0-1", "1-2", "2-3", "train_s", "score_s", "select_s",
    ]  # fmt: skip
    rounds = table.groupby("method", sort=False)["round"].unique().map(list).to_dict()
    assert list(rounds) == ["baseline", "all", "random", "ubs", "epig", "conventional"]
    assert rounds["ubs"] == rounds["random"] == rounds["epig"] == [0, 1, 2]
    assert rounds["all"] == rounds["baseline"] == rounds["conventional"] == [0]
    assert table[["overall", "neighboring"]].notna().all(axis=None)
    assert (table["neighboring"] - table[["0-1", "1-2", "2-3"]].mean(axis=1)).abs().max() < 1e-9


def test_labels_are_counted_as_in_the_paper(finished: RunFolder) -> None:
    table = finished.table("results")
    pool = 90
    one = table[(table["fold"] == 0)].set_index(["method", "round"])
    assert one.loc[("random", 0), "pairs"] == round(0.2 * pool)
    assert one.loc[("ubs", 2), "pairs"] == round(0.3 * pool)
    assert one.loc[("baseline", 0), "pairs"] == one.loc[("baseline", 0), "images"] == round(0.3 * pool)
    assert one.loc[("all", 0), "pairs"] == one.loc[("all", 0), "images"] == pool
    assert one.loc[("conventional", 0), "pairs"] == 0
    assert one.loc[("ubs", 2), "label_ratio"] == pytest.approx(one.loc[("ubs", 2), "pairs"] / pool)


def test_methods_share_start_and_test_pairs(finished: RunFolder) -> None:
    asked = finished.table("asked")
    starts = [
        asked[(asked["method"] == method) & (asked["fold"] == 0) & (asked["round"] == 0)][
            ["first", "second"]
        ].to_numpy()
        for method in ("random", "ubs", "epig")
    ]
    assert np.array_equal(starts[0], starts[1])
    assert np.array_equal(starts[0], starts[2])
    outcomes = finished.table("outcomes")
    tests = [
        outcomes[(outcomes["method"] == method) & (outcomes["fold"] == 1) & (outcomes["round"] == 0)][
            ["kind", "first", "second"]
        ]
        for method in ("all", "epig", "conventional")
    ]
    assert tests[0].to_numpy().tolist() == tests[1].to_numpy().tolist() == tests[2].to_numpy().tolist()
    results = finished.table("results").set_index(["method", "fold", "round"])
    assert results.loc[("random", 0, 0), "overall"] == results.loc[("ubs", 0, 0), "overall"]


def test_no_pair_is_asked_twice(finished: RunFolder) -> None:
    asked = finished.table("asked")
    keys = ["method", "fold", "seed"]
    pairs = pd.DataFrame(np.sort(asked[["first", "second"]], axis=1), columns=["low", "high"]).join(
        asked[keys]
    )
    assert not pairs.duplicated().any()


def test_the_results_can_be_recomputed_from_the_outcomes_and_scores(finished: RunFolder) -> None:
    outcomes, results = finished.table("outcomes"), finished.table("results")
    outcomes["weighted"] = outcomes["correct"] * outcomes["weight"]
    sums = outcomes.groupby(["kind", "method", "fold", "seed", "round"])[["weighted", "weight"]].sum()
    accuracy = (sums["weighted"] / sums["weight"]).rename("again").reset_index()
    for kind in ("overall", "1-2"):
        both = results.merge(accuracy[accuracy["kind"] == kind], on=["method", "fold", "seed", "round"])
        assert len(both) == len(results)
        assert np.allclose(both[kind], both["again"])
    scores, images = finished.table("scores"), finished.table("images")
    assert set(scores["set"]) == {"pool", "test"}
    assert len(images) == 150
    rows = scores[(scores["method"] == "ubs") & (scores["fold"] == 0) & (scores["round"] == 2)]
    assert np.isfinite(rows[["score", "variance"]]).all(axis=None)
    again = outcomes[(outcomes["method"] == "ubs") & (outcomes["fold"] == 0) & (outcomes["round"] == 2)].iloc[
        5
    ]
    score = rows.set_index("image")["score"]
    grade = images["grade"]
    first, second = again["first"], again["second"]
    assert (score[first] > score[second]) == ((grade[first] > grade[second]) == (again["correct"] == 1))


def test_chosen_images_are_those_that_were_asked(finished: RunFolder) -> None:
    scores, asked = finished.table("scores"), finished.table("asked")
    for number in range(3):
        rows = scores[(scores["method"] == "ubs") & (scores["fold"] == 1) & (scores["round"] == number)]
        pairs = asked[(asked["method"] == "ubs") & (asked["fold"] == 1) & (asked["round"] == number)]
        assert set(rows.loc[rows["chosen"], "image"]) == set(np.unique(pairs[["first", "second"]]))


def test_the_run_says_how_it_was_made(finished: RunFolder) -> None:
    about = json.loads((finished.path / "experiment.json").read_text())
    assert about["config"]["r"] == 20
    assert about["commands"] == ["steelyard experiment …"]
    assert about["neighbors"]["1-2"] == ["1", "2"]
    assert about["versions"]["numpy"] == np.__version__
    assert "none in two sets" in about["split"]
    assert len(about["data"]["fingerprint"]) == 32


def test_grades_are_learnt_as_well(finished: RunFolder) -> None:
    table = finished.table("classification")
    assert set(table["method"]) == {"baseline", "all", "random", "ubs", "epig", "conventional"}
    assert table["f1"].between(0, 1).all()
    assert table[table["method"] == "all"]["kappa"].mean() > 0.3


def test_the_same_seed_gives_the_same_cell_and_another_another(
    matrix: dict[str, str], tmp_path: Path
) -> None:
    config = small(matrix)
    data = data_of(matrix, tmp_path, config)
    first, again, other = (run_cell(Cell("ubs", 0, seed), data, config) for seed in (0, 0, 1))
    assert [r["overall"] for r in first.rows] == [r["overall"] for r in again.rows]
    assert [r["overall"] for r in first.rows] != [r["overall"] for r in other.rows]


def test_options_after_colons_reach_the_protocol_the_strategy_and_the_ranker(
    matrix: dict[str, str], tmp_path: Path
) -> None:
    config = small(matrix)
    method = parse_method("epig:r=10:s=10:targets=50:components=3", config)
    assert (method.r, method.rounds, method.options, method.ranker) == (
        10,
        2,
        {"targets": 50},
        {"components": 3},
    )
    data = data_of(matrix, tmp_path, config)
    rows = run_cell(Cell("epig:r=10:s=10:targets=50:components=3", 0, 0), data, config).rows
    assert [row["pairs"] for row in rows] == [9, 18, 27]


def test_annotators_err_alike_for_all_methods(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, annotator="noisy:scale=0.5")
    data = data_of(matrix, tmp_path, config)
    said = [run_cell(Cell(method, 0, 0), data, config).asked[0] for method in ("random", "ubs")]
    assert np.array_equal(said[0]["answer"], said[1]["answer"])
    truth = (np.sign(data.grades[said[0]["first"]] - data.grades[said[0]["second"]]) + 1) / 2
    assert not np.array_equal(said[0]["answer"], truth)


class Counting:
    """Counts its answers and cannot judge every fifth pair."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def answer(self, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.given.append(len(pairs))
        return np.where(np.arange(len(pairs)) % 5 == 4, np.nan, 1.0)


def test_one_annotator_answers_all_rounds_and_may_pass(
    matrix: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(matrix)
    people: list[Counting] = []
    monkeypatch.setattr(
        ExperimentConfig, "make_annotator", lambda *_: people.append(Counting()) or people[-1]
    )
    result = run_cell(Cell("random", 0, 0), data_of(matrix, tmp_path, config), config)
    assert [len(part["first"]) for part in result.asked] == people[-1].given
    assert sum(np.isnan(part["answer"]).sum() for part in result.asked) > 0
    assert result.rows[-1]["pairs"] == sum(people[-1].given)


def test_a_network_head_runs_with_shared_first_weights(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, rounds=1, ranker={"head": "mlp", "hidden": 8, "epochs": 2}, draws=3, classify=True)
    data = data_of(matrix, tmp_path, config)
    random, ubs = (run_cell(Cell(name, 0, 0), data, config) for name in ("random", "ubs"))
    assert random.rows[0]["overall"] == ubs.rows[0]["overall"]
    assert np.array_equal(random.scores[0]["score"], ubs.scores[0]["score"])
    assert (random.scores[0]["variance"] > 0).any()
    assert set(random.grading) >= {"precision", "recall", "f1", "kappa", "mae"}
    compared = run_cell(Cell("conventional", 0, 0), data, config)
    assert 0 <= compared.rows[0]["overall"] <= 1
    assert 0 <= compared.grading["f1"] <= 1


def test_a_run_may_move_with_its_data(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, methods=("all",), only_folds=(0,))
    run_experiment(config, tmp_path / "RUN")
    moved = tmp_path / "elsewhere.npy"
    moved.write_bytes(Path(matrix["features"]).read_bytes())
    folder = run_experiment(
        config.with_changes(features=str(moved), only_folds=()), tmp_path / "RUN", resume=True
    )
    assert len(folder.table("results")) == 5


@pytest.mark.parametrize(
    ("preset", "methods"), [("small", ("all", "ubs")), ("tuned", ("all", "ubs", "coreset", "conventional"))]
)
def test_a_miniature_of_the_public_set_goes_from_pixels_to_accuracies(
    tmp_path: Path, preset: str, methods: tuple[str, ...]
) -> None:
    """LIMUC's layout, patients as groups; a small network trained end to end, the last stage of a large one."""
    rng = np.random.default_rng(0)
    for patient in range(1, 13):
        for grade in range(4):
            place = tmp_path / "limuc" / "patient_based_classified_images" / str(patient) / f"Mayo {grade}"
            place.mkdir(parents=True)
            pixels = rng.integers(0, 60, (20, 20, 3)) + np.array([40 + 45 * grade, 60, 60])
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"UC_patient_{patient}_{grade}.bmp")
    config = ExperimentConfig(
        images=str(tmp_path / "limuc"), layout="limuc", preset=preset, methods=methods, seeds=1, rounds=1, s=20.0,
        only_folds=(0,), jobs=1, draws=2, test_pairs=40, near_duplicates=False, ranker={"image_size": 16, "epochs": 2},
    )  # fmt: skip
    folder = run_experiment(config, tmp_path / "RUN")
    about = folder.describe()
    assert about["data"]["groups"] == 12
    assert about["data"]["per_grade"] == [12, 12, 12, 12]
    assert "12 groups, none in two sets" in about["split"]
    assert folder.table("results")["overall"].between(0, 1).all()
    rounds = {"all": 1, "ubs": 2, "coreset": 2, "conventional": 1}
    assert folder.table("results").groupby("method").size().to_dict() == {m: rounds[m] for m in methods}


# --------------------------------------------------------------------------- interrupted


KILLED = """
import sys
from steelyard.experiment import ExperimentConfig, run_experiment
import json
run_experiment(ExperimentConfig.from_dict(json.loads(sys.argv[1])), sys.argv[2], resume=True)
"""


def test_killed_three_times_and_resumed_gives_the_same_results(
    matrix: dict[str, str], tmp_path: Path
) -> None:
    config = small(matrix, seeds=3, classify=False)
    whole = run_experiment(config, tmp_path / "whole")
    broken = RunFolder(tmp_path / "broken")
    stamps: dict[str, int] = {}
    for wanted in (2, 6, 10):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, json.dumps(config.to_dict()), str(broken.path)]
        )
        while process.poll() is None:
            there = [p for p in broken.cells.iterdir() if p.name[0] != "."] if broken.cells.exists() else []
            if len(there) >= wanted:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.002)
        assert process.wait() == -signal.SIGKILL, "it was to be killed half-way"
        assert not (broken.path / "results.csv").exists()
        for path in broken.cells.glob("[!.]*/rows.json"):
            stamps.setdefault(path.parent.name, path.stat().st_mtime_ns)
    run_experiment(config, broken.path, resume=True)
    assert len(stamps) >= 10
    for name, stamp in stamps.items():
        assert (broken.cells / name / "rows.json").stat().st_mtime_ns == stamp, (
            "a finished cell was computed again"
        )
    # Times are measured, everything else is computed.
    pd.testing.assert_frame_equal(
        broken.table("results").drop(columns=SECONDS),
        whole.table("results").drop(columns=SECONDS),
        check_exact=True,
    )
    for name in ("outcomes", "asked", "scores"):
        pd.testing.assert_frame_equal(broken.table(name), whole.table(name), check_exact=True)
    assert not [p for p in broken.cells.iterdir() if p.name.startswith(".")]


def test_nothing_is_computed_when_all_is_there(
    finished: RunFolder, matrix: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (finished.path / "results.csv").read_bytes()
    monkeypatch.setattr(
        "steelyard.experiment.runner.run_cell", lambda *_: pytest.fail("a cell was computed again")
    )
    config = small(matrix, methods=("baseline", "all", "random", "ubs", "epig", "conventional"))
    told: list[tuple[int, int, str]] = []
    run_experiment(config, finished.path, resume=True, progress=lambda *call: told.append(call))
    assert (finished.path / "results.csv").read_bytes() == before
    assert told[-1] == (12, 12, "cells: 12 of 12, 12 found finished")


def test_what_a_living_process_is_writing_stays(matrix: dict[str, str], tmp_path: Path) -> None:
    config = small(matrix, methods=("all",), only_folds=(0,))
    folder = run_experiment(config, tmp_path / "RUN")
    host = platform.node().partition(".")[0]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {
        "mine": f".x-f0-s0.{host}.{os.getpid()}",
        "left": f".x-f0-s1.{host}.{dead.pid}",
        "far": ".x-f0-s2.other-host.1",
    }
    for name in names.values():
        (folder.cells / name).mkdir()
    run_experiment(config, tmp_path / "RUN", resume=True)
    assert {key for key, name in names.items() if (folder.cells / name).exists()} == {"mine", "far"}


def test_methods_and_seeds_can_be_added(matrix: dict[str, str], tmp_path: Path) -> None:
    run_experiment(small(matrix, methods=("random",), only_folds=(0,)), tmp_path / "RUN")
    told: list[str] = []
    folder = run_experiment(
        small(matrix, methods=("all",), seeds=2),
        tmp_path / "RUN",
        resume=True,
        progress=lambda *call: told.append(call[2]),
    )
    table = folder.table("results")
    assert table.groupby("method", sort=False).size().to_dict() == {"random": 3, "all": 4}
    assert any("left" in text for text in told)


@pytest.mark.parametrize(
    ("changes", "resume", "message"),
    [
        ({}, False, "already holds an experiment; go on with it with --resume"),
        ({"r": 10.0}, True, r"made with r=20.0, not 10.0"),
        ({"ranker": {"components": 4}}, True, "made with ranker="),
    ],
)
def test_another_configuration_is_refused(
    finished: RunFolder, matrix: dict[str, str], changes: dict[str, Any], resume: bool, message: str
) -> None:
    with pytest.raises(ExperimentError, match=message):
        run_experiment(small(matrix, **changes), finished.path, resume=resume)


def test_other_data_and_strange_folders_are_refused(matrix: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(ExperimentError, match="not empty and holds no experiment"):
        run_experiment(small(matrix), tmp_path / "full")
    changed = tmp_path / "features.npy"
    np.save(changed, np.load(matrix["features"]))
    config = small(matrix, features=str(changed), methods=("all",), only_folds=(0,))
    run_experiment(config, tmp_path / "RUN")
    np.save(changed, np.load(matrix["features"]) + 1)
    with pytest.raises(ExperimentError, match="made with other data"):
        run_experiment(config, tmp_path / "RUN", resume=True)


# --------------------------------------------------------------------------- leaks


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
        object.__setattr__(data, "splits", lambda _config: data_of(matrix, tmp_path, config).splits(config))
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


# --------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ()}, "no methods given"),
        ({"methods": ("random", "random")}, "'random' is named twice"),
        ({"methods": ("epgi",)}, "did you mean 'epig'"),
        ({"methods": ("epig:start=spred",)}, "random or spread, not 'spred'"),
        ({"methods": ("epig:fast",)}, "'fast' in 'epig:fast' is no option"),
        ({"methods": ("baseline:targets=3",)}, "takes no option 'targets'"),
        ({"methods": ("epig:r=0",)}, "percentages above 0"),
        ({"folds": 2}, "at least 3 folds"),
        ({"only_folds": (5,)}, "fold 5; folds are 0 … 4"),
        ({"seeds": 0}, "at least one seed"),
        ({"r": 120.0}, r"\'r\' is a percentage above 0, up to 100, not 120\.0"),
        ({"jobs": -1}, "'jobs' is 0 or more, not -1"),
        ({"engine": "slurm"}, "'engine' is one of local, ray; not 'slurm'"),
        ({"start": "here"}, "'start' is one of random, spread; not 'here'"),
        ({"annotator": "noisi"}, "did you mean 'noisy'"),
        ({"annotator": "noisy:sclae=1"}, "no option 'sclae'"),
        ({"ranker": {"componets": 3}}, "components"),
        ({"ranker": {"hidden": 8}}, "'ranker.hidden' belongs to the network ranker"),
        ({"ranker": {"backbone": "lite0"}}, "'lite0' takes pictures, and 'features' gives rows"),
        ({"methods": ("ubs:head=mlp:components=8",)}, "'ranker.components' belongs to the convex ranker"),
        ({"methods": ("ubs:hidden=8",)}, "'ranker.hidden' belongs to the network ranker"),
        ({"methods": ("ubs:posterior=draws",)}, "the convex one's is always laplace"),
        ({"methods": "all"}, "'methods' is a list of texts, not 'all'"),
        (
            {"features": "", "methods": ("ubs:backbone=lite0",)},
            "all methods of an experiment see the same; set it for all",
        ),
    ],
)
def test_mistakes_in_the_settings_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExperimentConfig(**{"features": "x.npy", "methods": ("all",), **changes})


def test_mistakes_in_the_data_are_named(matrix: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="no data given"):
        run_experiment(ExperimentConfig(methods=("all",)), tmp_path / "RUN")
    with pytest.raises(ConfigError, match="did you mean 'rounds'"):
        ExperimentConfig.from_dict({"round": 3})
    with pytest.raises(ExperimentError, match="needs graded images"):
        run_experiment(small(matrix, labels=""), tmp_path / "RUN")
    flat = tmp_path / "flat.csv"
    pd.DataFrame({"image": [f"i{k}" for k in range(150)], "grade": 1}).to_csv(flat, index=False)
    with pytest.raises(ExperimentError, match="same grade"):
        run_experiment(small(matrix, labels=str(flat)), tmp_path / "RUN")
    with pytest.raises(ExperimentError, match="holds no experiment"):
        RunFolder(tmp_path).describe()
    with pytest.raises(ExperimentError, match="no table 'results'"):
        RunFolder(tmp_path).table("results")
