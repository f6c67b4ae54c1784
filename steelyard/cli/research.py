"""Commands around studies: the demo, experiments, virtual annotators, reports, the doctor."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from steelyard.cli.console import (
    AsJson,
    Layout,
    PresetName,
    StudyFolder,
    app,
    escape_markup,
    opened_study,
    out,
    print_json,
)
from steelyard.errors import ConfigError, command
from steelyard.terminal import err, progress_bar


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where the demo study goes; a temporary folder by default.")
    ] = None,
    serve: Annotated[bool, typer.Option(help="Open the annotation page afterwards.")] = True,
    port: Annotated[int, typer.Option(help="Port of the page.")] = 8765,
    images: Annotated[int, typer.Option(min=40, help="Images to draw.")] = 300,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw images, let a virtual annotator answer, compare asking well with asking at random, open the page."""
    import tempfile

    # Pictures and fits of the demo are small: threads would spend more time on each other than on them.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from steelyard.demo import run_demo

    place = folder or Path(tempfile.mkdtemp(prefix="steelyard-demo-"))
    with progress_bar() as progress:
        result = run_demo(place, images=images, seed=seed, progress=progress)
    plot = result.plot(place / "accuracy.png")
    if as_json:
        print_json({**result.to_dict(), "study": str(result.study), "plot": str(plot)})
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

        err.print("\nWhat to look at on the page that opens now:")
        for name, text in result.tour:
            err.print(f"  {name:<9} {text}", soft_wrap=True)
        err.print()
        run_server(result.study, host="127.0.0.1", port=port)


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
    s: Annotated[float, typer.Option(help="Pairs per round, in percent of the training images.")] = 5.0,
    rounds: Annotated[int, typer.Option(help="K, rounds after the first.")] = 6,
    draws: Annotated[int, typer.Option(help="T, draws of the weights.")] = 30,
    start: Annotated[
        str, typer.Option(help="First pairs at random (the paper), spread, or from clusters.")
    ] = "random",
    annotator: Annotated[
        str, typer.Option(help="perfect, noisy, tie_prone, … with options after colons.")
    ] = "perfect",
    reselect: Annotated[bool, typer.Option(help="Compared images may be chosen again (the paper).")] = True,
    classify: Annotated[bool | None, typer.Option(help="Learn grades too and report classification.")] = None,
    test_pairs: Annotated[
        int,
        typer.Option(
            help="Test pairs: at least this many overall, at most this many of each two neighbouring grades."
        ),
    ] = 1000,
    deals: Annotated[
        str, typer.Option(help="'each' seed deals the images into folds anew, or 'one' deal for all.")
    ] = "each",
    near_duplicates: Annotated[bool, typer.Option(help="Keep near-duplicate images in one set.")] = True,
    half: Annotated[
        str, typer.Option(help="all images, the half to 'choose' settings on, or the half to 'report'.")
    ] = "all",
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    jobs: Annotated[int, typer.Option(help="Cells at a time; 0 means one per core.")] = 0,
    resume: Annotated[
        bool, typer.Option(help="Resume a run that was stopped, or add methods and seeds.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods under the paper's protocol: methods × folds × seeds × rounds."""
    from steelyard.experiment import ExperimentConfig, run_experiment
    from steelyard.experiment.folder import RunFolder

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
            "reselect": reselect, "classify": classify, "test_pairs": test_pairs, "near_duplicates": near_duplicates, "half": half,
            "deals": deals or RunFolder(out_folder).deals(),
            "engine": engine, "jobs": jobs,
        },
        source="experiment",
    )  # fmt: skip
    with progress_bar() as progress:
        run = run_experiment(
            config,
            out_folder,
            resume=resume,
            command=shlex.join(["steelyard", *sys.argv[1:]]),
            progress=progress,
            begin=lambda text: err.print(text, markup=False, soft_wrap=True),
        )
    results = run.table("results")
    last = results.sort_values("round").groupby(["method", "fold", "seed"], as_index=False).last()
    means = (
        last.groupby("method")[["pairs", "images", "label_ratio", "overall", "neighboring"]]
        .mean()
        .reindex(config.methods)
        .dropna(how="all")
    )
    if as_json:
        print_json(
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
        f"all rounds: {out_folder / 'results.csv'}\nnext: {command('report', out_folder, '-o', 'report.html')}",
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
    proposed: Annotated[
        str,
        typer.Option(
            help="Method that the others are tested against (experiments); the paper's ubs by default."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML with all tables and figures; the same as SVG, PDF, PNG, CSV and LaTeX beside it."""
    from steelyard.report import write_report

    with progress_bar() as progress:
        written = write_report(source, output, proposed=proposed or None, progress=progress)
    beside = written.with_name(f"{written.stem}_files")
    if as_json:
        print_json(
            {
                "report": str(written),
                "files": [str(path) for path in sorted(beside.rglob("*")) if path.is_file()],
            }
        )
    else:
        out.print(f"{written}, with figures and tables in {beside.name}/", soft_wrap=True)


@app.command()
def doctor(
    folder: Annotated[Path | None, typer.Argument(help="Folder where studies will be kept.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show versions, devices, optional parts and how to get them, writable folders and free disk space."""
    from steelyard.doctor import examine

    findings = examine(folder)
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        table = Table("", "what", "found", "what to do", box=None)
        marks = {"ok": "[green]✓[/]", "missing": "[yellow]–[/]", "problem": "[red]✗[/]"}
        for finding in findings:
            table.add_row(
                marks[finding.state],
                finding.what,
                escape_markup(finding.detail),
                escape_markup(finding.remedy),
            )
        out.print(table)
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(1)


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


@app.command()
def simulate(
    study: StudyFolder,
    n: Annotated[
        int,
        typer.Option("-n", "--number", min=0, help="Most answers to give; 0 answers every open pair."),
    ] = 0,
    annotator: Annotated[
        str,
        typer.Option(
            help="perfect, noisy, tie_prone, tiring or side_biased, with options as in noisy:scale=0.3."
        ),
    ] = "perfect",
    as_json: AsJson = False,
) -> None:
    """Let a virtual annotator that knows the grades answer the open pairs, for trials without people."""
    from steelyard.annotators import make_annotator
    from steelyard.options import parse_options

    name, options = parse_options(annotator)
    with opened_study(study) as opened:
        grades = opened.known_grades()
        if (grades < 0).any():
            raise ConfigError(
                f"a virtual annotator needs the grade of every image; {int((grades < 0).sum())} have none"
            )
        given = opened.simulate(make_annotator(name, grades, **options), n or None, name=f"virtual-{name}")
    if as_json:
        print_json({"answers": given})
    else:
        out.print(
            f"{given} pairs answered"
            if given
            else f"No pair is up; choose some with: {command('next', study)}"
        )
