"""Commands about one study."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from steelyard.cli.console import (
    AsJson,
    Layout,
    PresetName,
    StudyFolder,
    app,
    deliver,
    deliver_facts,
    escape_markup,
    opened_study,
    out,
    print_json,
)
from steelyard.errors import ConfigError, SteelyardError, command
from steelyard.terminal import err, progress_bar

if TYPE_CHECKING:
    from steelyard.config import StudyConfig
    from steelyard.images.catalog import Catalog
    from steelyard.study import Study


Download = Annotated[
    bool,
    typer.Option("--download", help="Download pretrained weights if this machine has none."),
]

NOTHING_TO_DOWNLOAD = "--download fetches the weights of a backbone, and feature rows need none; leave it out"


@app.command()
def init(
    study: StudyFolder,
    images: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder or URL of the images (or a MedMNIST .npz).")
    ] = None,
    layout: Annotated[Layout, typer.Option(help="How the folder is read.")] = Layout.folder,
    labels: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Columns image, grade and optionally group.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="NPY", help="Feature matrix instead of images.")
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="Set of defaults.")] = PresetName.quick,
    name: Annotated[str, typer.Option(help="Name of the study; the folder's by default.")] = "",
    question: Annotated[str, typer.Option(help="Question on the page.")] = "",
    enough: Annotated[
        str,
        typer.Option(metavar="RULE", help="When to stop: gain:points=1, accuracy:least=0.85 or budget."),
    ] = "",
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="postgresql+psycopg://…/database instead of study.db; ?schema=NAME for one of many studies in it; also STEELYARD_STORE.",
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="Random seed of the study.")] = 0,
    on_error: Annotated[
        str, typer.Option(help="What to do with an unreadable image: skip or fail.")
    ] = "skip",
    download: Download = False,
    later: Annotated[
        bool, typer.Option("--later", help="Leave computing features to serve, or to a worker with a GPU.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a study from a folder of images, and compute what its model sees of them."""
    from steelyard.images.reading import read_catalog
    from steelyard.store.address import kept_address
    from steelyard.images.remote import whole_place
    from steelyard.study import Study, study_config
    from steelyard.study.making import check_catalog, check_place, check_store, made_folder

    check_place(study)
    if images is None and features is None and labels is not None:
        images = str(labels.resolve().parent)  # the table names its images by URL, or beside itself
    if images is None and features is None:
        raise ConfigError(
            "no images given; name their folder with --images DIR, or a matrix with --features NPY"
        )
    if download and features is not None:
        raise ConfigError(NOTHING_TO_DOWNLOAD)
    if on_error not in ("skip", "fail"):
        raise ConfigError(f"--on-error is skip or fail, not '{on_error}'")
    kind = "features" if images is None else ("csv" if labels and layout is Layout.folder else layout.value)
    chosen = "features" if features is not None and preset is PresetName.quick else preset.value
    config = study_config(
        chosen,
        name=name or study.resolve().name,
        seed=seed,
        store=kept_address(store),
        images={
            "root": whole_place(images) if images else "",
            "layout": kind,
            "labels": str(labels.resolve()) if labels else "",
            "features": str(features.resolve()) if features else "",
            "on_error": on_error,
        },
        **({"page": {"question": question}} if question else {}),
        **({"ask": {"enough": enough}} if enough else {}),
        **({"ranker": {"weights": "download"}} if download else {}),
    )
    # Whoever wants to hear of the first bad file hears of it before anything is computed.
    checked_first, cache = later or on_error == "fail", study / "cache"
    with made_folder(study):
        with progress_bar() as progress:
            catalog = read_catalog(config.images, check=checked_first, cache=cache, progress=progress)
        if not checked_first:
            check_catalog(catalog, config)
            check_store(config, catalog)
            catalog = _described(catalog, config, cache)
        with progress_bar() as progress:
            made = Study.create(study, catalog, config=config, progress=progress)
    if checked_first and not later:
        describe_images(made)
    _show_made(made, as_json)


def _described(catalog: Catalog, config: StudyConfig, cache: Path) -> Catalog:
    """Compute features of files that nobody has looked into; the images without those that cannot be read.

    What was computed of a picture shows that it can be read, so each is unpacked once and not once more to check it.
    """
    from steelyard.images.cache import UnreadableImages
    from steelyard.images.reading import read_catalog
    from steelyard.study.inputs import InputReader

    read: frozenset[str] = frozenset()
    with _features_or_why_not(), suppress(UnreadableImages), progress_bar() as progress:
        absent = InputReader(catalog, cache).read(config.ranker, progress).absent
        if not len(absent):
            return catalog
        read = frozenset(catalog.ids) - {catalog.ids[row] for row in absent.tolist()}
    with progress_bar() as progress:  # names the others, with the reason
        return read_catalog(config.images, known=read, cache=cache, progress=progress)


