"""Figures of images by grade: their scores, their uncertainty, their share of what was asked, where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.experiment.cell import Cell
from steelyard.report.analysis import Analysis
from steelyard.report.figure import Figure, legend, narrow, render
from steelyard.report.palette import INK, MUTED, RULE, grade_colors, method_styles
from steelyard.report.tables import method_name

__all__ = ["map_figure", "sampled_figure", "scores_figure", "uncertainty_figure"]


def scores_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure:
    """Scores by grade: at first, and in the last round of the methods."""
    table = analysis.scores
    table = table[table["set"] == "test"]
    panels: list[tuple[str, Any]] = []
    proposed = analysis.proposed
    panels.append(
        (
            f"{method_name(proposed, short=True)}, round 0",
            table[(table["method"] == proposed) & (table["round"] == 0)],
        )
    )
    for method in dict.fromkeys(("baseline", *_chosen(analysis, at_most=2), "all")):
        own = table[table["method"] == method]
        if len(own):
            panels.append(
                (f"{method_name(method, short=True)}, last round", own[own["round"] == own["round"].max()])
            )
    panels = panels[:4]

    def paint(canvas: Any) -> None:
        axes = np.atleast_1d(canvas.subplots(1, len(panels), sharey=True))
        for ax, (title, own) in zip(axes, panels, strict=True):
            # Every cell has a scale of its own; standardised they can be pooled.
            cells = own.groupby(["fold", "seed"])["score"]
            score = (own["score"] - cells.transform("mean")) / cells.transform("std").replace(0, 1)
            _boxes(ax, [score[own["grade"] == g].to_numpy() for g in range(len(analysis.grades))], analysis)
            ax.set_title(narrow(title), fontsize=8.5)
        axes[0].set_ylabel("score of test images, standardised")

    return render(
        "scores_grades",
        "Scores of test images by grade",
        "Boxes: quartiles; whiskers: 5th to 95th percentile; all folds and seeds, each standardised. Better rankings separate the grades.",
        formats,
        (7.2, 2.9),
        paint,
    )


def uncertainty_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    """Uncertainty by grade: of the baseline, and of the proposed method at first and at last; None without draws."""
    table = analysis.scores
    table = table[(table["set"] == "pool") & table["method"].isin(["baseline", analysis.proposed])]
    panels: list[tuple[str, Any]] = []
    for method in dict.fromkeys(("baseline", analysis.proposed)):
        own = table[table["method"] == method]
        newest = int(own["round"].max()) if len(own) else 0
        for number in [newest] if method == "baseline" else sorted({0, newest}):
            part = own[own["round"] == number]
            if (part["variance"] > 0).any():
                panels.append((f"{method_name(method, short=True)}, {_round_name(number, newest)}", part))
    if not panels:
        return None

    def paint(canvas: Any) -> None:
        axes = np.atleast_1d(canvas.subplots(1, len(panels), sharey=True))
        for ax, (title, own) in zip(axes, panels, strict=True):
            spread = np.sqrt(own["variance"])
            # Relative to the spread of the scores of the same cell, because each cell has its own scale.
            scale = own.groupby(["fold", "seed"])["score"].transform("std").replace(0, 1)
            _boxes(
                ax,
                [(spread / scale)[own["grade"] == g].to_numpy() for g in range(len(analysis.grades))],
                analysis,
            )
            ax.set_title(narrow(title), fontsize=8.5)
        axes[0].set_ylabel("posterior deviation / spread of scores")

    return render(
        "uncertainty_grades",
        "Uncertainty of training images by grade",
        "Posterior standard deviation of each score, relative to the spread of the scores: of the baseline with all its labels, and of the proposed "
        "method before the first choice and after the last. Uncertainty sampling picks from the top.",
        formats,
        (7.2, 2.9),
        paint,
    )


def _round_name(number: int, newest: int) -> str:
    return "last round" if number == newest else f"round {number}"


def _boxes(ax: Any, groups: list[NDArray[np.float64]], analysis: Analysis) -> None:
    colors = grade_colors(len(groups))
    present = [k for k, values in enumerate(groups) if len(values)]
    drawn = ax.boxplot(
        [groups[k] for k in present], positions=present, widths=0.62, whis=(5, 95), showfliers=False, patch_artist=True,
        medianprops={"color": INK, "linewidth": 1.4}, whiskerprops={"color": MUTED}, capprops={"color": MUTED},
        boxprops={"linewidth": 0.8, "edgecolor": MUTED},
    )  # fmt: skip
    for k, box in zip(present, drawn["boxes"], strict=True):
        box.set_facecolor(colors[k])
        box.set_alpha(0.85)
    for k, line in zip(present, drawn["medians"], strict=True):
        line.set_color("white" if k > len(groups) / 2 else INK)
    ax.set_xticks(range(len(groups)), analysis.grades)
    ax.set_xlim(-0.6, len(groups) - 0.4)
    ax.grid(visible=False, axis="x")
    ax.set_xlabel("grade")


def sampled_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    """Grades of the images that were sampled, at first, half-way and at last: the baseline's beside those of the methods."""
    config = analysis.about["config"]
    shares = sorted(
        {(config["r"] + config["s"] * k) / 100 for k in (0, round(config["rounds"] / 2), config["rounds"])}
    )
    counts = analysis.sampled_images(shares)
    methods = [m for m in ("baseline", *_chosen(analysis, at_most=3)) if m in counts]
    if not methods:
        return None
    styles = method_styles(analysis.with_rounds) | {"baseline": {"color": "#aeb5c0"}}
    pool = analysis.pool_proportions()
    grades = np.arange(len(analysis.grades))

    def paint(canvas: Any) -> None:
        axes = np.atleast_1d(canvas.subplots(1, len(shares), sharey=True))
        width = 0.84 / len(methods)
        for ax, share in zip(axes, shares, strict=True):
            shown = [m for m in methods if share in counts[m]]
            for k, method in enumerate(methods):
                if method in shown:
                    ax.bar(
                        grades + (k - (len(methods) - 1) / 2) * width, counts[method][share], width,
                        color=styles[method]["color"], label=method_name(method, short=True), edgecolor="white", linewidth=0.5,
                    )  # fmt: skip
            if shown:
                total = counts[shown[0]][share].sum()
                ax.hlines(pool * total, grades - 0.46, grades + 0.46, color=INK, linewidth=1.0, linestyle=":")
            ax.set_title(f"{100 * share:.0f} % labels")
            ax.set_xticks(grades, analysis.grades)
            ax.set_xlabel("grade")
            ax.grid(visible=False, axis="x")
        axes[0].set_ylabel("images sampled, mean over cells")
        legend(canvas, max(axes, key=lambda ax: len(ax.get_legend_handles_labels()[1])))

    return render(
        "grades_asked",
        "Grades of what was asked",
        "Images of each grade sampled up to a round, counted as in the paper: once for every round that sampled them, mean over cells; the baseline "
        "samples as many at once. Dotted: what images drawn evenly from all would give.",
        formats,
        (7.2, 3.1),
        paint,
    )


