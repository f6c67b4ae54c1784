from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import ExperimentError
from steelyard.evaluate.significance import Interval, holm, mcnemar, of_several_deals
from steelyard.experiment.folder import RunFolder
from steelyard.report.analysis import Analysis, Efficiency
from steelyard.report.latex import latex_table, latex_text
from steelyard.report.tables import (
    accuracy_table,
    calibration_table,
    classification_table,
    cost_table,
    difference_table,
    efficiency_table,
    interval_text,
    method_name,
    needed_text,
)


@pytest.fixture(scope="module")
def analysis(run: RunFolder) -> Analysis:
    return Analysis(run)


def test_accuracies_are_means_of_the_last_rounds(analysis: Analysis, run: RunFolder) -> None:
    results = run.table("results")
    last = results[(results["method"] == "ubs") & (results["round"] == 2)]
    assert analysis.accuracy()["ubs"]["overall"][0] == pytest.approx(last["overall"].mean())
    row = next(r for r in accuracy_table(analysis).rows if r[0] == "UBS (proposed)")
    assert row[1] == "30 %"
    assert row[2].startswith(f"{last['overall'].mean():.3f} ± {last['overall'].std():.3f}".replace("0.", "."))


def test_stars_are_mcnemar_of_each_deal_with_holm(analysis: Analysis, run: RunFolder) -> None:
    outcomes = run.table("outcomes")
    overall = outcomes[(outcomes["kind"] == "overall")]

    def right(method: str, seed: int) -> np.ndarray:
        own = overall[(overall["method"] == method) & (overall["seed"] == seed)]
        own = own[own["round"] == own["round"].max()]
        return own.sort_values(["fold", "first", "second"])["correct"].to_numpy()

    others = [m for m in analysis.methods if m != "ubs"]
    each = [
        [mcnemar(right("ubs", s), right(m, s)).p_value for s in outcomes["seed"].unique()] for m in others
    ]
    by_hand, different = holm([of_several_deals(p) for p in each])
    found = analysis.significance()["overall"]
    assert [found[m][0] for m in others] == pytest.approx(list(by_hand))
    stars = {row[0]: "*" in row[2] for row in accuracy_table(analysis).rows}
    assert [stars[method_name(m)] for m in others] == different.tolist()
    assert not stars[method_name("ubs")]


def test_differences_are_paired_by_cell(analysis: Analysis, run: RunFolder) -> None:
    results = run.table("results").set_index(["method", "round", "fold", "seed"])["overall"].sort_index()
    change = results.loc["random", 2] - results.loc["ubs", 2]
    interval = analysis.paired("random", "ubs")
    assert interval.difference == pytest.approx(change.mean())
    assert interval.cells == 6
    assert interval.low <= interval.difference <= interval.high
    assert len(difference_table(analysis, "ubs").rows) == 5


def test_costs_are_the_papers_arithmetic(analysis: Analysis, run: RunFolder) -> None:
    results = run.table("results")
    last = results[(results["method"] == "all")]
    row = next(r for r in cost_table(analysis).rows if r[0] == "baseline (all data)")
    assert row[4] == f"{(last['pairs'] + 20 * last['images']).mean():,.0f} s"
    dear = next(
        r for r in cost_table(analysis, pair_seconds=2, grade_seconds=0).rows if r[0].startswith("conv")
    )
    assert dear[4] == "0 s"


def test_validation_labels_are_counted_as_the_paper_does_beside_ours(
    analysis: Analysis, run: RunFolder
) -> None:
    """60 % of the images are trained on and 20 % watched: the paper's labels are a third more than those of training."""
    table = cost_table(analysis)
    images, folds = len(run.table("images")), run.describe()["config"]["folds"]
    results = run.table("results")
    for method, name in (
        ("all", "baseline (all data)"),
        ("conventional", "conventional"),
        ("ubs", "UBS (proposed)"),
    ):
        row = next(r for r in table.rows if r[0] == name)
        last = results[
            (results["method"] == method)
            & (results["round"] == results["round"].where(results["method"] == method).max())
        ]
        ours, papers = float(row[2].replace(",", "")), float(row[6].replace(",", ""))
        assert ours == round(last["images"].mean())
        assert papers / ours == pytest.approx((folds - 1) / (folds - 2), rel=0.05)
        pairs, both = (float(row[k].replace(",", "").removesuffix(" s")) for k in (5, 7))
        assert both == pytest.approx(pairs + 20 * papers, abs=12)
    everything = next(r for r in table.rows if r[0] == "baseline (all data)")
    # the paper: all data are 80 % of the private set's 10,265 images, 8,214 comparisons and as many grades
    assert float(everything[5]) == pytest.approx(images * (folds - 1) / folds, abs=1)


