"""The figures of PAPER.md, with reliability and cost curves, drawn from a run's tables."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.evaluate.cost import GRADE_SECONDS, PAIR_SECONDS
from steelyard.report.analysis import SINGLE, Analysis
from steelyard.report.palette import INK, MUTED, RULE, grade_colors, method_styles, style
from steelyard.report.tables import method_name

__all__ = ["Figure", "draw_figures", "render"]

FORMATS = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Figure:
    """A drawn figure.

    Attributes:
        name: of its files.
        title: short.
        caption: what is to be seen, for people who cannot see it as well.
        svg: for the page.
        files: other formats by ending.
    """

    name: str
    title: str
    caption: str
    svg: str
    files: dict[str, bytes]

    def write(self, folder: Path) -> list[Path]:
        """Write one file a format."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for ending, content in {"svg": self.svg.encode(), **self.files}.items():
            path = folder / f"{self.name}.{ending}"
            path.write_bytes(content)
            written.append(path)
        return written


def draw_figures(
    analysis: Analysis,
    *,
    formats: tuple[str, ...] = FORMATS,
    pair_seconds: float = PAIR_SECONDS,
    grade_seconds: float = GRADE_SECONDS,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Figure]:
    """Draw every figure that the run has data for."""
    drawers: list[Callable[[], Figure | None]] = [
        lambda: _accuracy(analysis, formats),
        lambda: _scores(analysis, formats),
        lambda: _proportions(analysis, formats),
        lambda: _uncertainty(analysis, formats),
        lambda: _map(analysis, formats),
        lambda: _reliability(analysis, formats),
        lambda: _cost(analysis, formats, pair_seconds, grade_seconds),
    ]
    figures = []
    for k, draw in enumerate(drawers, start=1):
        figure = draw()
        if figure is not None:
            figures.append(figure)
        if progress is not None:
            progress(k, len(drawers), "figures")
    return figures


