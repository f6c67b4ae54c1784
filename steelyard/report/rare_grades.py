"""What each grade does to *Overall*: grades are equally frequent in it, so a rare one counts as much by a handful of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.report.analysis import CELL, Analysis
from steelyard.report.tables import Table, method_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GradeShare", "grade_shares", "grades_table"]


@dataclass(frozen=True)
class GradeShare:
    """One grade's part in *Overall* of the proposed method's last round.

    Attributes:
        grade: its name.
        images: how many there are in all.
        tested: how many a test part has, mean over cells.
        share: of the weight of *Overall*, pairs with an image of this grade.
        accuracy: on those pairs, mean over cells.
        without: *Overall* without them, mean over cells.
        deviation_without: its deviation over cells.
    """

    grade: str
    images: int
    tested: float
    share: float
    accuracy: float
    without: float
    deviation_without: float


def grade_shares(analysis: Analysis) -> list[GradeShare]:
    """A row for each grade; of the proposed method."""
    grade = analysis.images["grade"].to_numpy()
    table = analysis.last_outcomes
    own = table[(table["method"] == analysis.proposed) & (table["kind"] == "overall")]
    scores = analysis.scores
    tested = scores[(scores["method"] == analysis.proposed) & (scores["set"] == "test")]
    tested = tested[tested["round"] == tested["round"].max()]
    cells = tested.groupby(CELL).ngroups
    found = []
    for code, name in enumerate(analysis.grades):
        has = (grade[own["first"]] == code) | (grade[own["second"]] == code)
        without = _overall(own[~has])
        found.append(
            GradeShare(
                name,
                int((grade == code).sum()),
                float((tested["grade"] == code).sum() / cells),
                float(own.loc[has, "weight"].sum() / own["weight"].sum()),
                float(_overall(own[has]).mean()),
                float(without.mean()),
                float(without.std()),
            )
        )
    return found


def _overall(pairs: pd.DataFrame) -> pd.Series[float]:
    """Weighted share of right pairs of each cell."""
    right = (pairs["correct"] * pairs["weight"]).groupby([pairs[key] for key in CELL]).sum()
    whole: pd.Series[float] = right / pairs["weight"].groupby([pairs[key] for key in CELL]).sum()
    return whole


def grades_table(analysis: Analysis) -> Table:
    """How much of *Overall* rests on each grade."""
    mean, deviation = analysis.accuracy()[analysis.proposed]["overall"]
    rows = [
        [
            share.grade, f"{share.images:,}", f"{share.tested:.1f}", f"{100 * share.share:.0f} %",
            _number(share.accuracy), _number(share.without), _number(share.deviation_without),
        ]
        for share in grade_shares(analysis)
    ]  # fmt: skip
    rows.append(
        ["all grades", f"{len(analysis.images):,}", "", "100 %", _number(mean), "", _number(deviation)]
    )
    return Table(
        "grades_overall",
        f"What each grade does to Overall ({method_name(analysis.proposed, short=True)}, last round)",
        [
            "grade", "images", "in a test part", "of Overall's weight", "accuracy with it", "Overall without it", "deviation over cells",
        ],
        rows,
        "Every grade is equally frequent in Overall, so pairs with a rare grade carry as much of it as the others by very few images.",
    )  # fmt: skip


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)
