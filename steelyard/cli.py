"""The command line: parse, call, translate errors. Nothing is computed here.

Heavy parts are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from steelyard import __version__
from steelyard.errors import ConfigError, SteelyardError

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["app", "main"]

Progress = Callable[[int, int, str], None]

app = typer.Typer(
    name="steelyard",
    help="Turn “which of these two is worse?” into a severity scale with as few questions as possible.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

StudyFolder = Annotated[
    Path, typer.Argument(metavar="STUDY", help="Folder of the study.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


class Layout(str, Enum):
    """How a folder of images is read."""

    folder = "folder"
    grades = "grades"
    csv = "csv"
    limuc = "limuc"
    hyperkvasir = "hyperkvasir"
    medmnist = "medmnist"


class PresetName(str, Enum):
    """Sets of defaults."""

    quick = "quick"
    paper = "paper"
    small = "small"


def main() -> None:
    """Entry point: one line and exit code 2 for whatever Steelyard raises on purpose."""
    try:
        app()
    except SteelyardError as error:
        err.print(f"[bold red]error:[/] {_escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("stopped; what was answered or finished is saved")
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(value: bool) -> None:
    if value:
        out.print(f"steelyard {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Turn “which of these two is worse?” into a severity scale with as few questions as possible."""


# --------------------------------------------------------------------------- the demo


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where the demo study goes; a temporary folder by default.")
    ] = None,
    serve: Annotated[bool, typer.Option(help="Open the annotation page afterwards.")] = True,
    port: Annotated[int, typer.Option(help="Port of the page.")] = 8765,
    images: Annotated[int, typer.Option(min=40, help="Images to draw.")] = 300,
    seed: Annotated[int, typer.Option(help="Where all chance comes from.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw images, let a virtual annotator answer, show that asking well beats asking at random, open the page."""
    import tempfile

    from steelyard.demo import run_demo

    place = folder or Path(tempfile.mkdtemp(prefix="steelyard-demo-"))
    with _progress() as progress:
        result = run_demo(place, images=images, seed=seed, progress=progress)
    plot = result.plot(place / "accuracy.png")
    if as_json:
        _print_json({**result.to_dict(), "study": str(result.study), "plot": str(plot)})
    else:
        table = Table(title=f"Pairs of unseen patients ordered right, {images} drawn images")
        for k, name in enumerate(result.columns):
            table.add_column(name, justify="left" if k == 0 else "right")
        for row in result.rows:
            table.add_row(*row)
        out.print(table)
        out.print(result.summary)
        out.print(f"picture  {plot}\nstudy    {result.study}", soft_wrap=True)
    if serve:
        from steelyard.web.app import serve as run_server

        run_server(result.study, host="127.0.0.1", port=port)


# --------------------------------------------------------------------------- a study


@app.command()
def init(
    study: StudyFolder,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the images (or a MedMNIST .npz).")
    ] = None,
    layout: Annotated[Layout, typer.Option(help="How the folder is read.")] = Layout.folder,
    labels: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Columns image, grade and optionally group.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="NPY", help="Feature matrix instead of images.")
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="Set of defaults.")] = PresetName.quick,
    name: Annotated[str, typer.Option(help="What people call the study; the folder's name by default.")] = "",
    question: Annotated[str, typer.Option(help="The one question on the page.")] = "",
    store: Annotated[
        str, typer.Option(metavar="URL", help="postgresql+psycopg://… instead of study.db.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Where all chance of the study comes from.")] = 0,
    on_error: Annotated[str, typer.Option(help="What an unreadable image does: skip or fail.")] = "skip",
    as_json: AsJson = False,
) -> None:
    """Make a study from a folder of images."""
    from steelyard.images.reading import read_catalog
    from steelyard.study import Study, study_config

    if images is None and features is None:
        raise ConfigError(
            "no images given; name their folder with --images DIR, or a matrix with --features NPY"
        )
    if on_error not in ("skip", "fail"):
        raise ConfigError(f"--on-error is skip or fail, not '{on_error}'")
    kind = "features" if images is None else ("csv" if labels and layout is Layout.folder else layout.value)
    chosen = "features" if features is not None and preset is PresetName.quick else preset.value
    config = study_config(
        chosen,
        name=name or study.resolve().name,
        seed=seed,
        store=store,
        images={
            "root": str(images.resolve()) if images else "",
            "layout": kind,
            "labels": str(labels.resolve()) if labels else "",
            "features": str(features.resolve()) if features else "",
            "on_error": on_error,
        },
        **({"page": {"question": question}} if question else {}),
    )
    with _progress() as progress:
        catalog = read_catalog(config.images, progress=progress)
        made = Study.create(study, catalog, config=config, progress=progress)
    _show_made(made, as_json)


