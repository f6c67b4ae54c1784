"""What a study's model sees of its images, computed in parts on an engine; people may compare meanwhile.

The parts go into the study's own cache, which several processes can fill. Whoever was killed left whole rows: the same command
computes the rest. A server's trainer takes up what has come, and computes what has not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.arrays import Rows
from steelyard.config import RankerConfig
from steelyard.engine import Engine, run_all
from steelyard.images.cache import UnreadableImages
from steelyard.images.catalog import Catalog
from steelyard.progress import Progress
from steelyard.ranker.inputs import missing_inputs, read_inputs
from steelyard.scoring.source import file_identity

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = ["Described", "describe_many"]

_PART = 256


@dataclass(frozen=True)
class Described:
    """What came of it.

    Attributes:
        images: of the study.
        computed: whose rows were computed now.
        unreadable: paths of those that cannot be read, with the reason.
    """

    images: int
    computed: int
    unreadable: tuple[str, ...]


@dataclass(frozen=True)
class _Task:
    study: Path
    config: RankerConfig
    rows: Rows


def describe_many(
    study: Study,
    *,
    engine: Engine = "local",
    address: str = "",
    jobs: int = 0,
    progress: Progress | None = None,
) -> Described:
    """Compute what is missing; the study's own processes may work meanwhile.

    Args:
        study: whose images.
        engine: `local` or `ray`. On a cluster every machine has to see study and images under the same paths.
        address: of a Ray cluster, as for `engine.run_all`.
        jobs: workers; 0 takes one per core, or one per GPU.
        progress: told how many images have been looked at.

    Raises:
        EngineError: workers were killed again and again.
        RankerError: features are needed and there are images, or the other way round.
    """
    study.follow()
    config, folder = study.config.ranker, study.folder.resolve()
    rows = missing_inputs(study.catalog, config, folder / "cache")
    tasks = [_Task(folder, config, rows[start : start + _PART]) for start in range(0, len(rows), _PART)]
    gpu = config.device.partition(":")[0] != "cpu"
    done, images, unreadable = len(study.catalog) - len(rows), len(study.catalog), []
    results: Iterable[tuple[int, list[str]]] = run_all(
        _describe, tasks, engine=engine, jobs=jobs, address=address, gpu=gpu
    )
    for tried, failed in results:
        done += tried
        unreadable += failed
        if progress is not None:
            progress(done, images, "features")
    return Described(images, len(rows) - len(unreadable), tuple(sorted(unreadable)))


def _describe(task: _Task) -> tuple[int, list[str]]:
    """Compute a part; how many were tried, and what could not be read."""
    file = task.study / "catalog.arrow"
    catalog = _catalog(file, file_identity(file)).subset(task.rows)
    try:
        read_inputs(catalog, task.config, cache=task.study / "cache")
    except UnreadableImages as error:
        return len(task.rows), [f"{catalog.paths[at]} ({one.reason})" for at, one in error.failures]
    return len(task.rows), []


@lru_cache(maxsize=1)
def _catalog(path: Path, _identity: tuple[int, int, int]) -> Catalog:
    return Catalog.open(path)
