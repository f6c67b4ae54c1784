"""Training a study's ranker, in one process or in several."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.console import AsJson, StudyFolder, app, escape_markup, opened_study, out, print_json
from steelyard.cli.study import NOTHING_TO_DOWNLOAD, Download
from steelyard.errors import ConfigError, ProcessError
from steelyard.terminal import err, progress_bar

if TYPE_CHECKING:
    from steelyard.config import RankerConfig
    from steelyard.study import Study

_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


@app.command()
def train(
    study: StudyFolder,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that train a network together on this machine.")
    ] = 1,
    download: Download = False,
    as_json: AsJson = False,
) -> None:
    """Train the ranker on all answers so far.

    A network may be trained by several processes, one for each GPU or for some cores each; the result is that of one process.
    `torchrun … -m steelyard.cli train STUDY` does the same, also on several machines.
    """
    from steelyard.ranker.processes import launched, together

    if processes > 1:
        if launched() > 1:
            raise ConfigError("torchrun has started the processes; leave --processes out")
        with opened_study(study) as opened:
            _check_kind(opened.config.ranker)
        options = ["--download"] * download + ["--json"] * as_json
        sys.exit(_launch(processes, "train", str(study), *options))
    with together() as first:
        if first:
            with opened_study(study) as opened:
                if launched() > 1:
                    _check_kind(opened.config.ranker)
                _train(opened, download=download, as_json=as_json)


def _check_kind(config: RankerConfig) -> None:
    if config.kind == "convex":
        raise ConfigError(
            "this study's ranker is convex and fitted by one process in seconds; several train a network (ranker.kind = 'network'): "
            "leave --processes or torchrun out"
        )


def _train(opened: Study, *, download: bool, as_json: bool) -> None:
    if download and opened.config.ranker.backbone == "none":
        raise ConfigError(NOTHING_TO_DOWNLOAD)
    if download and not opened.config.ranker.weights:
        opened.config = opened.config.with_changes(ranker={"weights": "download"})
    with progress_bar() as progress:
        model = opened.fit(progress=progress)
    accuracy = opened.accuracy()
    if model.note:
        named = f": {', '.join(model.unreadable)}" if model.unreadable else ""
        err.print(escape_markup(f"{model.note}{named}"), soft_wrap=True)
    if as_json:
        print_json(
            {
                "model": model.id,
                "round": model.round,
                "folder": str(model.folder),
                "answers": model.answers,
                "accuracy": accuracy.to_dict(),
            }
        )
        return
    out.print(f"model {model.id} trained on {model.answers} answers\n{accuracy.sentence}")


def _launch(processes: int, *words: str) -> int:
    """Run a command in so many processes on this machine, as torchrun does: when one ends, so do the others.

    Returns:
        The exit code of the first process.

    Raises:
        ProcessError: one of them was killed, or ended with an error that it has shown.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable()  # torch would tell every ending at length; it is told below
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    if sys.platform in _LOOPBACK:  # nobody else needs to reach them
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK[sys.platform])
    with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # a port of its own
            local_addr="127.0.0.1",
            max_restarts=0,  # whoever has killed it meant it
            logs_specs=DefaultLogsSpecs(folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "steelyard.cli", *words)
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            if codes.get(0) == 2:  # the first process has said why
                return 2
            # Those that are left are told to end; whoever ended otherwise is the cause.
            told = (-signal.SIGTERM, 128 + signal.SIGTERM)
            number = next((one for one, code in codes.items() if code not in told), min(codes))
            code = codes[number]
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise ProcessError(
                f"process {number + 1} of {processes} ended with {how}; answers and models are as they were – train again, and it goes "
                "on from the last epoch that was finished"
            ) from None
        except SignalException as error:
            stopped = error.sigval
        else:
            return 0
    # By now the first process has given back what it held; this one ends as whoever stopped it expects.
    signal.signal(stopped, signal.SIG_DFL)
    signal.raise_signal(stopped)
    return 128 + stopped