def test_sampled_images_are_counted_as_in_the_paper(analysis: Analysis, run: RunFolder) -> None:
    """Once for every round that sampled an image; the baseline samples at once, as many as the others have by then."""
    asked, grade = run.table("asked"), run.table("images")["grade"].to_numpy()
    found = analysis.sampled_images([0.2, 0.3, 0.9])
    for method in ("baseline", "ubs"):
        totals = []
        for _, cell in asked[asked["method"] == method].groupby(["fold", "seed"]):
            rounds = [2] if method == "baseline" else [0, 1, 2]
            images = [np.unique(cell[cell["round"] == k][["first", "second"]]) for k in rounds]
            totals.append(np.bincount(grade[np.concatenate(images)], minlength=4))
        assert found[method][0.3] == pytest.approx(np.mean(totals, axis=0))
    assert found["baseline"][0.2] == pytest.approx(found["ubs"][0.2])  # the first pairs are the same
    assert found["baseline"][0.3].sum() == pytest.approx(found["ubs"][0.3].sum(), rel=0.1)


def test_methods_with_other_rounds_are_compared_at_equal_labels(analysis: Analysis) -> None:
    """EPIG starts with 10% here, so its third round stands where the others' first does; nobody has 90%."""
    found = analysis.sampled_images([0.2, 0.3, 0.9])
    assert set(found["epig:start=random:r=10"]) == set(found["ubs"]) == {0.2, 0.3}


def test_the_baseline_is_a_curve(analysis: Analysis) -> None:
    curves = analysis.curves()
    ratios = {m: curves.loc[curves["method"] == m, "ratio"].tolist() for m in ("baseline", "ubs")}
    assert len(ratios["baseline"]) == 3
    assert ratios["baseline"] == pytest.approx(ratios["ubs"])


def test_efficiency_says_when_all_data_is_reached_and_how_sure_that_is(analysis: Analysis) -> None:
    curves = analysis.curves()
    goal = curves.loc[curves["method"] == "all", "mean"].iloc[0]
    for e in analysis.efficiency():
        own = curves[curves["method"] == e.method]
        if (own["mean"] < goal).all():
            assert np.isnan(e.reached)
        if not np.isnan(e.reached):
            assert own["ratio"].min() <= e.low <= e.reached
            assert np.isnan(e.high) or e.high >= e.reached
    table = efficiency_table(analysis)
    assert {row[0] for row in table.rows} == {method_name(e.method) for e in analysis.efficiency()}
    interval = Interval(0.0, -1.0, 1.0, 5)
    assert needed_text(Efficiency("m", 0.4, 0.31, 0.47, 0.5, interval)) == "31 – 47 %"
    assert needed_text(Efficiency("m", 0.4, 0.31, float("nan"), 0.5, interval)) == "31 % – more"
    assert needed_text(Efficiency("m", *[float("nan")] * 3, 0.5, interval)) == "more than was asked"


def test_calibration_and_classification_cover_the_methods(analysis: Analysis) -> None:
    rows = {row[0]: row for row in calibration_table(analysis).rows}
    assert rows["conventional"][3:] == ["–"] * 4
    assert rows["UBS (proposed)"][3].startswith(".")
    grading = classification_table(analysis)
    assert grading is not None
    assert len(grading.rows) == len(analysis.methods)


def test_another_method_can_be_the_proposed_one(run: RunFolder) -> None:
    assert "random" not in Analysis(run, proposed="random").significance()["overall"]
    with pytest.raises(ExperimentError, match="no method 'bald'"):
        Analysis(run, proposed="bald")


def test_markdown_csv_and_latex_hold_the_same_cells(analysis: Analysis, tmp_path: Path) -> None:
    table = accuracy_table(analysis)
    files = {path.suffix: path.read_text() for path in table.write(tmp_path)}
    assert list(csv.reader(io.StringIO(files[".csv"])))[1:] == [list(row) for row in table.rows]
    assert files[".md"].count("\n|") == len(table.rows) + 2
    assert r"1\_2 \& more" in files[".tex"]
    assert files[".tex"].count(r"\\") == len(table.rows) + 1


def test_latex_text_is_harmless() -> None:
    assert latex_text("50 % of a_b & c ± 1*") == r"50 \% of a\_b \& c $\pm$ 1$^*$"
    text = latex_table("x", "Caption #1", ["a", "b"], [["x^2", "{y}"]], "note")
    assert text.count("{") == text.count("}")
    if shutil.which("pdflatex"):  # no part of CI; where there is a TeX, it has to compile
        document = r"\documentclass{article}\usepackage{booktabs}\begin{document}" + text + r"\end{document}"
        subprocess.run(
            ["pdflatex", "-draftmode", "-halt-on-error", document], check=True, capture_output=True
        )


def test_names_and_intervals_read_well() -> None:
    assert method_name("epig:start=spread:r=5") == "EPIG, start=spread, r=5"
    assert method_name("ubs", short=True) == "UBS"
    assert interval_text(Interval(-0.0123, -0.02, 0.004, 5)) == "−1.2 [−2.0, +0.4]"
