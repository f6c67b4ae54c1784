"""The tables: text cells with a caption, written as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steelyard.evaluate.cost import GRADE_SECONDS, PAIR_SECONDS, cost
from steelyard.evaluate.significance import Interval
from steelyard.report.analysis import Analysis, Efficiency, mean_and_deviation
from steelyard.report.latex import latex_table

__all__ = [
    "Table",
    "accuracy_table",
    "calibration_table",
    "classification_table",
    "cost_table",
    "difference_table",
    "efficiency_table",
    "method_name",
    "needed_text",
]

_NAMES = {
    "baseline": "baseline",
    "all": "baseline (all data)",
    "random": "random (proposed w/o UBS)",
    "ubs": "UBS (proposed)",
    "coreset": "core-set",
    "conventional": "conventional",
    "epig": "EPIG",
    "dopt": "D-optimal",
    "guro": "GURO",
    "pair_bald": "pair-BALD",
    "entropy": "entropy",
    "batch_bald": "BatchBALD",
    "asap": "Bradley–Terry, active (ASAP-like)",
}


def method_name(spec: str, *, short: bool = False) -> str:
    """What a method is called in tables and figures; options follow its name.

    >>> method_name("epig:start=spread:r=5", short=True)
    'EPIG, start=spread, r=5'
    """
    name, *options = spec.split(":")
    shown = _NAMES.get(name, name)
    if short:
        shown = {"baseline (all data)": "all data"}.get(shown, shown).split(" (")[0]
    return ", ".join([shown, *options])


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        name: of its files.
        caption: what is to be seen.
        columns: headings.
        rows: cells; the first is a heading.
        note: what the marks mean.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """GitHub's table syntax."""
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "---|" + "---:|" * (len(self.columns) - 1)]
        lines += [
            "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in row) + " |"
            for row in self.rows
        ]
        note = ["", self.note] if self.note else []
        return "\n".join([f"**{self.caption}**", "", *lines, *note]) + "\n"

    def csv(self) -> str:
        """Comma-separated, as it stands in the table."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def latex(self) -> str:
        """A `table` for booktabs."""
        return latex_table(self.name, self.caption, self.columns, self.rows, self.note)

    def write(self, folder: Path) -> list[Path]:
        """Write `NAME.md`, `NAME.csv` and `NAME.tex`."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for ending, text in (("md", self.markdown()), ("csv", self.csv()), ("tex", self.latex())):
            path = folder / f"{self.name}.{ending}"
            path.write_text(text, encoding="utf-8")
            files.append(path)
        return files


def accuracy_table(analysis: Analysis) -> Table:
    """Accuracy of relative labels, as in the paper: * marks what differs significantly from the proposed method."""
    table, tests = analysis.accuracy(), analysis.significance()
    columns = ["overall", *analysis.neighbors, "neighboring"]
    best = {c: np.nanmax([found[c][0] for found in table.values()]) for c in columns}
    rows = []
    for method, found in table.items():
        cells = [method_name(method), f"{100 * found['label_ratio'][0]:.0f} %"]
        for column in columns:
            star = "*" if tests.get(column, {}).get(method, (1.0, False))[1] else ""
            cells.append(
                _measured(*found[column]) + star + (" †" if found[column][0] == best[column] else "")
            )
        rows.append(cells)
    folds, seeds = analysis.last["fold"].nunique(), analysis.last["seed"].nunique()
    heads = [" – ".join(analysis.about["neighbors"][n]) for n in analysis.neighbors]
    note = (
        f"Mean ± standard deviation over {folds} folds × {_count(seeds, 'seed')}. * differs from {method_name(analysis.proposed)} "
        f"(McNemar's test{_by_deal(seeds)}, Holm-corrected, p < 0.05). † highest in its column. "
        "Labels: comparisons as a share of training images"
        + (" (conventional: grades)." if "conventional" in analysis.methods else ".")
    )
    counts = analysis.last.groupby("method").size()
    if counts.nunique() > 1:
        note += " The run is not finished: methods differ in the number of their cells, so their means are over different folds."
    return Table(
        "accuracy",
        "Accuracy of relative labels",
        ["method", "labels", "overall", *heads, "neighboring"],
        rows,
        note,
    )


def difference_table(analysis: Analysis, reference: str) -> Table:
    """Paired differences from one method in the last round, with intervals over splits."""
    rows = []
    for method in analysis.methods:
        if method == reference:
            continue
        rows.append(
            [method_name(method)]
            + [
                interval_text(analysis.paired(method, reference, column))
                for column in ("overall", "neighboring")
            ]
        )
    return Table(
        f"difference_{reference.replace(':', '_').replace('=', '')}",
        f"Difference from {method_name(reference)}, in points",
        ["method", "overall", "neighboring"],
        rows,
        f"Mean difference and its 95 % interval over splits: {_splits(analysis)}, paired, with Nadeau and Bengio's correction for cells that "
        "share images.",
    )


def efficiency_table(analysis: Analysis) -> Table:
    """How few labels reach the accuracy of all data."""
    rows = [
        [
            method_name(e.method),
            "not reached" if np.isnan(e.reached) else f"{100 * e.reached:.0f} %",
            needed_text(e),
            f"{100 * e.ratio:.0f} %",
            interval_text(e.difference),
        ]
        for e in analysis.efficiency()
    ]
    return Table(
        "efficiency",
        "Labels needed for the accuracy of all data",
        ["method", "reached with", "95 % interval", "last round", "difference there, points"],
        rows,
        "Reached: where the mean overall accuracy, made to rise with the labels, crosses that of the baseline with all data in the same cells. "
        "Intervals are over splits, with the correction for cells that share images; difference: last round less all data.",
    )