def _show_made(made: Study, as_json: bool) -> None:
    catalog = made.catalog
    report = [str(line) for line in catalog.report]
    if as_json:
        _print_json(
            {
                "study": str(made.folder),
                "images": len(catalog),
                "grades": list(catalog.grade_names),
                "report": report,
            }
        )
        return
    out.print(
        f"{len(catalog)} images" + (f" in {len(catalog.grade_names)} grades" if catalog.grade_names else "")
    )
    for line in report[:10]:
        out.print(f"  {_escape(line)}", soft_wrap=True)
    if len(report) > 10:
        out.print(f"  … and {len(report) - 10} more (--json lists all)")
    out.print(f"study made in {made.folder}\nnext: steelyard serve {made.folder}", soft_wrap=True)


@app.command()
def serve(
    study: StudyFolder,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but 127.0.0.1 requires login.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8765,
) -> None:
    """Run the annotation page, the dashboard and the background trainer."""
    from steelyard.web.app import serve as run_server

    run_server(study, host=host, port=port)


@app.command()
def worker(
    study: StudyFolder,
    once: Annotated[bool, typer.Option(help="Train once if there are new answers, then stop.")] = False,
) -> None:
    """Train in the background, here or on another machine with the same store."""
    from steelyard.web.trainer import run_worker

    run_worker(study, once=once)


@app.command("next")
def next_pairs(
    study: StudyFolder,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Pairs to choose.")] = 50,
    strategy: Annotated[str, typer.Option(help="How; the study's own by default.")] = "",
    as_json: AsJson = False,
) -> None:
    """Choose the next pairs and put them up for answering."""
    with _opened(study) as opened, _progress() as progress:
        pairs = opened.propose(n, strategy=strategy or None, progress=progress)
        rows = [
            {
                "pair": pair.id,
                "left": pair.left,
                "right": pair.right,
                "strategy": pair.strategy,
                "reason": pair.reason,
            }
            for pair in pairs
        ]
    if as_json:
        _print_json(rows)
        return
    if not rows:
        out.print("No pair is left to ask: every two images have been compared.")
        return
    table = Table("pair", "one", "other", "why")
    for row in rows:
        table.add_row(str(row["pair"]), str(row["left"])[:12], str(row["right"])[:12], str(row["reason"]))
    out.print(table)


@app.command()
def train(study: StudyFolder, as_json: AsJson = False) -> None:
    """Train the ranker on all answers so far."""
    with _opened(study) as opened:
        with _progress() as progress:
            model = opened.fit(progress=progress)
        accuracy = opened.accuracy()
    if as_json:
        _print_json(
            {
                "round": model.round,
                "folder": str(model.folder),
                "answers": model.answers,
                "accuracy": accuracy.to_dict(),
            }
        )
        return
    out.print(f"model {model.round:03d} trained on {model.answers} answers\n{accuracy.sentence}")


@app.command()
def score(
    study: StudyFolder,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="New images; the study's own by default.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="scores.csv or scores.parquet.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score images: severity, uncertainty, interval and rank."""
    with _opened(study) as opened, _progress() as progress:
        table = opened.score(folder, progress=progress)
    _deliver(table, output, as_json)


@app.command()
def grade(
    study: StudyFolder,
    method: Annotated[
        str, typer.Option(help="ordinal, isotonic, or rounding (multi-task scores).")
    ] = "ordinal",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="grades.csv or grades.parquet.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn scores into grades, with intervals, from the images that carry a grade."""
    with _opened(study) as opened:
        table = opened.grade(method=method)
    _deliver(table, output, as_json)


@app.command("import")
def import_answers(
    study: StudyFolder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV, JSON, Parquet, choix tuples or Label Studio.")
    ],
    annotator: Annotated[str, typer.Option(help="Who answered, where the file does not say.")] = "imported",
    as_json: AsJson = False,
) -> None:
    """Bring in answers given elsewhere; what is already there is not doubled."""
    from steelyard.exchange import import_file

    with _opened(study) as opened:
        done = import_file(opened, file, annotator=annotator)
    if as_json:
        _print_json(done.to_dict())
    else:
        out.print(f"{done.added} answers added, {done.known} were already there")