def map_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    """t-SNE of the pool of one cell: by grade, and by what two methods picked."""
    methods = _chosen(analysis, at_most=2)
    table = analysis.scores
    first = table[(table["set"] == "pool") & (table["method"].isin(methods))]
    if not len(first):
        return None
    fold, seed = first[["fold", "seed"]].to_numpy().min(axis=0)
    embedding = analysis.run.embedding(Cell(methods[-1], int(fold), int(seed)))
    if embedding is None:
        return None
    cell = first[(first["fold"] == fold) & (first["seed"] == seed)]
    rows = np.unique(cell["image"])
    place = _tsne(embedding[rows])
    grade = analysis.images["grade"].to_numpy()[rows]
    colors = np.array(grade_colors(len(analysis.grades)))

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 1 + len(methods))
        for g, name in enumerate(analysis.grades):
            mine = grade == g
            axes[0].scatter(*place[mine].T, s=7, color=colors[g], linewidth=0, label=name)
        axes[0].set_title("by grade")
        handles, labels = axes[0].get_legend_handles_labels()
        canvas.legend(
            handles,
            labels,
            loc="outside lower left",
            ncols=len(labels),
            handletextpad=0.1,
            columnspacing=1.0,
            markerscale=1.8,
        )
        for ax, method in zip(axes[1:], methods, strict=True):
            own = cell[(cell["method"] == method) & (cell["round"] == 1) & cell["chosen"]]
            picked = np.isin(rows, own["image"])
            ax.scatter(*place[~picked].T, s=5, color=RULE, linewidth=0)
            ax.scatter(*place[picked].T, s=12, color=colors[grade[picked]], edgecolor=INK, linewidth=0.5)
            ax.set_title(narrow(f"round 1, {method_name(method, short=True)}"))
        for ax in axes:
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(visible=False)
            for side in ("left", "bottom"):
                ax.spines[side].set_color(RULE)

    return render(
        "map",
        "Where the picks lie",
        f"t-SNE of the features of the training images of fold {fold}, seed {seed}. Ringed: images picked by the first choice "
        "after the first training, coloured by grade.",
        formats,
        (7.2, 2.75),
        paint,
    )


def _tsne(rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    perplexity = float(min(30, max(2, (len(rows) - 1) // 3)))
    found = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=0).fit_transform(rows)
    return np.asarray(found, dtype=np.float64)


def _chosen(analysis: Analysis, at_most: int = 3) -> list[str]:
    """The methods worth a panel: random first, then the proposed one, then the others."""
    return list(_in_order(analysis))[:at_most]


def _in_order(analysis: Analysis) -> Iterator[str]:
    others = analysis.with_rounds
    yield from dict.fromkeys(
        [*(m for m in others if m == "random"), *(m for m in others if m == analysis.proposed), *others]
    )
