"""Figures with a line per method: accuracy by labels, reliability, accuracy by cost."""

from __future__ import annotations

from typing import Any

from steelyard.report.analysis import Analysis
from steelyard.report.figure import Figure, legend, render
from steelyard.report.palette import INK, MUTED, method_styles
from steelyard.report.tables import method_name

__all__ = ["accuracy_figure", "cost_figure", "reliability_figure"]


def accuracy_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure:
    """Accuracy against the share of labels."""
    styles = method_styles(analysis.with_rounds)

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 2)
        for ax, column, title in zip(
            axes, ("overall", "neighboring"), ("Overall", "Neighboring"), strict=True
        ):
            curves = analysis.curves(column)
            for method in analysis.with_rounds:
                own = curves[curves["method"] == method]
                x, y, error = 100 * own["ratio"], own["mean"], own["error"].fillna(0)
                ax.plot(x, y, label=method_name(method, short=True), zorder=3, **styles[method])
                ax.fill_between(
                    x, y - error, y + error, color=styles[method]["color"], alpha=0.10, linewidth=0
                )
            _references(ax, curves)
            ax.set(title=title, xlabel="comparisons, % of training images")
        axes[0].set_ylabel("accuracy of relative labels")
        legend(canvas, axes[0])

    return render(
        "accuracy_labels",
        "Accuracy against labelling ratio",
        f"Mean over {analysis.cells} cells (fold × seed); bands: ± one standard error, corrected for cells that share images. Dotted: baseline with all data. Crosses: "
        "baseline, as many labels asked at once, trained anew for each ratio.",
        formats,
        (7.2, 3.3),
        paint,
    )


def _references(ax: Any, curves: Any) -> None:
    """The dotted line of all data, the crosses of the baseline, the dash-dotted line of conventional grading."""
    for method, dash in (("all", ":"), ("conventional", "-.")):
        own = curves[curves["method"] == method]
        if len(own):
            ax.axhline(
                float(own["mean"].iloc[0]),
                color=INK,
                linestyle=dash,
                linewidth=1.2,
                label=method_name(method, short=True),
            )
    own = curves[curves["method"] == "baseline"]
    if len(own):
        x, y, error = 100 * own["ratio"], own["mean"], own["error"].fillna(0)
        ax.plot(
            x,
            y,
            linestyle=(0, (1, 1)),
            linewidth=1.0,
            marker="x",
            color=INK,
            markersize=5,
            label="baseline",
            zorder=4,
        )
        ax.fill_between(x, y - error, y + error, color=INK, alpha=0.06, linewidth=0)


def reliability_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    """Stated against observed probability."""
    found, doubts = analysis.calibrations(), analysis.uncertainty()
    methods = [m for m in [*analysis.with_rounds, "all"] if m in found]
    if not methods:
        return None
    styles = method_styles(analysis.with_rounds) | {"all": {"color": INK, "marker": ".", "linestyle": ":"}}

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 2)
        axes[0].plot([0.5, 1], [0.5, 1], color=MUTED, linewidth=0.9, zorder=1)
        for method in methods:
            look = styles[method]
            axes[0].plot(
                found[method].stated, found[method].observed, label=method_name(method, short=True), **look
            )
            slices = doubts[method]["slices"]
            axes[1].plot(range(1, len(slices) + 1), [s.accuracy for s in slices], **look)
        axes[0].set(
            title="Reliability", xlabel="stated probability", ylabel="share that came true", xlim=(0.49, 1.01)
        )
        axes[1].set(
            title="Accuracy by variance",
            xlabel="fifth of pairs, by growing variance",
            ylabel="accuracy",
        )
        axes[1].set_xticks(range(1, 6))
        legend(canvas, axes[0])

    return render(
        "reliability",
        "Stated probabilities and what came true",
        "Left: overall test pairs of the last round, by stated probability of the likelier order; on the line they are calibrated. Right: "
        "accuracy in fifths of growing posterior variance; a fall means that the variance knows where the errors are.",
        formats,
        (7.2, 3.3),
        paint,
    )


def cost_figure(
    analysis: Analysis, formats: tuple[str, ...], pair_seconds: float, grade_seconds: float
) -> Figure:
    """Accuracy against the time of the annotators."""
    styles = method_styles(analysis.with_rounds)
    curves = analysis.curves()

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 2, sharey=True)
        for ax, grading in zip(axes, (0.0, grade_seconds), strict=True):
            seconds = curves["pairs"] * pair_seconds + curves["images"] * grading
            unit, size = ("hours", 3600) if seconds.max() > 5400 else ("minutes", 60)
            spent = seconds / size
            ax.set_xlabel(f"{unit} of annotation")
            for method in analysis.with_rounds:
                own = curves["method"] == method
                ax.plot(
                    spent[own],
                    curves.loc[own, "mean"],
                    label=method_name(method, short=True),
                    **styles[method],
                )
            for method, marker in (("baseline", "x"), ("all", "+"), ("conventional", "1")):
                own = curves["method"] == method
                if own.any() and (grading or method != "conventional"):
                    ax.plot(
                        spent[own], curves.loc[own, "mean"], linestyle="", marker=marker, color=INK, markersize=7,
                        markeredgewidth=1.5, label=method_name(method, short=True),
                    )  # fmt: skip
        axes[0].set(
            title=f"Comparisons only ({pair_seconds:g} s each)",
            ylabel="overall accuracy",
        )
        axes[1].set(title=f"Images graded as well ({grade_seconds:g} s each)")
        legend(canvas, axes[1])

    return render(
        "cost_curves",
        "Accuracy against annotation time",
        "Left, only comparisons are paid for; right, every distinct image in them is graded as well, as in the paper's multi-task labels.",
        formats,
        (7.2, 3.3),
        paint,
    )
