"""Commands about the images of a study."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

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
from steelyard.errors import ConfigError
from steelyard.terminal import err, progress_bar

if TYPE_CHECKING:
    from steelyard.engine import Engine

__all__ = ["add", "features", "watch"]


@app.command()
def add(
    study: StudyFolder,
    images: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Folder of the new images, or a URL (s3://…).", show_default=False
        ),
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


@app.command()
def watch(
    study: StudyFolder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Folder or URL (s3://…) into which new images come.", show_default=False
        ),
    ],
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two looks.")] = 30.0,
    layout: Annotated[
        Layout | None, typer.Option(help="How DIR is read; by default as the study's own folder was.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="Who adds them, for the audit log; by default the user of this machine.")
    ] = "",
) -> None:
    """Let images that come into a folder or bucket join the study, until stopped; a running server takes them in by itself.

    A file joins when two looks in a row find it unchanged and it can be decoded, so after one to two times --every. Files that
    are still being written, and a folder or server that is away, are tried again. Stop it with Ctrl+C and start it again as you
    like: nothing joins twice.
    """
    import signal
    import threading

    from steelyard.study.watching import Watcher

    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()  # when the look that is under way is over; a second Ctrl+C ends that as well
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    with opened_study(study) as opened, progress_bar() as progress:
        watcher = Watcher(opened, source, by=by or None, say=_say, layout=layout.value if layout else None)
        joined = 0
        while not stop.is_set():
            seen = watcher.look()
            joined += seen.joined
            there = len(opened.catalog)
            progress(there, there + seen.waiting, f"images: watching {source}")
            stop.wait(every)
    out.print(f"stopped; {joined:,} images joined")


def _say(sentence: str) -> None:
    err.print(f"{time.strftime('%H:%M:%S')}  {sentence}", markup=False, soft_wrap=True)


@app.command()
def features(
    study: StudyFolder,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str, typer.Option(help="Ray cluster (host:port); RAY_ADDRESS, or one started here, by default.")
    ] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Workers; 0 means one per core, or one per GPU.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compute what the model sees of the images, with many workers; people may compare meanwhile.

    Make a study of very many images with `init --later`, serve it, and run this beside it: the trainer takes up what has come,
    the model grows with it. Killed, the same command computes the rest.
    """
    from dataclasses import asdict

    from steelyard.scoring import describe_many

    if engine not in ("local", "ray"):
        raise ConfigError(f"--engine is local or ray, not '{engine}'")
    with opened_study(study) as opened, progress_bar() as progress:
        done = describe_many(
            opened, engine=cast("Engine", engine), address=address, jobs=jobs, progress=progress
        )
    if as_json:
        print_json(asdict(done))
        return
    out.print(f"{done.computed:,} of {done.images:,} images computed now")
    for line in done.unreadable[:20]:
        out.print(escape_markup(f"cannot be read: {line}"), soft_wrap=True)
    if len(done.unreadable) > 20:
        out.print(f"and {len(done.unreadable) - 20:,} more")