def cost_table(
    analysis: Analysis, *, pair_seconds: float = PAIR_SECONDS, grade_seconds: float = GRADE_SECONDS
) -> Table:
    """Labels and annotation time: images in labelled pairs are graded as well. Of training images alone, and as the paper
    counts: with the validation images, which the authors choose and label by the same method and at the same ratio.
    """
    watched = analysis.validation_images()
    rows = []
    for method in analysis.methods:
        part = analysis.last[analysis.last["method"] == method]
        both = 1 + watched.reindex(list(zip(part["fold"], part["seed"], strict=True))).to_numpy()
        counts = {"ours": np.ones(len(part)), "paper": both}
        cells = [method_name(method)]
        for factor in counts.values():
            pairs, images = part["pairs"].to_numpy() * factor, part["images"].to_numpy() * factor
            spent = [
                cost(round(p), round(i), pair_seconds=pair_seconds, grade_seconds=grade_seconds).seconds
                for p, i in zip(pairs, images, strict=True)
            ]
            only = [] if factor is both else [f"{pairs.mean() * pair_seconds:,.0f} s"]
            cells += [f"{pairs.mean():,.0f}", f"{images.mean():,.0f}", *only, f"{np.mean(spent):,.0f} s"]
        rows.append(cells)
    return Table(
        "cost",
        "Labels and annotation time",
        ["method", "comparisons", "distinct images", "comparisons only", "with grades",
         "comparisons, as the paper counts", "images, as the paper counts", "with grades, as the paper counts"],
        rows,
        f"At {pair_seconds:g} s a comparison and {grade_seconds:g} s a grade; means over cells. First of training images only. The last three columns "
        "are the paper's way to count: validation images are chosen and labelled at the same ratio as training images, so that all labels are more "
        "by the share of validation images. (Here, networks are stopped by one pair for each validation image, in every round; the convex ranker needs none.)",
    )  # fmt: skip


def classification_table(analysis: Analysis) -> Table | None:
    """Macro precision, recall, F1, quadratic kappa and mean absolute error; None where grades were not learnt."""
    from steelyard.errors import ExperimentError

    try:
        table = analysis.run.table("classification")
    except ExperimentError:
        return None
    columns = ["precision", "recall", "f1", "kappa", "mae"]
    stats = mean_and_deviation(table, analysis.methods, columns)
    rows = [[method_name(m), *(_measured(*found[c]) for c in columns)] for m, found in stats.items()]
    return Table(
        "classification",
        "Classification of the imbalanced test set",
        ["method", "precision", "recall", "F1", "quadratic κ", "MAE (grades)"],
        rows,
        "Macro averages over grades; mean ± standard deviation over cells. Ranking methods learn comparisons and the grades of the "
        "compared images together (P6) and round the score to the nearest grade.",
    )


def calibration_table(analysis: Analysis) -> Table:
    """Calibration, ranking correlations and what uncertainty knows."""
    calibrations, doubts, ranks = analysis.calibrations(), analysis.uncertainty(), analysis.correlations()
    rows = []
    for method in analysis.methods:
        tau, rho = ranks.get(method, (float("nan"), float("nan")))
        if method in calibrations:
            c, u = calibrations[method], doubts[method]
            stated = [_plain(c.ece), _plain(c.brier), _plain(u["variance"]), _plain(u["doubt"])]
        else:
            stated = ["–"] * 4
        rows.append([method_name(method), _plain(tau), _plain(rho), *stated])
    return Table(
        "calibration",
        "Ranking correlation, calibration, and whether uncertainty knows the errors",
        ["method", "Kendall τ-b", "Spearman ρ", "ECE", "Brier", "AUROC of variance", "AUROC of doubt"],
        rows,
        "Correlation of test scores with grades, mean over cells. ECE and Brier of the probability of each overall test pair. AUROC: "
        "chance that a wrongly ordered pair has the larger variance of the difference (or the larger doubt, min(p, 1 − p)) than a "
        "rightly ordered one; 0.5 is blind.",
    )


def interval_text(interval: Interval) -> str:
    """In percentage points: `+2.1 [+0.4, +3.8]`; of a single cell without an interval."""
    if not np.isfinite(interval.low):
        return f"{100 * interval.difference:+.1f}".replace("-", "−")
    text = f"{100 * interval.difference:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
    return text.replace("-", "−")


def _splits(analysis: Analysis) -> str:
    """How many, in words: `5 folds in each of 3 deals`."""
    folds, seeds = analysis.last["fold"].nunique(), analysis.last["seed"].nunique()
    if analysis.about["config"].get("deals", "one") == "each" and seeds > 1:
        return f"{_count(folds, 'fold')} in each of {seeds} deals"
    return f"{_count(folds, 'fold')} of one deal, {_count(seeds, 'seed')} each"


def _by_deal(seeds: int) -> str:
    return "" if seeds == 1 else " for each seed, twice the median of its p-values"


def needed_text(e: Efficiency) -> str:
    """An interval of labels: `38 – 47 %`, `38 % – more`."""
    if np.isnan(e.low):
        return "more than was asked"
    return f"{100 * e.low:.0f} % – more" if np.isnan(e.high) else f"{100 * e.low:.0f} – {100 * e.high:.0f} %"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _measured(mean: float, deviation: float) -> str:
    if np.isnan(mean):
        return "–"
    return _plain(mean) if np.isnan(deviation) else f"{_plain(mean)} ± {_plain(deviation)}"


def _plain(value: float) -> str:
    """Three digits, without the nought before the point, as in the paper."""
    return "–" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1).replace("-", "−")
