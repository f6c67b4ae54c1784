"""From a run to `report.html` and, beside it, every figure and table as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.errors import ExperimentError
from steelyard.evaluate.cost import GRADE_SECONDS, PAIR_SECONDS
from steelyard.experiment.folder import RunFolder
from steelyard.progress import Progress
from steelyard.report.analysis import Analysis
from steelyard.report.figure import FORMATS
from steelyard.report.figures import draw_figures
from steelyard.report.html import Section, page
from steelyard.report.rare_grades import grades_table
from steelyard.report.tables import (
    Table,
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

__all__ = ["write_report"]

_HALVES = {
    "choose": "(the half that settings are chosen on) ",
    "report": "(the half that no setting was chosen on) ",
}
_LISTED = 8  # more methods than these are counted, not named, in sentences; tables name them all


def write_report(
    path: Path | str,
    out: Path | str = "report.html",
    *,
    proposed: str | None = None,
    title: str = "",
    formats: tuple[str, ...] = FORMATS,
    pair_seconds: float = PAIR_SECONDS,
    grade_seconds: float = GRADE_SECONDS,
    progress: Progress | None = None,
) -> Path:
    """Write the report of an experiment (RUN) or of a live study (STUDY).

    Figures go to `OUT_files/figures` as SVG, PDF and PNG, tables to `OUT_files/tables` as Markdown, CSV and LaTeX.

    Args:
        path: RUN or STUDY.
        out: the HTML file.
        proposed: method that the others are tested against (experiments); the paper's `ubs` by default.
        title: of the page.
        formats: of the figure files.
        pair_seconds: time of a comparison.
        grade_seconds: time of a grade.
        progress: called as progress(done, total, text).

    Returns:
        The HTML file.

    Raises:
        ExperimentError: the folder is neither a run nor a study, or has no results yet.
    """
    folder, target = Path(path), Path(out)
    if (folder / "study.toml").exists():
        from steelyard.report.study_report import write_study_report

        return write_study_report(folder, target, title=title, formats=formats, progress=progress)
    if not (folder / "experiment.json").exists():
        raise ExperimentError(
            f"{folder} is neither an experiment (experiment.json) nor a study (study.toml); name one of them"
        )
    analysis = Analysis(RunFolder(folder), proposed=proposed)
    figures = {
        figure.name: figure
        for figure in draw_figures(
            analysis,
            formats=formats,
            pair_seconds=pair_seconds,
            grade_seconds=grade_seconds,
            progress=progress,
        )
    }
    tables = _tables(analysis, pair_seconds, grade_seconds)
    beside = target.with_name(f"{target.stem}_files")
    for figure in figures.values():
        figure.write(beside / "figures")
    for table in tables.values():
        table.write(beside / "tables")

    def some(names: list[str], among: dict[str, Any]) -> list[Any]:
        return [among[name] for name in names if name in among]

    differences = [name for name in tables if name.startswith("difference")]
    sections = [
        Section("What was found", findings=_findings(analysis)),
        Section(
            "Accuracy",
            figures=some(["accuracy_labels"], figures),
            tables=some(["accuracy", *differences, "efficiency", "grades_overall"], tables),
        ),
        Section("Scores and uncertainty", figures=some(["scores_grades", "uncertainty_grades"], figures)),
        Section("What was asked", figures=some(["grades_asked", "map"], figures)),
        Section("Calibration", figures=some(["reliability"], figures), tables=some(["calibration"], tables)),
        Section("Cost", figures=some(["cost_curves"], figures), tables=some(["cost"], tables)),
        Section("Grades", tables=some(["classification"], tables)),
        _reproduction(analysis, beside),
    ]
    text = page(
        title or f"Severity ranking: {len(analysis.methods)} methods compared",
        _lead(analysis),
        _facts(analysis),
        sections,
        mark=method_name(analysis.proposed),
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def _tables(analysis: Analysis, pair_seconds: float, grade_seconds: float) -> dict[str, Table]:
    tables = [accuracy_table(analysis)]
    tables += [
        difference_table(analysis, m)
        for m in ("ubs", "random")
        if m in analysis.methods and len(analysis.methods) > 1
    ]
    if analysis.efficiency():
        tables.append(efficiency_table(analysis))
    tables += [
        grades_table(analysis),
        calibration_table(analysis),
        cost_table(analysis, pair_seconds=pair_seconds, grade_seconds=grade_seconds),
    ]
    grades = classification_table(analysis)
    if grades is not None:
        tables.append(grades)
    return {table.name: table for table in tables}


def _lead(analysis: Analysis) -> str:
    about = analysis.about
    config = about["config"]
    data = about["data"]
    return (
        f"{data['images']:,} images {_HALVES.get(config.get('half', 'all'), '')}in {len(about['grades'])} grades; {config['folds']} folds, rotating 60 % train, 20 % validation and "
        f"20 % test. First {config['r']:g} % of the training images are paired at random, then {config['rounds']} rounds of "
        f"{config['s']:g} % more. The annotator is virtual ({config['annotator']})."
    )


def _facts(analysis: Analysis) -> list[tuple[str, str]]:
    overall = {method: found["overall"][0] for method, found in analysis.accuracy().items()}
    best = max(overall, key=lambda method: overall[method])
    return [
        ("methods", str(len(analysis.methods))),
        ("folds × seeds", f"{analysis.last['fold'].nunique()} × {analysis.last['seed'].nunique()}"),
        ("images", f"{analysis.about['data']['images']:,}"),
        (f"highest overall: {method_name(best, short=True)}", f"{overall[best]:.3f}"),
    ]


def _findings(analysis: Analysis) -> list[str]:
    """Sentences that follow from the tables, whichever way they point."""
    found, alike = [], []
    shared, rival = analysis.accuracy(), method_name(analysis.proposed)
    for method in analysis.methods:
        if method in (analysis.proposed, "all", "conventional") or analysis.cells < 2:
            continue
        interval = analysis.paired(method, analysis.proposed)
        if interval.low <= 0 <= interval.high:
            alike.append(f"{method_name(method)} ({interval_text(interval)})")
            continue
        ratio = 100 * shared[method]["label_ratio"][0]
        found.append(
            f"{method_name(method)}, with {ratio:.0f} % of the labels, is {'better' if interval.low > 0 else 'worse'} than {rival}: "
            f"{interval_text(interval)} points overall."
        )
    if len(alike) > _LISTED:
        found.append(
            f"{len(alike)} other methods are not distinguishable from {rival} overall; the tables have their intervals."
        )
    elif alike:
        found.append(f"Not distinguishable from {rival}, in points overall: {', '.join(alike)}.")
    labels = analysis.efficiency()
    for e in labels:
        if not np.isnan(e.reached) and (len(labels) <= _LISTED or e.method == analysis.proposed):
            found.append(
                f"{method_name(e.method)} reaches the mean accuracy of all data with {100 * e.reached:.0f} % of the labels (95 % interval "
                f"{needed_text(e)})."
            )
    missed = [method_name(e.method, short=True) for e in labels if np.isnan(e.reached)]
    if len(labels) > _LISTED:
        found.append(
            f"Within the rounds run, {len(labels) - len(missed)} of {len(labels)} methods reach the mean accuracy of all data."
        )
    elif missed:
        found.append(
            f"Within the rounds run, the mean accuracy of all data is not reached by {', '.join(missed)}."
        )
    return found


def _reproduction(analysis: Analysis, beside: Path) -> Section:
    about = analysis.about
    data = about["data"]
    deals = " + that of the cell" if about["config"].get("deals", "one") == "each" else ""
    grades = ", ".join(
        f"{name}: {count}" for name, count in zip(about["grades"], data["per_grade"], strict=True)
    )
    return Section(
        "How to repeat it",
        facts=[
            ("data", f"{data['images']:,} images, fingerprint {data['fingerprint']}"),
            ("grades", grades),
            ("groups", "none" if data["groups"] is None else str(data["groups"])),
            ("split", about["split"]),
            (
                "seeds",
                f"0 … {int(analysis.results['seed'].max())}; folds dealt with seed {about['config']['split_seed']}{deals}",
            ),
            ("versions", ", ".join(f"{name} {version}" for name, version in about["versions"].items())),
            ("platform", about["platform"]),
            (
                "files",
                f"figures and tables are in {beside.name}/; cells, scores and outcomes in the run's folder",
            ),
        ],
        text=[
            "Overall accuracy: test images drawn so that each grade is equally frequent, paired as in step 1, pairs of equal grade left out; "
            "draws are repeated until there are enough pairs. Neighboring: all pairs of adjacent grades, or a sample of them. Test pairs, "
            "first pairs, validation pairs and first weights are the same for all methods of a fold and seed. Equal scores count one half.",
            "McNemar's test treats the test pairs of a seed as independent, which they are not quite – they share images – so its stars are "
            "generous; the intervals over splits, which know that folds and deals share images, are not.",
        ],
        code=about["commands"],
        details=[("All settings", json.dumps(about["config"], indent=2, ensure_ascii=False))],
    )
