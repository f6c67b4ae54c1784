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
    from steelyard.images.remote import whole_place
    from steelyard.store.address import kept_address
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
def status(study: StudyFolder, as_json: AsJson = False) -> None:
    """Where a study stands and what to do next."""
    with opened_study(study) as opened:
        deliver_facts(opened.status(), as_json)
