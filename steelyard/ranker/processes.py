"""Several processes that train one network together, started by `torchrun` or by `steelyard train --processes`.

The first process runs the program as ever: it alone holds the lease, reads the store and writes files. The others wait in `together`
until it hands out a training, compute their share of it, and wait again. So nothing outside `ranker/` knows how many there are:

    with together() as first:
        if first:
            study.fit()

Whoever loses a process cannot go on: the first raises `ProcessError`, the others end. A training that is started again goes on from
its last checkpoint, with as many processes as are there then.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ProcessError, RankerError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "by_the_first",
    "in_turns",
    "launched",
    "rank",
    "run_everywhere",
    "size",
    "summed",
    "together",
    "told",
]

# A step of a large network on a slow machine takes minutes; a process that was stopped or cut off is given up after this.
_PATIENCE = timedelta(minutes=30)
# Between two trainings the first may compute features or draws for days.
_BETWEEN = timedelta(days=365)
_TERMINATED = 128 + signal.SIGTERM

T = TypeVar("T")


@dataclass
class _Team:
    rank: int
    size: int
    jobs: Any  # the group in which trainings are handed out
    busy: bool = False  # the others are in the middle of one


_team: _Team | None = None


def launched() -> int:
    """How many processes torchrun has started, 1 without it. Loads nothing."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def rank() -> int:
    """The number of this process, from 0."""
    return 0 if _team is None else _team.rank


def size() -> int:
    """How many processes train together."""
    return 1 if _team is None else _team.size


@contextmanager
def together() -> Iterator[bool]:
    """Join the processes that torchrun has started; without torchrun there is one.

    Yields:
        Whether this is the first process. The others are given False when there is nothing left to do, also when the first has
        failed: it says why, and its exit code is that of all.

    Raises:
        SystemExit: in the others, with code 2, when one of them is gone.
    """
    global _team
    if launched() == 1:
        yield True
        return
    import torch
    import torch.distributed as dist

    with _signals():
        # Numbers on GPUs go through NCCL, all else through gloo.
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE
        )
        jobs = dist.new_group(backend="gloo", timeout=_BETWEEN)
        _team = _Team(dist.get_rank(), dist.get_world_size(), jobs)
        try:
            if _team.rank:
                _help(_team)
                yield False
            else:
                yield from _lead(_team)
        finally:
            _team = None
            dist.destroy_process_group()


def run_everywhere(work: Callable[..., T], job: Any, *only_here: Any) -> T:
    """Do `work(job)` in every process at the same time; in this one, the first, `work(job, *only_here)`.

    Args:
        work: a function of a module.
        job: can be pickled; a memory map goes as the path of its file.
        only_here: what the others do without: what writes files and tells people.

    Raises:
        ProcessError: one of the others is gone, or torchrun was used and the processes have not been joined.
    """
    if _team is None:
        if launched() > 1:
            raise ProcessError(
                f"torchrun has started {launched()} processes, and each of them would train a network of its own; "
                "start `steelyard train STUDY` with it, or join them with steelyard.ranker.processes.together()"
            )
        return work(job, *only_here)
    with _others_alive():
        _send(_team, _pickled((work, job)))
        _team.busy = True
        try:
            result = work(job, *only_here)
        except (ProcessError, RankerError):  # raised by all of them; the others wait for the next
            _team.busy = False
            raise
        _team.busy = False
        return result