def render(
    name: str,
    title: str,
    caption: str,
    formats: tuple[str, ...],
    size: tuple[float, float],
    paint: Callable[[Any], None],
) -> Figure:
    """Draw with our style and save in several formats.

    Args:
        name: of the files.
        title: short.
        caption: for the page.
        formats: endings besides SVG, which is always made.
        size: in inches.
        paint: is given the matplotlib figure.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(style()):
        canvas = Canvas(figsize=size)
        FigureCanvasAgg(canvas)
        paint(canvas)
        files: dict[str, bytes] = {}
        for ending in dict.fromkeys(("svg", *formats)):
            stream = io.BytesIO()
            # No dates inside, so that the same run gives the same bytes.
            metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
            canvas.savefig(stream, format=ending, metadata=metadata, dpi=200)
            files[ending] = stream.getvalue()
            canvas.set_layout_engine("none")  # laid out once is enough, and the same in every format
    svg = files.pop("svg").decode()
    return Figure(name, title, caption, svg[svg.index("<svg") :], files)


# --------------------------------------------------------------------------- accuracy


def _accuracy(analysis: Analysis, formats: tuple[str, ...]) -> Figure:
    styles = method_styles(_with_rounds(analysis))

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 2)
        for ax, column, title in zip(
            axes, ("overall", "neighboring"), ("Overall", "Neighboring"), strict=True
        ):
            curves = analysis.curves(column)
            for method in _with_rounds(analysis):
                own = curves[curves["method"] == method]
                x, y, error = 100 * own["ratio"], own["mean"], own["error"].fillna(0)
                ax.plot(x, y, label=method_name(method, short=True), zorder=3, **styles[method])
                ax.fill_between(
                    x, y - error, y + error, color=styles[method]["color"], alpha=0.10, linewidth=0
                )
            _references(ax, curves)
            ax.set(title=title, xlabel="comparisons, % of training images")
        axes[0].set_ylabel("accuracy of relative labels")
        _legend(canvas, axes[0])

    return render(
        "accuracy_labels",
        "Accuracy against labelling ratio",
        f"Mean over {analysis.cells} cells (fold × seed); bands: ± one standard error. Dotted: baseline with all data. Cross: "
        "baseline, all labels asked at once.",
        formats,
        (7.2, 3.3),
        paint,
    )


def _references(ax: Any, curves: Any) -> None:
    """The dotted line of all data, the cross of the baseline, the dash-dotted line of conventional grading."""
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
        ax.plot(
            100 * own["ratio"],
            own["mean"],
            linestyle="",
            marker="x",
            color=INK,
            markersize=6,
            label="baseline",
            zorder=4,
        )


# --------------------------------------------------------------------------- scores and uncertainty by grade


def _scores(analysis: Analysis, formats: tuple[str, ...]) -> Figure:
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
            ax.set_title(title, fontsize=8.5)
        axes[0].set_ylabel("score of test images, standardised")

    return render(
        "scores_grades",
        "Scores of test images by grade",
        "Boxes: quartiles; whiskers: 5th to 95th percentile; all folds and seeds, each standardised. Better rankings separate the grades.",
        formats,
        (7.2, 2.9),
        paint,
    )


def _uncertainty(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
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
            ax.set_title(f"{method_name(analysis.proposed, short=True)}, round {number}")
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


# --------------------------------------------------------------------------- what was asked


def _proportions(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
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
            ax.set_title(method_name(method, short=True), fontsize=8.5)
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


def _map(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    """t-SNE of the pool of one cell: by grade, and by what two methods picked."""
    path = analysis.run.path / "embedding.npy"
    methods = _chosen(analysis, at_most=2)
    table = analysis.scores
    first = table[(table["set"] == "pool") & (table["method"].isin(methods))]
    if not path.exists() or not len(first):
        return None
    fold, seed = first[["fold", "seed"]].to_numpy().min(axis=0)
    cell = first[(first["fold"] == fold) & (first["seed"] == seed)]
    rows = np.unique(cell["image"])
    place = _tsne(np.load(path)[rows])
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
            ax.set_title(f"picked by {method_name(method, short=True)}")
        for ax in axes:
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(visible=False)
            for side in ("left", "bottom"):
                ax.spines[side].set_color(RULE)

    return render(
        "map",
        "Where the picks lie",
        f"t-SNE of the inputs of the training images of fold {fold}, seed {seed}. Ringed: images picked in the rounds after the first, coloured by "
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


# --------------------------------------------------------------------------- calibration and cost


def _reliability(analysis: Analysis, formats: tuple[str, ...]) -> Figure | None:
    found, doubts = analysis.calibrations(), analysis.uncertainty()
    methods = [m for m in [*_with_rounds(analysis), "all"] if m in found]
    if not methods:
        return None
    styles = method_styles(_with_rounds(analysis)) | {"all": {"color": INK, "marker": ".", "linestyle": ":"}}

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
        _legend(canvas, axes[0])

    return render(
        "reliability",
        "Stated probabilities and what came true",
        "Left: overall test pairs of the last round, by stated probability of the likelier order; on the line they are calibrated. Right: "
        "accuracy in fifths of growing posterior variance; a fall means that the variance knows where the errors are.",
        formats,
        (7.2, 3.3),
        paint,
    )


def _cost(analysis: Analysis, formats: tuple[str, ...], pair_seconds: float, grade_seconds: float) -> Figure:
    styles = method_styles(_with_rounds(analysis))
    curves = analysis.curves()

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 2, sharey=True)
        for ax, grading in zip(axes, (0.0, grade_seconds), strict=True):
            seconds = curves["pairs"] * pair_seconds + curves["images"] * grading
            unit, size = ("hours", 3600) if seconds.max() > 5400 else ("minutes", 60)
            spent = seconds / size
            ax.set_xlabel(f"{unit} of annotation")
            for method in _with_rounds(analysis):
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
        _legend(canvas, axes[1])

    return render(
        "cost_curves",
        "Accuracy against annotation time",
        "Left, only comparisons are paid for; right, every distinct image in them is graded as well, as in the paper's multi-task labels.",
        formats,
        (7.2, 3.3),
        paint,
    )


# --------------------------------------------------------------------------- shared


def _legend(canvas: Any, ax: Any) -> None:
    """Below the panels; the figure grows by what the legend needs."""
    handles, labels = ax.get_legend_handles_labels()
    most = 6 if max(map(len, labels)) < 16 else 3 if max(map(len, labels)) < 34 else 2
    lines = -(-len(labels) // most)
    columns = -(-len(labels) // lines)
    canvas.set_figheight(canvas.get_figheight() + 0.19 * (lines - 1))
    canvas.legend(
        handles, labels, loc="outside lower center", ncols=columns, handlelength=2.2, columnspacing=1.4
    )


def _with_rounds(analysis: Analysis) -> list[str]:
    return [m for m in analysis.methods if m.split(":")[0] not in SINGLE]


def _chosen(analysis: Analysis, at_most: int = 3) -> list[str]:
    """The methods worth a panel: random first, then the proposed one, then the others."""
    return list(_in_order(analysis))[:at_most]


def _in_order(analysis: Analysis) -> Iterator[str]:
    others = _with_rounds(analysis)
    yield from dict.fromkeys(
        [*(m for m in others if m == "random"), *(m for m in others if m == analysis.proposed), *others]
    )
