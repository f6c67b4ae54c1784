"""Commands about the images of a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.console import (
    AsJson,
    Layout,
    StudyFolder,
    app,
    escape_markup,
    opened_study,
    out,
    print_json,
)
from steelyard.cli.study import describe_images
from steelyard.terminal import progress_bar

__all__ = ["add"]


@app.command()
def add(
    study: StudyFolder,
    images: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the new images.", show_default=False)
    ],
    labels: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Columns image (below DIR), grade and optionally group."),
    ] = None,
    layout: Annotated[
        Layout | None, typer.Option(help="How DIR is read; by default as the study's own folder was.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="Who adds them, for the audit log; by default the user of this machine.")
    ] = "",
    features_later: Annotated[
        bool, typer.Option("--later", help="Leave computing features to serve, or to a worker with a GPU.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add images that came later; a running server takes them in by itself.

    Images are told apart by their content, so adding the same folder again adds what came into it since.
    """
    with opened_study(study) as opened:
        with progress_bar() as progress:
            done = opened.add(
                images,
                labels=labels,
                layout=layout.value if layout else None,
                by=by or None,
                progress=progress,
            )
        if done.images and not features_later:
            describe_images(opened)
    if as_json:
        report = json.loads(done.report.to_json())
        print_json({"added": done.images, "known": done.known, "images": done.total, "report": report})
        return
    known = f", {done.known:,} were there already" if done.known else ""
    out.print(f"{done.images:,} images added{known}; the study has {done.total:,}")
    for line in done.report.lines():
        out.print(escape_markup(line), soft_wrap=True)