def describe_images(made: Study) -> None:
    """Compute features now, so that the first pair is a chosen one; the study stands whatever comes of it."""
    with _features_or_why_not(), progress_bar() as progress:
        made.seen(progress)


@contextmanager
def _features_or_why_not() -> Iterator[None]:
    """A study can do without features for now: say why they are missing, and go on."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("Features are not complete; what was computed is kept, and serve computes the rest.")
    except SteelyardError as error:
        err.print(f"Features could not be computed: {escape_markup(str(error))}", soft_wrap=True)


def _show_made(made: Study, as_json: bool) -> None:
    catalog = made.catalog
    if as_json:
        report = json.loads(catalog.report.to_json())
        print_json(
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
    for line in catalog.report.lines():
        out.print(escape_markup(line), soft_wrap=True)
    out.print(f"study made in {made.folder}\nnext: {command('serve', made.folder)}", soft_wrap=True)


@app.command("next")
def next_pairs(
    study: StudyFolder,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Pairs to choose.")] = 50,
    strategy: Annotated[str, typer.Option(help="Strategy; the study's own by default.")] = "",
    as_json: AsJson = False,
) -> None:
    """Choose the next pairs and put them up for answering."""
    with opened_study(study) as opened, progress_bar() as progress:
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
        print_json(rows)
        return
    if not rows:
        out.print("No pair is left to ask: all pairs of images have been compared.")
        return
    table = Table("pair", "one", "other", "why")
    for row in rows:
        table.add_row(str(row["pair"]), str(row["left"])[:12], str(row["right"])[:12], str(row["reason"]))
    out.print(table)


@app.command()
def score(
    study: StudyFolder,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="New images, also at a URL; the study's own by default."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="scores.csv or scores.parquet.")
    ] = None,
    question: Annotated[
        str,
        typer.Option(
            metavar="KEY", help="One scale in full, by the key of its question; main is the main one."
        ),
    ] = "",
    answers_alone: Annotated[
        bool, typer.Option("--answers-alone", help="Also scores from the answers alone, without the images.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score images: score, uncertainty, interval and rank, and how unlike the study's images each is.

    A higher score has more of what the question asks for; 0 is the middle of the study's images, and scores have no unit of
    their own. `low` to `high` is score ± 1.96 × `uncertainty`: for 95% of images, where the score would end up with ever more
    answers of the same people. Images whose intervals overlap widely are not reliably ordered.

    `unlike` is the share of the study's images that are more typical; `off_domain` flags images of another organ or modality,
    damaged ones and often those of another camera: 4% of new images of the same kind are flagged by chance.

    Where a study asks further questions, `score_KEY` and `uncertainty_KEY` follow for each, and `composite`: the weighted mean
    of all scales, each with mean 0 and deviation 1 over the study's images. Its uncertainty takes their errors as independent.

    With --answers-alone there are also `alone`, `alone_low`, `alone_high` (95%) and `alone_rank`: Bradley and Terry's scores
    (Rao and Kupper's with ties) in logits of the answers, drawn towards 0 by a weak prior where answers are few; `model_alone`,
    the model's score on that scale; `differs`, where the two contradict each other (mislabelled, or a blind spot of the model);
    and `infit`, `outfit`, how much answers about the image surprise (1 is as expected). Without a model there are only these.
    """
    from steelyard.study.domain import sentence as about_domain

    with opened_study(study) as opened, progress_bar() as progress:
        table = opened.score(
            folder, question=question or None, answers_alone=answers_alone, progress=progress
        )
        if folder is None:
            _say_without_score(opened, len(table))
        if (folder is not None or table.attrs.get("domain")) and (
            said := about_domain(table, own=folder is None)
        ):
            err.print(escape_markup(said), soft_wrap=True)
    deliver(table, output, as_json)


def _say_without_score(opened: Study, scored: int) -> None:
    from steelyard.study.scores import without_score

    excluded = len(opened.store.images.excluded_rows())
    if said := without_score(len(opened.catalog), scored, excluded):
        err.print(said, soft_wrap=True)


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
    """Turn scores into grades, with intervals, learnt from the images that have one."""
    from steelyard.study.domain import sentence as about_domain
    from steelyard.trust.grade_sets import sentence

    with opened_study(study) as opened:
        table = opened.grade(method=method)
        _say_without_score(opened, len(table))
        err.print(sentence(opened.grade_scale(method)))
        if table.attrs["domain"]:
            err.print(escape_markup(about_domain(table, own=True)), soft_wrap=True)
    deliver(table, output, as_json)


@app.command()
def status(study: StudyFolder, as_json: AsJson = False) -> None:
    """Where a study stands and what to do next."""
    with opened_study(study) as opened:
        deliver_facts(opened.status(), as_json)