def summed(values: Tensor) -> Tensor:
    """The sum over all processes, the same in each of them."""
    if size() == 1:
        return values
    import torch
    import torch.distributed as dist

    total = values.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def in_turns(work: Callable[[T], Tensor], parts: Sequence[T]) -> list[Tensor]:
    """`work` of each part, in order; every process does some of them and is given all."""
    own = [work(part) for part in parts[rank() :: size()]]
    if size() == 1:
        return own
    import torch.distributed as dist

    gathered: list[list[Tensor]] = [[] for _ in range(size())]
    dist.all_gather_object(gathered, own)
    return [gathered[number % size()][number // size()] for number in range(len(parts))]


def told(value: T) -> T:
    """The value that the first process has, in all of them."""
    if size() == 1:
        return value
    import torch.distributed as dist

    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def by_the_first(work: Callable[[], None] | None) -> None:
    """Done by the first process while the others wait; what it fails with is raised there, and the others leave the training.

    Args:
        work: None in the others.
    """
    done = False
    try:
        if work is not None:
            work()
            done = True
    finally:  # the others hear of it also when it is stopped
        done = told(done)
    if not done:
        raise RankerError("the first process has left this training")


def _lead(team: _Team) -> Iterator[bool]:
    """The first process: whatever comes of it, the others hear of it or see the connection close."""
    try:
        yield True
    finally:
        if not team.busy:
            with contextlib.suppress(RuntimeError):  # they are gone already
                _send(team, None)


def _help(team: _Team) -> None:
    """The other processes: do what is handed out until the first says that it was all."""
    try:
        while (job := _receive(team)) is not None:
            work, what = pickle.loads(job)  # noqa: S301 – from the first process, as all that torch sends
            with contextlib.suppress(ProcessError, RankerError):  # the first has the same, and says it
                work(what)
    except RuntimeError as error:
        if _is_lost(error):
            sys.exit(2)  # the first process, or torchrun, says what has happened
        raise


def _send(team: _Team, message: bytes | None) -> None:
    import torch.distributed as dist

    dist.broadcast_object_list([message], src=0, group=team.jobs)


def _receive(team: _Team) -> bytes | None:
    import torch.distributed as dist

    box: list[Any] = [None]
    dist.broadcast_object_list(box, src=0, group=team.jobs)
    return cast("bytes | None", box[0])


@contextmanager
def _others_alive() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        if threading.current_thread() is threading.main_thread():
            # torchrun ends those that are left; this one first gives back what it holds.
            _ignore_signals()
        raise ProcessError(
            f"one of the {size()} processes that train together has ended or cannot be reached any more; answers and models are as they "
            "were – train again, and it goes on from the last epoch that was finished"
        ) from error


def _is_lost(error: RuntimeError) -> bool:
    """Whether another process is gone; torch has no type of its own for what gloo says."""
    from torch.distributed import DistError

    said = str(error).lower()
    return isinstance(error, DistError) or any(word in said for word in ("gloo", "nccl", "connection"))


@contextmanager
def _signals() -> Iterator[None]:
    """The first process leaves in order, once, when it is told to; the others leave Ctrl+C to the first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(which: int, _: object) -> None:
        _ignore_signals()  # a terminal tells the whole group, and torchrun tells it once more
        if which == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(_TERMINATED)

    if os.environ["RANK"] == "0":
        before = {which: signal.signal(which, leave) for which in (signal.SIGTERM, signal.SIGINT)}
    else:
        before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    yield
    for which, handler in before.items():  # not after an error: then it is on its way out
        signal.signal(which, handler)


def _ignore_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Pickler(pickle.Pickler):
    """Sends memory maps by name: every process maps the file itself."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, np.memmap) or not value.flags.c_contiguous or value.filename is None:
            return NotImplemented
        whole: Any = value
        while isinstance(whole, np.ndarray) and not isinstance(whole.base, mmap.mmap):
            whole = whole.base
        if whole is None:
            return NotImplemented
        # numpy copies `offset` to parts of a map; where a part begins is known from the addresses alone.
        offset = whole.offset + value.ctypes.data - whole.ctypes.data
        return _mapped, (os.fspath(value.filename), value.dtype, offset, value.shape)


def _mapped(path: str, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.memmap(path, dtype, "r", offset, shape)


def _pickled(value: object) -> bytes:
    into = io.BytesIO()
    _Pickler(into, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return into.getvalue()
