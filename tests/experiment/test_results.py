"""What a run writes, and that it follows from what was asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.experiment.cell import Cell, run_cell
from steelyard.experiment.config import parse_method
from steelyard.experiment.folder import RunFolder, result_columns
from tests.experiment.small import data_of, small


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
    assert rounds["baseline"] == [0, 1, 2]  # a curve: trained anew for every ratio of labels
    assert rounds["all"] == rounds["conventional"] == [0]
    assert table[["overall", "neighboring"]].notna().all(axis=None)
    assert (table["neighboring"] - table[["0-1", "1-2", "2-3"]].mean(axis=1)).abs().max() < 1e-9


def test_labels_are_counted_as_in_the_paper(finished: RunFolder) -> None:
    table = finished.table("results")
    pool = 90
    one = table[(table["fold"] == 0)].set_index(["method", "round"])
    assert one.loc[("random", 0), "pairs"] == round(0.2 * pool)
    assert one.loc[("ubs", 2), "pairs"] == round(0.3 * pool)
    for number, share in enumerate((0.2, 0.25, 0.3)):
        row = one.loc[("baseline", number)]
        assert row["pairs"] == row["images"] == one.loc[("ubs", number), "pairs"] == round(share * pool)
    assert one.loc[("all", 0), "pairs"] == one.loc[("all", 0), "images"] == pool
    assert one.loc[("conventional", 0), "pairs"] == 0
    assert one.loc[("ubs", 2), "label_ratio"] == pytest.approx(one.loc[("ubs", 2), "pairs"] / pool)


def test_the_baseline_asks_at_once_and_is_trained_anew_for_every_ratio(
    matrix: dict[str, str], tmp_path: Path, finished: RunFolder
) -> None:
    asked = finished.table("asked").query("fold == 0 and seed == 0")
    start = {
        m: asked[(asked["method"] == m) & (asked["round"] == 0)][["first", "second"]]
        for m in ("baseline", "ubs")
    }
    assert np.array_equal(
        start["baseline"].to_numpy(), start["ubs"].to_numpy()
    )  # the same 20 %, as in the paper
    config = small(matrix, methods=("baseline", "baseline:k=0"))
    data = data_of(matrix, tmp_path, config)
    curve, alone = (run_cell(Cell(name, 0, 0), data, config) for name in config.methods)
    assert [row["round"] for row in alone.rows] == [0]
    assert alone.rows[0]["label_ratio"] == curve.rows[-1]["label_ratio"] == pytest.approx(0.3)
    assert alone.rows[0]["overall"] == curve.rows[-1]["overall"], (
        "nothing of the earlier ratios is in the last one"
    )


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
    # The baseline asks anew for every ratio of labels: its rounds are trials of their own.
    asked["trial"] = np.where(asked["method"] == "baseline", asked["round"], 0)
    keys = ["method", "fold", "seed", "trial"]
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
