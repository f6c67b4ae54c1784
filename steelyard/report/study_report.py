"""The report of a live study: what people answered, what the model makes of it, how sure it is."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.errors import command
from steelyard.evaluate.cost import measured_seconds
from steelyard.progress import Progress, counted, duration
from steelyard.report.card import card_section
from steelyard.report.figure import FORMATS, Figure, render
from steelyard.report.html import Section, page
from steelyard.report.palette import INK, MUTED, grade_colors
from steelyard.report.questions import asked_words, questions_table
from steelyard.report.scales import scales_section
from steelyard.report.study_tables import ends_table, people_table, unlike_table
from steelyard.store.told import WHEN
from steelyard.study.domain import sentence
from steelyard.study.scores import without_score
from steelyard.study.wording import questions_asked, read_wordings
from steelyard.trust.stopping import AccuracyEstimate, accuracy_of

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["write_study_report"]

BLUE, ORANGE = "#0072B2", "#D55E00"


def write_study_report(
    path: Path | str,
    out: Path | str = "report.html",
    *,
    title: str = "",
    formats: tuple[str, ...] = FORMATS,
    progress: Progress | None = None,
) -> Path:
    """Write the report of a study, finished or not.

    Args:
        path: the study's folder.
        out: the HTML file; figures and tables go to `OUT_files/`.
        title: of the page; the study's name by default.
        formats: of the figure files.
        progress: called as progress(done, total, text).

    Raises:
        StudyError: there is no study, or no model yet.
    """
    from steelyard.study import Study

    target = Path(out)
    study = Study.open(path)
    try:
        scores, words = study.score(), study.config.page.words
        status, agreement, estimate = study.status(), study.agreement(), study.accuracy()
        answers = study.store.answers.arrays()
        grades = _grades_by_path(study)
        models = study.store.models.all()
        history = _history(models, estimate, formats)
        scale = [
            figure
            for figure in (
                _scale(scores, grades, study, formats),
                _by_grade(scores, grades, study, formats),
            )
            if figure is not None
        ]
        accuracy = [] if history is None else [history]
        if progress is not None:
            progress(1, 1, "figures")
        seconds = measured_seconds(answers.answered_at - answers.shown_at)
        asked = questions_asked(read_wordings(study.store), study.store.answers.told(*WHEN), answers.seq)
        people, questions = people_table(status, agreement), questions_table(asked)
        ends, strange = ends_table(scores, words), unlike_table(scores)
        further = scales_section(study, scores, formats)
        missing = without_score(status["images"], len(scores), status["excluded"])
        unknown = [f"{missing}."] if missing else []
        unknown += [sentence(scores, own=True)] if scores.attrs["domain"] else []
        beside = target.with_name(f"{target.stem}_files")
        for figure in (*accuracy, *scale, *(f for part in further for f in part.figures)):
            figure.write(beside / "figures")
        for table in (people, questions, ends, *strange, *(t for part in further for t in part.tables)):
            table.write(beside / "tables")
        sections = [
            Section(
                "Where it stands", findings=_findings(status, estimate, agreement, seconds), figures=accuracy
            ),
            Section("The scale", figures=scale, tables=[ends, *strange], findings=unknown),
            *further,
            Section("The answers", tables=[questions, people]),
            *card_section(study.folder / models[-1].path),
            _reproduction(study, models),
        ]
        facts = [
            ("images", f"{len(scores):,}"),
            ("answers", f"{status['answers']:,}"),
            ("people", str(len(status["annotators"]))),
            ("unseen pairs ordered right", _range(estimate)),
        ]
        lead = (
            f"{counted(status['answers'], 'answer')} from {counted(len(status['annotators']), 'person', 'people')} {asked_words(asked, study.config.page.question)} turned into a "
            f"{words.score} for each of {len(scores):,} images."
        )
        text = page(title or f"Study {status['study'] or study.folder.name}", lead, facts, sections)
    finally:
        study.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def _grades_by_path(study: Study) -> dict[str, int]:
    """Known grade of each image id."""
    known = study.known_grades()
    return {str(id): int(grade) for id, grade in zip(study.catalog.ids, known, strict=True) if grade >= 0}


def _range(estimate: AccuracyEstimate) -> str:
    """A share never stands without its interval: 100% of 5 pairs is not 100%."""
    if estimate.estimate is None or estimate.low is None or estimate.high is None:
        return "not known yet"
    return f"{estimate.estimate:.0%} ({estimate.low:.0%}–{estimate.high:.0%})"


def _history(models: list[Any], estimate: AccuracyEstimate, formats: tuple[str, ...]) -> Figure | None:
    """Estimated accuracy of each model against the answers it had and what is forecast, beside random pairs alone and a coin."""
    points = [(m.metrics["answers"], *found) for m in models if (found := accuracy_of(m.metrics)) is not None]
    if len(points) < 2:
        return None
    x, y, low, high = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    ahead = np.array(estimate.ahead, dtype=float)
    alone = models[-1].metrics.get("random", [])

    def paint(canvas: Any) -> None:
        from matplotlib.ticker import PercentFormatter

        ax = canvas.subplots()
        ax.fill_between(x, low, high, color=BLUE, alpha=0.15, linewidth=0, label="its 95 % interval")
        ax.plot(x, y, color=BLUE, marker="o", label="this study")
        if alone:
            k, share, least, most = zip(*alone, strict=True)
            ax.plot(
                k, share, color=ORANGE, marker="s", linestyle=(0, (5, 1.5)), label="its random pairs alone"
            )
            ax.plot([k[-1], k[-1]], [least[-1], most[-1]], color=ORANGE, linewidth=1)
        if len(ahead):
            ax.fill_between(ahead[:, 0], ahead[:, 2], ahead[:, 3], color=MUTED, alpha=0.15, linewidth=0)
            ax.plot(
                ahead[:, 0],
                ahead[:, 1],
                color=MUTED,
                linestyle=(0, (3, 2)),
                label="forecast, with its 95 % interval",
            )
        if estimate.level is not None:
            ax.axhline(estimate.level, color=ORANGE, linewidth=0.8, label="what was asked for")
        ax.axhline(0.5, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), label="a coin")
        ax.set(xlabel="answers", ylabel="unseen pairs ordered right", xlim=(0, None))
        ax.set_ylim(min(0.45, float(y.min()) - 0.05), 1.0)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        canvas.legend(*ax.get_legend_handles_labels(), loc="outside right center")

    said = (
        " The dashed line is a model fitted on nothing but the random pairs, as far as there are any; the bar at its end is its interval."
        if alone
        else ""
    )
    return render(
        "history",
        "Accuracy as answers came in",
        "Each point is a model; its accuracy is estimated on pairs drawn at random, each predicted as if it had not been answered."
        + said,
        formats,
        (7.2, 2.8),
        paint,
    )


def _scale(scores: pd.DataFrame, grades: dict[str, int], study: Study, formats: tuple[str, ...]) -> Figure:
    """Every image in order, with its interval."""
    table = scores.sort_values("score", ignore_index=True)
    names = study.grade_names
    known = np.array([grades.get(str(image), -1) for image in table["image"]])

    def paint(canvas: Any) -> None:
        ax = canvas.subplots()
        x = np.arange(len(table))
        ax.fill_between(x, table["low"], table["high"], color="#dfe6ee", linewidth=0, label="95 % interval")
        plain = known < 0
        ax.scatter(
            x[plain],
            table["score"][plain],
            s=5,
            color=MUTED,
            linewidth=0,
            label="image" if plain.any() else None,
        )
        colors = grade_colors(max(len(names), 1))
        for g, name in enumerate(names):
            mine = known == g
            if mine.any():
                ax.scatter(
                    x[mine],
                    table["score"][mine],
                    s=8,
                    color=colors[g],
                    edgecolor=INK,
                    linewidth=0.2,
                    label=fill(name if not name.isdigit() else f"grade {name}", 24),
                )
        ax.set(xlabel=f"images, {study.config.page.words.order}", ylabel="score")
        ax.grid(visible=False, axis="x")
        canvas.legend(*ax.get_legend_handles_labels(), loc="outside right center")

    return render(
        "scale",
        "All images on the scale",
        "Scores with their 95 % intervals, in order; images whose grade is known are coloured.",
        formats,
        (7.2, 3.2),
        paint,
    )


def _by_grade(
    scores: pd.DataFrame, grades: dict[str, int], study: Study, formats: tuple[str, ...]
) -> Figure | None:
    names = study.grade_names
    known = np.array([grades.get(str(image), -1) for image in scores["image"]])
    present = [g for g in range(len(names)) if (known == g).any()]
    if len(present) < 2:
        return None

    def paint(canvas: Any) -> None:
        axes = canvas.subplots(1, 2)
        for ax, column, label in zip(
            axes, ("score", "uncertainty"), ("score", "uncertainty (standard deviation)"), strict=True
        ):
            drawn = ax.boxplot(
                [scores[column][known == g].to_numpy() for g in present], positions=present, widths=0.6, whis=(5, 95), showfliers=False,
                patch_artist=True, medianprops={"color": INK},
            )  # fmt: skip
            for g, box in zip(present, drawn["boxes"], strict=True):
                box.set_facecolor(grade_colors(len(names))[g])
            ax.set_xticks(present, [fill(names[g], max(4, 40 // len(present))) for g in present])
            ax.set(xlabel="grade", ylabel=label)
            ax.grid(visible=False, axis="x")

    return render(
        "grades",
        "Scores and uncertainty by known grade",
        "Boxes: quartiles; whiskers: 5th to 95th percentile.",
        formats,
        (7.2, 2.9),
        paint,
    )


def _findings(status: dict[str, Any], estimate: Any, agreement: dict[str, Any], seconds: float) -> list[str]:
    found = [estimate.sentence, estimate.enough]
    if status["graded"]:
        found.append(
            f"{status['graded']:,} of {status['images'] - status['excluded']:,} images have a known grade."
        )
    if agreement.get("equal"):
        found.append(
            f"{agreement['equal']:,} answers said that two images are equal; {agreement['could not judge']:,} could not be judged."
        )
    if not np.isnan(seconds):
        found.append(
            f"An answer takes {seconds:.1f} s (median), so all answers together took {duration(seconds * status['answers'])}."
        )
    return found


def _reproduction(study: Study, models: list[Any]) -> Section:
    import tomli_w

    newest = models[-1]
    packages = ("steelyard", "numpy", "scipy", "pandas", "sqlalchemy")
    return Section(
        "How to repeat it",
        facts=[
            ("data", f"{len(study.catalog):,} images, fingerprint {study.catalog.fingerprint()}"),
            (
                "model",
                f"model {newest.id} ({newest.path}), trained on the log up to entry {newest.comparisons_seq}",
            ),
            ("seed", str(study.config.seed)),
            (
                "versions",
                ", ".join(
                    [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]
                ),
            ),
        ],
        code=[command("report", study.folder.name, "-o", "report.html")],
        details=[("study.toml", tomli_w.dumps(_without_secrets(study.config.to_dict())))],
    )


def _without_secrets(config: dict[str, Any]) -> dict[str, Any]:
    """A report is shown around; the database's address may hold a password."""
    return {key: ("…" if key == "store" and value else value) for key, value in config.items()}
