"""Where work runs: on the cores of this machine (joblib), or on the workers of a Ray cluster.

    for done in run_all(function, tasks, engine="local", jobs=2): ...

Each task gets one thread, so that as many tasks as cores share the machine without fighting over it. On Ray the workers are
actors, which keep what they have loaded; what one of them had in hand when it was killed is done again by another. docs/scoring.md
says why these are not Ray Data's.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from steelyard.errors import ConfigError, EngineError, MissingExtraError

__all__ = ["Engine", "cores", "one_thread", "run_all"]

Engine = Literal["local", "ray"]
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

_NOWHERE = {
    "http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9",
    "no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost",
}  # fmt: skip

_LIVES = 3  # workers that may be lost on one task, or before they ever began; more are no accident

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    engine: Engine = "local",
    jobs: int = 0,
    address: str = "",
    gpu: bool = False,
) -> Iterator[Result]:
    """Call the function on every task and give results as they come, in any order.

    Args:
        function: importable by name (it may run in another process or on another machine).
        tasks: what it is called with.
        engine: `local` (processes here) or `ray`.
        jobs: tasks at a time; 0 takes one per core (of the whole cluster with Ray). 1 runs in this process.
        address: of a Ray cluster; empty takes the one that `RAY_ADDRESS` names, or starts one here.
        gpu: give each worker a GPU where the cluster has some; 0 jobs are then one per GPU.

    Raises:
        ConfigError: an unknown engine, or an address without a cluster.
        MissingExtraError: Ray is not installed.
        EngineError: a worker was killed (on Ray: several times on the same task).
    """
    if engine == "local":
        if address:
            raise ConfigError(
                f"an address ({address}) is for the engine ray; leave it out, or choose --engine ray"
            )
        return _local(function, tasks, jobs or cores())
    if engine == "ray":
        return _ray(function, tasks, jobs, address, gpu)
    raise ConfigError(f"unknown engine {engine!r}; there are local and ray")


def _local(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield _alone(function, task)
        return
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with joblib.parallel_config(backend="loky", n_jobs=min(jobs, len(tasks)), inner_max_num_threads=1):
        work = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        try:
            yield from work(joblib.delayed(_alone)(function, task) for task in tasks)
        except TerminatedWorkerError as error:
            raise EngineError(
                "a worker process was killed, for want of memory most of the time; run the same again – what was finished is "
                "kept – with fewer at a time (--jobs)"
            ) from error


def _ray(
    function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, address: str, gpu: bool
) -> Iterator[Result]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is loaded, or it reports to its makers
    try:
        import ray
    except ImportError:
        raise MissingExtraError("running on Ray", "ray") from None
    if not len(tasks):
        return
    own = {name: os.environ.get(name) for name in _NOWHERE}
    with _cluster(address):
        have = ray.cluster_resources()
        gpus = int(have.get("GPU", 0)) if gpu else 0
        most = gpus or int(have.get("CPU", 1))
        caller = ray.remote(_Caller).options(num_cpus=1, num_gpus=1 if gpus else 0)
        yield from _on_workers(
            lambda: caller.remote(function, own), tasks, max(1, min(jobs or most, most, len(tasks)))
        )


def _on_workers(start: Callable[[], Any], tasks: Sequence[Any], many: int) -> Iterator[Any]:
    """Hand every task to a worker that has begun and has nothing else to do; a lost worker is replaced, its task handed out again."""
    import ray

    waiting, lost, lost_early, left = deque(range(len(tasks))), [0] * len(tasks), 0, len(tasks)
    idle: list[Any] = []
    workers = {start() for _ in range(many)}
    # What each call is about: a worker, and the number of its task or −1 while it is only beginning.
    calls: dict[Any, tuple[Any, int]] = {worker.begin.remote(): (worker, -1) for worker in workers}
    try:
        while left:
            while idle and waiting:
                worker, task = idle.pop(), waiting.popleft()
                calls[worker.call.remote(tasks[task])] = worker, task
            [answer], _ = ray.wait(list(calls), num_returns=1)
            worker, task = calls.pop(answer)
            try:
                good, result = ray.get(answer)
            except ray.exceptions.RayError as error:
                if task < 0:
                    lost_early += 1
                else:
                    lost[task] += 1
                    waiting.appendleft(task)
                if lost_early > _LIVES * many or (task >= 0 and lost[task] > _LIVES):
                    raise _lost_too_often(task, error) from error
                workers.discard(worker)
                new = start()
                workers.add(new)
                calls[new.begin.remote()] = new, -1
                continue
            idle.append(worker)
            if not good:
                raise result
            if task >= 0:
                left -= 1
                yield result
    finally:
        for worker in workers:
            ray.kill(worker)


def _lost_too_often(task: int, error: Exception) -> EngineError:
    said = " ".join(str(error).split())[:300]
    if task < 0:
        return EngineError(
            f"workers on Ray end before they begin; is the same version of Steelyard installed on every machine of the cluster? ({said})"
        )
    return EngineError(
        f"{_LIVES + 1} workers on Ray were lost on the same piece of work, for want of memory most of the time; run the same again – "
        f"what was finished is kept – with fewer at a time (--jobs), or with smaller pieces ({said})"
    )


class _Caller:
    """A worker on Ray: calls the function on one task after the other. What that keeps at hand, it keeps for the next."""

    def __init__(self, function: Callable[[Any], Any], environment: Mapping[str, str | None]) -> None:
        self._function = function
        for name, value in environment.items():  # the cluster's own are those of `_quiet`
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def begin(self) -> tuple[bool, None]:
        return True, None

    def call(self, task: Any) -> tuple[bool, Any]:
        try:
            return True, _alone(self._function, task)
        except Exception as error:  # raised where the work was asked for, as it was
            return False, error


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    """Inside, Ray is connected: as it was, to an address, or to a cluster of our own, which ends with the block."""
    import ray

    if ray.is_initialized():
        yield
        return
    # A cluster of our own stays on this machine, and need not ask outside for its address.
    here = {} if address or os.environ.get("RAY_ADDRESS") else {"_node_ip_address": "127.0.0.1"}
    try:
        with _quiet():
            ray.init(
                address or None, include_dashboard=False if here else None, log_to_driver=False, logging_level="error", **here
            )  # fmt: skip
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "this machine"
        raise ConfigError(
            f"no Ray cluster answers at {where} ({str(error).splitlines()[0]}); name its head as host:port or ray://host:port, "
            "or leave the address out to start one here"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Processes that are started inside ask nobody outside which cloud this is.

    Ray's head does, with its statistics switched off too, by plain HTTP; a proxy where nothing listens ends that here.
    """
    before = {name: os.environ.get(name) for name in _NOWHERE}
    os.environ.update(_NOWHERE)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _alone(function: Callable[[Any], Any], task: Any) -> Any:
    with one_thread():
        return function(task)


@contextmanager
def one_thread() -> Iterator[None]:
    """Everything inside uses one thread: BLAS, OpenMP and torch, loaded already or not."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    unset = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))  # for what is loaded inside
    with threadpool_limits(limits=1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            for name in unset:
                os.environ.pop(name, None)
            if torch is not None:
                torch.set_num_threads(before)