@app.command("export")
def export_answers(
    study: StudyFolder,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write; its ending picks the format.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="csv, json, parquet, choix or labelstudio, where the ending does not say."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write all answers to a file: CSV, JSON, Parquet, choix tuples or Label Studio."""
    from steelyard.exchange import export_file

    with _opened(study) as opened:
        count = export_file(opened, output, form=form or None)
    if as_json:
        _print_json({"answers": count, "file": str(output)})
    else:
        out.print(f"{count} answers written to {output}", soft_wrap=True)


@app.command()
def agreement(study: StudyFolder, as_json: AsJson = False) -> None:
    """How well answers agree: between people, with themselves, and with the model."""
    with _opened(study) as opened:
        found = opened.agreement()
    if as_json:
        _print_json(found)
    else:
        _print_facts(found)


@app.command()
def status(study: StudyFolder, as_json: AsJson = False) -> None:
    """Where a study stands and what to do next."""
    with _opened(study) as opened:
        state = opened.status()
    if as_json:
        _print_json(state)
    else:
        _print_facts(state)


@app.command()
def doctor(
    folder: Annotated[Path | None, typer.Argument(help="Where studies are going to live.")] = None,
    as_json: AsJson = False,
) -> None:
    """Versions, devices, optional parts and how to get them, writable folders, free disk."""
    from steelyard.doctor import examine

    findings = examine(folder)
    if as_json:
        _print_json([vars(finding) for finding in findings])
    else:
        table = Table("", "what", "found", "what to do", box=None)
        marks = {"ok": "[green]✓[/]", "missing": "[yellow]–[/]", "problem": "[red]✗[/]"}
        for finding in findings:
            table.add_row(
                marks[finding.state], finding.what, _escape(finding.detail), _escape(finding.remedy)
            )
        out.print(table)
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(1)


# --------------------------------------------------------------------------- methods and papers


@app.command()
def experiment(
    out_folder: Annotated[Path, typer.Option("--out", metavar="RUN", help="Folder of the run.")],
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the images (or a MedMNIST .npz).")
    ] = None,
    layout: Annotated[
        Layout | None, typer.Option(help="How the folder is read; grades, or csv with --labels.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Columns image, grade and optionally group.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="NPY", help="Feature matrix; its rows match the CSV's.")
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Comma-separated: baseline,all,random,ubs,coreset,conventional and any strategy, with options as in epig:start=spread:r=5."
        ),
    ] = "baseline,all,random,ubs,coreset,epig",
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    only_folds: Annotated[str, typer.Option(help="Compute these only, as in 0,1.")] = "",
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 3,
    preset: Annotated[PresetName, typer.Option(help="Set of defaults of the ranker.")] = PresetName.quick,
    ranker: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Change one of the ranker's settings; repeatable."),
    ] = None,
    r: Annotated[float, typer.Option(help="First pairs, in percent of the training images.")] = 20.0,
    s: Annotated[float, typer.Option(help="Pairs a round, in percent of the training images.")] = 5.0,
    rounds: Annotated[int, typer.Option(help="K, rounds after the first.")] = 6,
    draws: Annotated[int, typer.Option(help="T, draws of the weights.")] = 30,
    start: Annotated[str, typer.Option(help="First pairs at random (the paper) or spread.")] = "random",
    annotator: Annotated[
        str, typer.Option(help="perfect, noisy, tie_prone, … with options after colons.")
    ] = "perfect",
    reselect: Annotated[bool, typer.Option(help="Compared images may be chosen again (the paper).")] = True,
    classify: Annotated[bool | None, typer.Option(help="Learn grades too and report classification.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    jobs: Annotated[int, typer.Option(help="Cells at a time; 0 takes one a core.")] = 0,
    resume: Annotated[
        bool, typer.Option(help="Go on with a run that was stopped, or add methods and seeds.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods under the paper's protocol: methods × folds × seeds × rounds."""
    from steelyard.experiment import ExperimentConfig, run_experiment

    config = ExperimentConfig.from_dict(
        {
            "images": str(images) if images else "",
            "layout": layout.value if layout else "features" if not images else "csv" if labels else "grades",
            "labels": str(labels) if labels else "",
            "features": str(features) if features else "",
            "methods": tuple(_listed(methods)),
            "folds": folds,
            "only_folds": tuple(_whole(part, "--only-folds") for part in _listed(only_folds)),
            "seeds": seeds,
            "preset": preset.value,
            "ranker": dict(_setting(text) for text in ranker or []),
            "r": r, "s": s, "rounds": rounds, "draws": draws, "start": start, "annotator": annotator,
            "reselect": reselect, "classify": classify, "engine": engine, "jobs": jobs,
        }
    )  # fmt: skip
    with _progress() as progress:
        run = run_experiment(
            config,
            out_folder,
            resume=resume,
            command=shlex.join(["steelyard", *sys.argv[1:]]),
            progress=progress,
        )
    results = run.results()
    last = results.sort_values("round").groupby(["method", "fold", "seed"], as_index=False).last()
    means = (
        last.groupby("method")[["pairs", "images", "label_ratio", "overall", "neighboring"]]
        .mean()
        .reindex(config.methods)
        .dropna(how="all")
    )
    if as_json:
        _print_json(
            {
                "run": str(out_folder),
                "results": str(out_folder / "results.csv"),
                "last_round": json.loads(means.to_json(orient="index")),
            }
        )
        return
    table = Table(
        "method",
        "pairs",
        "images",
        "labels",
        "overall",
        "neighboring",
        title="Last round, mean over folds and seeds",
    )
    for name, row in means.iterrows():
        table.add_row(
            str(name),
            f"{row['pairs']:.0f}",
            f"{row['images']:.0f}",
            f"{row['label_ratio']:.0%}",
            f"{row['overall']:.3f}",
            f"{row['neighboring']:.3f}",
        )
    out.print(table)
    out.print(
        f"all rounds: {out_folder / 'results.csv'}\nnext: steelyard report {out_folder} -o report.html",
        soft_wrap=True,
    )


@app.command()
def report(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|STUDY", help="Folder of an experiment or of a study.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The HTML file; figures and tables go beside it.")
    ] = Path("report.html"),
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML with all tables and figures; the same as SVG, PDF, PNG, CSV and LaTeX beside it."""
    from steelyard.report import write_report

    with _progress() as progress:
        written = write_report(source, output, progress=progress)
    if as_json:
        _print_json({"report": str(output), "files": [str(path) for path in written]})
    else:
        out.print(f"{output} and {len(written)} files beside it", soft_wrap=True)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{option} is a list of whole numbers, as in 0,1; not '{text}'") from None


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--ranker takes KEY=VALUE, as in dropout=0.1; not '{text}'")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


# --------------------------------------------------------------------------- helpers of the command line


@contextmanager
def _opened(folder: Path) -> Iterator[Study]:
    from steelyard.study import Study

    study = Study.open(folder)
    try:
        yield study
    finally:
        study.close()


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on standard error for anything that reports progress; silent where nobody watches."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def report(done: int, total: int, text: str) -> None:
            stage = text.split(":")[0]  # "training: loss 0.41" stays one bar
            if stage not in tasks:
                tasks[stage] = bars.add_task(text, total=total)
            bars.update(tasks[stage], completed=done, total=total, description=text)

        yield report


def _deliver(table: pd.DataFrame, output: Path | None, as_json: bool) -> None:
    if output is not None:
        from steelyard.exchange import write_table

        write_table(table, output)
        if as_json:
            _print_json({"rows": len(table), "file": str(output)})
        else:
            out.print(f"{len(table)} rows written to {output}", soft_wrap=True)
    elif as_json:
        print(table.to_json(orient="records"))
    else:
        print(table.to_csv(index=False), end="")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _print_facts(facts: dict[str, Any], indent: str = "") -> None:
    width = max((len(key) for key in facts), default=0)
    for key, value in facts.items():
        if isinstance(value, dict):
            out.print(f"{indent}{key}")
            _print_facts(value, indent + "  ")
        elif isinstance(value, list):
            out.print(f"{indent}{key:<{width}}  {_escape(', '.join(map(str, value))) or '–'}", soft_wrap=True)
        else:
            shown = f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)
            out.print(f"{indent}{key:<{width}}  {_escape(shown)}", soft_wrap=True)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


if __name__ == "__main__":
    main()
