"""The questions of a study: what is asked, how much was answered, and how their scales go together."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from steelyard.cli.console import AsJson, StudyFolder, app, escape_markup, opened_study, out, print_json

_HOW = (
    "Correlations are of the scores over the study's images, corrected for their uncertainty, with 95% intervals; "
    "a scale below a reliability of 0.2 is too uncertain to say."
)


@app.command()
def questions(study: StudyFolder, as_json: AsJson = False) -> None:
    """What a study asks, how much was answered, and how the scales of its questions correlate.

    The main question decides what is asked next and when to stop. A scale needs 10 answers. Reliability is the share of a
    scale's variance over images that is not error; accuracy is how many unseen pairs the newest model orders as people do.
    """
    with opened_study(study) as opened:
        found = opened.scales()
    if as_json:
        print_json(found.to_dict())
        return
    table = Table("key", "question", "weight", "answers", "learnt", "reliability", "accuracy")
    for row in found.questions:
        table.add_row(
            row["key"], escape_markup(row["question"]), f"{row['weight']:g}", f"{row['answers']:,}", f"{row['learnt']:,}",
            _number(row["reliability"]), _interval(row, "accuracy"),
        )  # fmt: skip
    out.print(table)
    if not found.correlations:
        return
    table = Table("scales", "Pearson", "Spearman")
    for row in found.correlations:
        table.add_row(f"{row['one']} – {row['other']}", _interval(row, "pearson"), _interval(row, "spearman"))
    out.print(table)
    out.print(_HOW)


def _interval(row: dict[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    return f"{_number(row[name])} ({_number(row[f'{name}_low'])} to {_number(row[f'{name}_high'])})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
