"""Commands that keep running: the page, and training beside it or elsewhere. Every option can be set by the environment."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.console import app
from steelyard.environment import thread_limits
from steelyard.errors import ConfigError

if TYPE_CHECKING:
    from steelyard.study.remote import RemoteStudy

__all__ = ["serve", "worker"]

Threads = Annotated[
    int,
    typer.Option(
        envvar="STEELYARD_THREADS",
        help="Threads to compute with; 0 takes a core each, which in a container may be more than it has.",
        min=0,
    ),
]


@app.command()
def serve(
    study: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[STUDY]...", help="Folder of the study, or of several."),
    ] = None,
    studies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="STEELYARD_STUDIES", help="Serve every study in this folder as well."
        ),
    ] = None,
    people: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            envvar="STEELYARD_PEOPLE",
            help="Of several studies, the one where the people of all live and sign in.",
        ),
    ] = "",
    host: Annotated[
        str,
        typer.Option(envvar="STEELYARD_HOST", help="Address to listen on; any but 127.0.0.1 requires login."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="STEELYARD_PORT", help="Port to listen on; 0 takes a free one.")
    ] = 8765,
    public_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="STEELYARD_PUBLIC_URL",
            help="Address people use, for links; by default this machine's.",
        ),
    ] = "",
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", envvar="STEELYARD_TLS_CERT", help="Certificate, to serve TLS without a proxy."
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM",
            envvar="STEELYARD_TLS_KEY",
            help="Key of the certificate, if it is in another file.",
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            envvar="STEELYARD_PROXIES",
            help="Proxy (or network, 10.0.0.0/24) whose X-Forwarded-For is trusted.",
        ),
    ] = None,
    auth_header: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            envvar="STEELYARD_AUTH_HEADER",
            help="Header in which these proxies name the person who signed in.",
        ),
    ] = "",
    auth_create: Annotated[
        bool,
        typer.Option(
            "--auth-create",
            envvar="STEELYARD_AUTH_CREATE",
            help="Add people who are new to the study as annotators.",
        ),
    ] = False,
    log_format: Annotated[
        str, typer.Option(envvar="STEELYARD_LOG", help="quiet, text (one line per request) or json.")
    ] = "",
    train: Annotated[
        bool,
        typer.Option(
            "--train/--no-train",
            envvar="STEELYARD_TRAIN",
            help="Train in a process beside the page; not where `steelyard worker` does it elsewhere.",
        ),
    ] = True,
    threads: Threads = 0,
) -> None:
    """Run the annotation page, the dashboard and the background trainer; of several studies, each below /s/NAME/."""
    os.environ |= thread_limits(threads)  # before anything that computes is loaded
    from steelyard.web.app import serve as run_server
    from steelyard.web.many import find_studies

    folders = [*(study or []), *(find_studies(studies) if studies else [])]
    if not folders:
        raise ConfigError("name the folder of a study, or one that holds several with --studies DIR")
    run_server(
        folders, many=studies is not None, people=people, host=host, port=port, tls_cert=tls_cert, tls_key=tls_key, proxies=proxy or [],
        auth_header=auth_header, auth_create=auth_create, public_url=public_url, train=train, log_format=log_format,
    )  # fmt: skip


@app.command()
def worker(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="Folder of the study; not with --store.")
    ] = None,
    once: Annotated[bool, typer.Option(help="Train once if there are new answers, then stop.")] = False,
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Store of a study whose folder this machine does not have; also STEELYARD_STORE, which no other user reads.",
        ),
    ] = "",
    models: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="STEELYARD_MODELS",
            help="With --store: where its models are; `models` of its study.toml by default.",
        ),
    ] = "",
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="STEELYARD_IMAGES",
            help="With --store: where its images are here, if anywhere else.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="STEELYARD_CACHE",
            help="With --store: folder to keep; a temporary one by default.",
        ),
    ] = None,
    threads: Threads = 0,
) -> None:
    """Train in the background: here, or on a machine that has nothing but the URLs of a study's store and models."""
    import signal

    os.environ |= thread_limits(threads)
    from steelyard.web import logs
    from steelyard.web.trainer import run_worker

    logs.set_up(logs.chosen_format())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # gives the lease back on the way out
    address = store or ("" if study is not None else os.environ.get("STEELYARD_STORE", ""))
    if (study is None) == (not address):
        raise ConfigError(
            "a worker needs the folder of a study, or --store URL where there is none; name one of the two"
        )
    if study is not None:
        if models or images or cache:
            raise ConfigError(
                "--models, --images and --cache go with --store; the folder of a study says it itself"
            )
        run_worker(study, once=once)
        return
    with ExitStack() as stack:
        run_worker(_remote(stack, address, models, images, cache), once=once)


def _remote(
    stack: ExitStack, store: str, models: str, images: Path | None, cache: Path | None
) -> RemoteStudy:
    from steelyard.study.remote import RemoteStudy

    if images is not None and not images.is_dir():
        raise ConfigError(f"--images {images} is no folder of this machine")
    place = cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steelyard-worker-")))
    return RemoteStudy(store, models, place, images)
