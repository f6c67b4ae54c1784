"""What each grade does to *Overall*, against the pairs themselves."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.experiment.folder import RunFolder
from steelyard.report.analysis import Analysis
from steelyard.report.rare_grades import grade_shares, grades_table


def test_shares_and_accuracies_are_those_of_the_pairs(run: RunFolder) -> None:
    analysis = Analysis(run)
    outcomes, grade = run.table("outcomes"), run.table("images")["grade"].to_numpy()
    own = outcomes[(outcomes["method"] == "ubs") & (outcomes["kind"] == "overall") & (outcomes["round"] == 2)]
    shares = grade_shares(analysis)
    assert [share.images for share in shares] == np.bincount(grade).tolist()
    rare = shares[3]
    weight, within = 0.0, []
    for _, cell in own.groupby(["fold", "seed"]):
        has = np.array(
            [3 in (grade[i], grade[j]) for i, j in zip(cell["first"], cell["second"], strict=True)]
        )
        weight += cell["weight"][has].sum()
        within.append(np.average(cell["correct"][~has], weights=cell["weight"][~has]))
    assert rare.share == pytest.approx(weight / own["weight"].sum())
    assert (rare.without, rare.deviation_without) == pytest.approx((np.mean(within), np.std(within, ddof=1)))
    # Four grades, equally frequent, two in each pair: every grade is in about half of the weight, however rare it is.
    assert all(0.4 < share.share < 0.6 for share in shares)


def test_the_table_ends_with_overall_itself(run: RunFolder) -> None:
    analysis = Analysis(run)
    rows = grades_table(analysis).rows
    assert len(rows) == 5
    assert rows[-1][4] == f"{analysis.accuracy()['ubs']['overall'][0]:.3f}".replace("0.", ".")
