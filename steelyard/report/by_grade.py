"""Figures of images by grade: their scores, their uncertainty, their share of what was asked, where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.experiment.cell import Cell
from steelyard.report.analysis import Analysis
from steelyard.report.figure import Figure, narrow, render
from steelyard.report.palette import INK, MUTED, RULE, grade_colors
from steelyard.report.tables import method_name

__all__ = ["map_figure", "proportions_figure", "scores_figure", "uncertainty_figure"]


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
    """Uncertainty by grade, round by round; None without draws."""
    table = analysis.scores
    table = table[(table["set"] == "pool") & (table["method"] == analysis.proposed)]
    if not len(table) or not (table["variance"] > 0).any():
        return None
    rounds = sorted({0, int(table["round"].max())})

    def paint(canvas: Any) -> None:
        axes = np.atleast_1d(canvas.subplots(1, len(rounds), sharey=True))
        for ax, number in zip(axes, rounds, strict=True):
            own = table[table["round"] == number]
            spread = np.sqrt(own["variance"])
            # Relative to the spread of the scores of the same cell, because each cell has its own scale.
            scale = own.groupby(["fold", "seed"])["score"].transform("std").replace(0, 1)
            _boxes(
                ax,
                [(spread / scale)[own["grade"] == g].to_numpy() for g in range(len(analysis.grades))],
                analysis,
            )
            ax.set_title(narrow(f"{method_name(analysis.proposed, short=True)}, round {number}"))
        axes[0].set_ylabel("posterior deviation / spread of scores")

    return render(
        "uncertainty_grades",
        "Uncertainty of training images by grade",
        "Posterior standard deviation of each score, relative to the spread of the scores, before the first choice and after the last. "
        "Uncertainty sampling picks from the top.",
        formats,
        (7.2, 2.9),
        paint,
    )


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


def proportions_figure(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    """Grades of the images that were asked about."""
    last = int(analysis.results["round"].max())
    rounds = sorted({0, round(last / 2), last})
    shares = analysis.asked_proportions(rounds)
    methods = [m for m in _chosen(analysis, at_most=4) if m in shares]
    if not methods:
        return None
    colors = grade_colors(len(analysis.grades))

    def paint(canvas: Any) -> None:
        axes = np.atleast_1d(canvas.subplots(1, len(methods), sharey=True))
        for ax, method in zip(axes, methods, strict=True):
            bars = [("all", analysis.pool_proportions())]
            bars += [(str(number), share) for number, share in shares[method].items()]
            floor = np.zeros(len(bars))
            for g, grade in enumerate(analysis.grades):
                heights = np.array([share[g] for _, share in bars]) * 100
                ax.bar(
                    range(len(bars)),
                    heights,
                    bottom=floor,
                    color=colors[g],
                    width=0.72,
                    label=grade,
                    edgecolor="white",
                    linewidth=0.6,
                )
                floor += heights
            ax.set_xticks(range(len(bars)), [name for name, _ in bars])
            ax.set_xlabel("up to round")
            ax.axvline(0.5, color=RULE, linewidth=0.8)
            ax.set_title(narrow(method_name(method, short=True)), fontsize=8.5)
            ax.grid(visible=False, axis="x")
            ax.set_ylim(0, 100)
        axes[0].set_ylabel("images in labelled pairs, %")
        handles, labels = axes[0].get_legend_handles_labels()
        canvas.legend(handles, labels, title="grade", loc="outside right center", reverse=True)

    return render(
        "grades_asked",
        "Grades of what was asked",
        "Share of each grade among the images of all pairs asked up to a round, mean over cells; left of the line, the grades of all images.",
        formats,
        (7.2, 2.9),
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
            own = cell[(cell["method"] == method) & (cell["round"] > 0) & cell["chosen"]]
            times = own.groupby("image").size().reindex(rows, fill_value=0).to_numpy()
            ax.scatter(*place[times == 0].T, s=5, color=RULE, linewidth=0)
            ax.scatter(
                *place[times > 0].T,
                s=5 + 7 * times[times > 0],
                color=colors[grade[times > 0]],
                edgecolor=INK,
                linewidth=0.5,
            )
            ax.set_title(narrow(f"picked by {method_name(method, short=True)}"))
        for ax in axes:
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(visible=False)
            for side in ("left", "bottom"):
                ax.spines[side].set_color(RULE)

    return render(
        "map",
        "Where the picks lie",
        f"t-SNE of the features of the training images of fold {fold}, seed {seed}. Ringed: images picked in the rounds after the first, coloured by "
        "grade, larger the more often they were picked.",
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
