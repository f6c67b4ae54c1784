"""A scoring job: list, score the parts that are missing on an engine, rank."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.engine import Engine, run_all
from steelyard.errors import ConfigError
from steelyard.files import UNFINISHED
from steelyard.progress import Progress
from steelyard.ranker.ranker import load_ranker
from steelyard.scoring.begun import keep_model
from steelyard.scoring.folder import (
    begin,
    begun_plan,
    finished_part,
    no_longer_done,
    of_another_model,
    prepared,
    read_done,
    same_job,
    write_done,
    write_ranks,
)
from steelyard.scoring.parquet import writing
from steelyard.scoring.part import LIST, Job, PartDone, score_part
from steelyard.scoring.source import Source, write_source
from steelyard.study.asked import question_key
from steelyard.study.scorer import ScorePlan, plan_of

if TYPE_CHECKING:
    from steelyard.config import RankerConfig
    from steelyard.study.study import Study

__all__ = ["Scored", "score_many"]

# A path has one of the two slashes; a drive of Windows has one letter.
_ADDRESS = re.compile(r"[a-z][a-z0-9.+-]+:/", re.IGNORECASE)


@dataclass(frozen=True)
class Scored:
    """What came of a scoring job.

    Attributes:
        rows: of all parts.
        failed: rows without a score; `error` says why.
        flagged: rows that are unlike the study's images (`off_domain`).
        parts: how many files.
        computed: parts that were computed now, not before.
        model: its number.
    """

    rows: int
    failed: int
    flagged: int
    parts: int
    computed: int
    model: int


def score_many(
    study: Study,
    source: str,
    output: str | Path,
    *,
    engine: Engine = "local",
    address: str = "",
    jobs: int = 0,
    part: int = 0,
    question: str | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Score any number of images into a folder of Parquet files. A job that was killed goes on where it was, with its own model.

    Args:
        study: with a model.
        source: a folder, a CSV or Parquet list, an address of either, or a `.npy` of feature rows.
        output: folder, no address; what is in it must be of the same job.
        engine: `local` or `ray`. On a cluster every machine has to see study, source and output under the same paths.
        address: of a Ray cluster, as for `engine.run_all`.
        jobs: workers; 0 takes one per core, or one per GPU.
        part: images a file; 0 takes as many as a worker has room for.
        question: only on the scale of this one, by key (`main` is the main question); None is all of them.
        progress: told how many images are done.

    Raises:
        StudyError: there is no model, or the folder holds something else.
        CatalogError, ConfigError: there is nothing to score, or not by this study's model; or the output is an address.
        EngineError: workers were killed again and again.
    """
    if part < 0 or jobs < 0:
        raise ConfigError(f"parts and jobs are counted, 0 chooses them; not {min(part, jobs)}")
    key = None if question is None else question_key(study.config, question)
    if _ADDRESS.match(str(output)):
        raise ConfigError(
            f"scores are written into a folder that this machine sees, not to {output}; name a folder, and copy it there when it is done"
        )
    newest, place = plan_of(study, key), Path(output).absolute()
    with prepared(place):
        plan = begun_plan(place, key) or newest
        config = load_ranker(plan.folder).config
        job = _job(plan, source, config, place, part)
        done = [finished_part(job, number) for number in range(job.source.parts)]
        finished = [one for one in done if one is not None]
        missing = sorted(set(range(job.source.parts)) - {one.number for one in finished})
        found = _together(finished, job, computed=0)
        # What it says is looked at too: one that is damaged, or of other parts, says nothing about ranks.
        if not missing and {**(read_done(place) or {}), "computed": 0} == asdict(found):
            if plan.fingerprint != newest.fingerprint:
                raise of_another_model(place, plan.model, newest.model)
            return found
        no_longer_done(place)
        gpu = config.device.partition(":")[0] != "cpu"
        tasks = [(job, number) for number in missing]
        new = run_all(
            score_part, tasks, engine=engine, jobs=_workers(jobs, engine, gpu), address=address, gpu=gpu
        )
        finished += _counted(new, finished, job.source, progress)
        write_ranks(job, progress)
        found = _together(finished, job, computed=len(missing))
        write_done(place, asdict(found))
        return found


def _job(plan: ScorePlan, given: str, config: RankerConfig, output: Path, part: int) -> Job:
    """The job, listed and begun. The list is written beside an earlier one, which stays if the folder is of another job.

    Where the folder is of this one the new list takes its place all the same: nobody knows whether the earlier is whole.
    """
    new = output / f".{LIST}{UNFINISHED}"
    try:
        source = write_source(given, config, new, part)
        both = f"{plan.fingerprint} {source.fingerprint} {source.part}".encode()
        job = Job(plan, source, output, hashlib.blake2b(both).hexdigest()[:32])
        goes_on = same_job(job, given)
        if source.kind == "images":
            with writing(output):
                new.replace(output / LIST)
        if not goes_on:
            job = replace(job, plan=keep_model(plan, output))
            begin(job, given)
        return job
    finally:
        new.unlink(missing_ok=True)


def _together(parts: Sequence[PartDone], job: Job, *, computed: int) -> Scored:
    return Scored(
        sum(one.rows for one in parts), sum(one.failed for one in parts), sum(one.flagged for one in parts),
        job.source.parts, computed, job.plan.model,
    )  # fmt: skip


def _workers(jobs: int, engine: Engine, gpu: bool) -> int:
    """Processes here share one GPU badly: where there is one, a single process has it unless somebody says otherwise."""
    if jobs or engine != "local" or not gpu:
        return jobs
    import torch

    return 1 if torch.cuda.is_available() or torch.backends.mps.is_available() else 0


def _counted(
    new: Iterable[PartDone], finished: list[PartDone], source: Source, progress: Progress | None
) -> list[PartDone]:
    """The parts as they come, told image by image."""

    def images(one: PartDone) -> int:
        first, end = source.span(one.number)
        return end - first

    found, images_done = [], sum(map(images, finished))
    if progress is not None:
        progress(images_done, source.count, "images scored")
    for one in new:
        found.append(one)
        images_done += images(one)
        if progress is not None:
            progress(images_done, source.count, "images scored")
    return found
