"""Where cells run: on the cores of this machine, or on a Ray cluster. joblib on both.

    for done in run_all(function, tasks, engine="local", jobs=2): ...

Each task gets one thread, so that as many tasks as cores share the machine without fighting over it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from steelyard.errors import ConfigError, MissingExtraError

__all__ = ["Engine", "cores", "one_thread", "run_all"]

Engine = Literal["local", "ray"]
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

_NOWHERE = {
    "http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9",
    "no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost",
}  # fmt: skip

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Task], Result], tasks: Sequence[Task], *, engine: Engine = "local", jobs: int = 0
) -> Iterator[Result]:
    """Call the function on every task and give results as they come, in any order.

    Args:
        function: importable by name (it may run in another process or on another machine).
        tasks: what it is called with.
        engine: `local` (processes here) or `ray` (the cluster that `RAY_ADDRESS` names, or one started here).
        jobs: tasks at a time; 0 takes one per core (of the whole cluster with Ray). 1 runs in this process.

    Raises:
        ConfigError: an unknown engine.
        MissingExtraError: Ray is not installed.
    """
    if engine == "local":
        return _local(function, tasks, jobs or cores())
    if engine == "ray":
        return _ray(function, tasks, jobs)
    raise ConfigError(f"unknown engine {engine!r}; there are local and ray")


def _local(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield _alone(function, task)
        return
    import joblib

    with joblib.parallel_config(backend="loky", n_jobs=min(jobs, len(tasks)), inner_max_num_threads=1):
        work = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        yield from work(joblib.delayed(_alone)(function, task) for task in tasks)


def _ray(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is loaded, or it reports to its makers
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise MissingExtraError("running on Ray", "ray") from None
    import joblib

    started = not ray.is_initialized()
    if started:
        # A cluster of our own stays on this machine, and need not ask outside for its address.
        here = {} if os.environ.get("RAY_ADDRESS") else {"_node_ip_address": "127.0.0.1"}
        with _quiet():
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", **here)
    try:
        register_ray()
        many = jobs or int(ray.cluster_resources().get("CPU", 1))
        # Ray's backend gives all results of a call at once; a few tasks a worker at a time keep progress visible.
        step = max(1, 4 * many)
        with joblib.parallel_config(backend="ray", n_jobs=many):
            for start in range(0, len(tasks), step):
                part = tasks[start : start + step]
                yield from joblib.Parallel(batch_size=1)(
                    joblib.delayed(_alone)(function, task) for task in part
                )
    finally:
        if started:
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
