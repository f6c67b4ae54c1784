"""The further questions of a study in its report: how far each is, where its scale ends, how the scales go together."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.config.questions import COMPOSITE, MAIN
from steelyard.report.figure import Figure, render
from steelyard.report.html import Section
from steelyard.report.palette import INK, MUTED
from steelyard.report.study_tables import ends_table
from steelyard.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study
    from steelyard.study.scales import QuestionsReport

__all__ = ["scales_section"]

BLUE = "#0072B2"
_ENDS = 3  # images of each kind in the table of a further scale
_ACROSS = 3  # panels in a row


def scales_section(study: Study, scores: pd.DataFrame, formats: tuple[str, ...]) -> list[Section]:
    """What there is to say about further questions; nothing where a study asks one alone.

    Args:
        study: with a model.
        scores: of its images on every scale, as `Study.score` gives them.
        formats: of the figure files.
    """
    if not study.config.questions:
        return []
    found = study.scales()
    known = [one for one in study.config.questions if scores[f"score_{one.key}"].notna().any()]
    ends = [ends_table(study.score(question=one.key), one.words, _ENDS, key=one.key) for one in known]
    figures = [_beside_the_main(study, scores, formats), _together(found, formats)]
    missing = [one.question for one in study.config.questions if one not in known]
    return [
        Section(
            "The further questions",
            findings=_findings(found, missing),
            figures=[figure for figure in figures if figure is not None],
            tables=[_questions(found), *_correlations(found), *ends],
        )
    ]


def _findings(found: QuestionsReport, missing: list[str]) -> list[str]:
    """The scales that go together most and least, in words, and the questions that have none."""
    said = []
    clear = [row for row in found.correlations if row["pearson"] is not None]
    for row in sorted(clear, key=lambda row: -abs(row["pearson"]))[:1]:
        said.append(
            f"{row['one']} and {row['other']} go together most: correlation {_interval(row, 'pearson')}, "
            "corrected for the uncertainty of scores."
        )
    apart = [f"{r['one']} and {r['other']}" for r in clear if r["pearson_low"] < 0 < r["pearson_high"]]
    if apart:
        said.append(f"Whether these go together at all cannot be told yet: {'; '.join(apart)}.")
    said += [f"“{question}” has no scale yet." for question in missing]
    return said


def _questions(found: QuestionsReport) -> Table:
    rows = [
        [
            f"{row['question']} ({row['key']})", f"{row['answers']:,}", f"{row['learnt']:,}", _share(row["accuracy"], row),
            _number(row["reliability"]), f"{row['weight']:g}".replace("-", "−"),
        ]
        for row in found.questions
    ]  # fmt: skip
    return Table(
        "scales",
        "Each question, and how good its scale is",
        ["question", "answers", "learnt from", "unseen pairs ordered right", "reliability", "weight"],
        rows,
        "Accuracy with its 95 % interval, of the newest model when it was made. Reliability is the share of a scale's variance "
        "over images that is not error. The weight is what a scale counts in the composite.",
    )


def _correlations(found: QuestionsReport) -> list[Table]:
    rows = [
        [
            f"{r['one']} – {r['other']}",
            _interval(r, "pearson"),
            _interval(r, "spearman"),
            _number(r["observed"]),
        ]
        for r in found.correlations
    ]
    note = (
        "Over the study's images, corrected for the uncertainty of scores, with 95 % intervals; “as it is” is Pearson's of the "
        "scores uncorrected. – where a scale is too uncertain to say."
    )
    columns = ["scales", "Pearson", "Spearman", "as it is"]
    return [Table("correlations", "How the scales go together", columns, rows, note)] if rows else []


def _together(found: QuestionsReport, formats: tuple[str, ...]) -> Figure | None:
    """Correlations with their intervals, the largest on top."""
    rows = sorted(
        (row for row in found.correlations if row["pearson"] is not None), key=lambda row: row["pearson"]
    )
    if not rows:
        return None

    def paint(canvas: Any) -> None:
        ax = canvas.subplots()
        at = np.arange(len(rows))
        value, low, high = (
            np.array([row[name] for row in rows]) for name in ("pearson", "pearson_low", "pearson_high")
        )
        ax.axvline(0.0, color=MUTED, linewidth=0.8)
        ax.hlines(at, low, high, color=BLUE, linewidth=1.5)
        ax.plot(value, at, "o", color=BLUE)
        ax.set_yticks(at, [fill(f"{row['one']} – {row['other']}", 32) for row in rows])
        ax.set(
            xlim=(-1.02, 1.02),
            ylim=(-0.6, len(rows) - 0.4),
            xlabel="correlation of the scores, 95 % interval",
        )
        ax.grid(visible=False, axis="y")

    return render(
        "correlations", "How the scales go together",
        "Pearson's correlation over the study's images, corrected for the uncertainty of scores.",
        formats, (7.2, 1.0 + 0.32 * len(rows)), paint,
    )  # fmt: skip


def _beside_the_main(study: Study, scores: pd.DataFrame, formats: tuple[str, ...]) -> Figure | None:
    """Every image on the main scale and on each other one that there is."""
    named = {f"score_{one.key}": one.key for one in study.config.questions} | {COMPOSITE: COMPOSITE}
    shown = [column for column in named if scores[column].notna().any()]
    if not shown:
        return None
    down = -(-len(shown) // _ACROSS)
    across = min(_ACROSS, len(shown))

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(down, across, squeeze=False, sharex=True).ravel()
        for ax, column in zip(axes, shown, strict=False):
            wide = scores[f"uncertainty_{named[column]}"]
            ax.errorbar(
                scores["score"],
                scores[column],
                yerr=1.96 * wide,
                fmt="none",
                ecolor="#dfe6ee",
                elinewidth=0.8,
                zorder=1,
            )
            ax.scatter(scores["score"], scores[column], s=8, color=BLUE, linewidth=0, zorder=2)
            ax.set_title(named[column], color=INK)
        for ax in axes[len(shown) :]:
            ax.set_visible(False)
        canvas.supxlabel(f"score, {MAIN}", fontsize="medium")
        canvas.supylabel("score on the other scale", fontsize="medium")

    return render(
        "scales", "Each scale beside the main one",
        "Every point is an image; bars are the 95 % intervals of the other scale.",
        formats, (7.2, 0.6 + 2.4 * down), paint,
    )  # fmt: skip


def _interval(row: dict[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    return f"{_number(row[name])} ({_number(row[f'{name}_low'])} to {_number(row[f'{name}_high'])})"


def _share(value: float | None, row: dict[str, Any]) -> str:
    return (
        "not known yet"
        if value is None
        else f"{value:.0%} ({row['accuracy_low']:.0%}–{row['accuracy_high']:.0%})"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")
