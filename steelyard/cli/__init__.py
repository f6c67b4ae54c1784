"""The command line: parse, call, translate errors. Nothing is computed here.

Heavy parts are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from steelyard import __version__
from steelyard.cli import (  # noqa: F401 - importing them is what registers their commands
    agreement,
    exchange,
    images,
    people,
    questions,
    rescue,
    research,
    scores,
    serving,
    study,
    training,
    trust,
)
from steelyard.cli.console import app, escape_markup, out
from steelyard.environment import unknown_variables
from steelyard.errors import ConfigError, SteelyardError, why_not
from steelyard.privacy import read_umask
from steelyard.terminal import err

__all__ = ["app", "main"]

INTERRUPTED = 130
"""How a program ends that somebody stopped with Ctrl+C."""


def main() -> None:
    """Entry point: one line and exit code 2 for whatever Steelyard raises on purpose."""
    # Read when torch is loaded: threads that wait should sleep. Spinning ones take the cores from whoever else works
    # on a shared machine, and made feature extraction eight times as expensive there.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        os.umask(read_umask())  # what a command writes is its owner's, as the study itself
        for sentence in unknown_variables(os.environ):
            err.print(f"[bold]warning:[/] {escape_markup(sentence)}", soft_wrap=True)
        app()
    except SteelyardError as error:
        err.print(f"[bold red]error:[/] {escape_markup(str(error))}", soft_wrap=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a file or folder that cannot be had, wherever it was asked for
        err.print(f"[bold red]error:[/] {escape_markup(why_not(error))}", soft_wrap=True)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as left:
        if isinstance(left, SystemExit) and left.code != INTERRUPTED:
            raise
        err.print("stopped; what was answered or finished is saved")  # typer leaves without a word
        sys.exit(INTERRUPTED)


def _version(value: bool) -> None:
    if value:
        out.print(f"steelyard {__version__}")
        raise typer.Exit


def _check_processes(command: str | None) -> None:
    """Several processes that torchrun has started would each do the same work, in one another's way."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or command == "train":
        return
    from steelyard.ranker.processes import launched

    if launched() > 1:
        if os.environ.get("RANK") != "0":
            sys.exit(0)  # the first says it once, and its exit code is that of all
        raise ConfigError(
            f"`steelyard {command}` runs in one process; start it without torchrun (`steelyard train` alone can use several)"
        )


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Turn “which of these two is worse?” into a severity scale with as few questions as possible."""
    _check_processes(context.invoked_subcommand)
