"""Commands that keep running: the page, and training beside it or elsewhere. Every option can be set by the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.console import StudyFolder, app
from steelyard.environment import thread_limits

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
    study: StudyFolder,
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
    """Run the annotation page, the dashboard and the background trainer."""
    os.environ |= thread_limits(threads)  # before anything that computes is loaded
    from steelyard.web.app import serve as run_server

    run_server(
        study, host=host, port=port, tls_cert=tls_cert, tls_key=tls_key, proxies=proxy or [],
        auth_header=auth_header, auth_create=auth_create, public_url=public_url, train=train, log_format=log_format,
    )  # fmt: skip


@app.command()
def worker(
    study: StudyFolder,
    once: Annotated[bool, typer.Option(help="Train once if there are new answers, then stop.")] = False,
    threads: Threads = 0,
) -> None:
    """Train in the background, here or on another machine with the same store."""
    import signal

    os.environ |= thread_limits(threads)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # gives the lease back on the way out
    from steelyard.web import logs
    from steelyard.web.trainer import run_worker

    logs.set_up(logs.chosen_format())
    run_worker(study, once=once)
