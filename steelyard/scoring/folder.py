"""The folder of a scoring job: what it is about, which parts are finished, and the ranks over all of them.

    scores.parquet/
      part-000000.parquet …   rows, as any reader of Parquet datasets takes them
      _job.json               model, source and how many parts; written when the list and the model are there
      _model/                 what scores, as it was when the job was begun
      _list.parquet           names of the images, a group of rows for each part
      _done.json              what came of it; written when every row has its rank

Names that begin with a line are passed over by readers of datasets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.files import UNFINISHED, write_atomically
from steelyard.progress import Progress
from steelyard.scoring.begun import MODEL, plan_from, plan_to_dict
from steelyard.scoring.parquet import read_rows, told_by, write_rows, writing
from steelyard.scoring.part import LIST, Job, PartDone, part_file
from steelyard.study.scorer import ScorePlan

__all__ = [
    "begin",
    "begun_plan",
    "finished_part",
    "no_longer_done",
    "of_another_model",
    "prepared",
    "read_done",
    "same_job",
    "write_done",
    "write_ranks",
]

JOB, DONE, _LOCK = "_job.json", "_done.json", "_lock"
_PART = re.compile(r"part-\d{6,}\.parquet")
_HALF = re.compile(
    rf"\.({_PART.pattern}|{'|'.join(map(re.escape, (JOB, DONE, LIST)))})(\..+)?{re.escape(UNFINISHED)}"
)
_FORMAT = 1


@contextmanager
def prepared(output: Path) -> Iterator[None]:
    """The folder while one process – nobody else – fills it; what a killed one left half-written is taken away.

    Raises:
        StudyError: it is a file, holds something else, cannot be written, or is being filled by somebody else.
    """
    from filelock import FileLock, Timeout

    if output.exists() and not output.is_dir():
        raise StudyError(
            f"{output} is a file; with --engine scores go into a folder of Parquet files: choose another name, or delete it"
        )
    lock = FileLock(output / _LOCK)
    with writing(output):
        others = [path for path in output.iterdir() if not _ours(path)] if output.is_dir() else []
        if others:
            raise StudyError(
                f"{output} holds {others[0].name}, which is no part of scores; choose a new folder"
            )
        output.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StudyError(
                f"{output} is being filled by another process; wait for it, or choose another folder"
            ) from None
    try:
        with writing(output):
            for path in output.iterdir():
                if path.name.endswith(UNFINISHED):
                    path.unlink(missing_ok=True)
        yield
    finally:
        lock.release()
        # Nothing came of it, not even a list: leave no empty folder behind.
        with suppress(OSError):
            if [path.name for path in output.iterdir()] == [_LOCK]:
                (output / _LOCK).unlink()
                output.rmdir()


def _ours(path: Path) -> bool:
    """Whether a file is called as this job calls its own; Spark's parts and `_SUCCESS` are not."""
    return path.name in (JOB, DONE, LIST, MODEL, _LOCK) or bool(_PART.fullmatch(path.name) or _HALF.fullmatch(path.name))  # fmt: skip


def same_job(job: Job, given: str) -> bool:
    """Whether the folder goes on with this job (True), or is new (False) and `begin` has to be called.

    Raises:
        StudyError: it holds scores of another model or of other images, and which.
    """
    before, about = _read_job(job.output), _about(job, given)
    if before is None or before["fingerprint"] == job.fingerprint:
        _refuse_strangers(job)
        return before is not None
    if before.get("model_fingerprint") != about["model_fingerprint"]:
        raise of_another_model(job.output, before.get("model"), job.plan.model)
    if before.get("source_fingerprint") != about["source_fingerprint"]:
        what = f"scores of {before.get('source')} with {before.get('images'):,} images, and {given} has now {job.source.count:,}, or others"
    else:
        what = f"parts of {before.get('part'):,} images, not of {job.source.part:,}"
    raise StudyError(f"{job.output} holds {what}; choose another folder, or delete this one")


def of_another_model(output: Path, model: object, newest: int) -> StudyError:
    """What to say of a folder whose scores are not the newest model's."""
    return StudyError(
        f"{output} holds scores of model {model} on its scales, and the newest is now model {newest}; choose another folder, or "
        "delete this one"
    )


def _read_job(output: Path) -> dict[str, Any] | None:
    path = output / JOB
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(before, dict) or not {"fingerprint", "images", "part"} <= set(before):
            raise ValueError("it does not say what was scored")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StudyError(
            f"{path} cannot be read ({error}); delete {output} and score again, or choose another folder"
        ) from error
    return before


def begun_plan(output: Path, question: str | None) -> ScorePlan | None:
    """How the job of a folder scores, on these scales; None where there is none, or its model is not there as it was.

    Raises:
        StudyError: the folder does not say what it is about.
    """
    plan = plan_from((_read_job(output) or {}).get("plan"), output)
    return plan if plan is not None and plan.question == question else None


def begin(job: Job, given: str) -> None:
    """Say what the folder is about; list and model are there."""
    with writing(job.output):
        write_atomically(job.output / JOB, json.dumps(_about(job, given), indent=2), private=False)


def _about(job: Job, given: str) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "fingerprint": job.fingerprint,
        "model": job.plan.model,
        "model_fingerprint": job.plan.fingerprint,
        "plan": plan_to_dict(job.plan),
        "source": given,
        "source_fingerprint": job.source.fingerprint,
        "images": job.source.count,
        "part": job.source.part,
    }


def _refuse_strangers(job: Job) -> None:
    """Readers take every part for rows of the table, also one that an earlier job left or somebody put there."""
    ours = {part_file(job.output, number).name for number in range(job.source.parts)}
    for path in sorted(job.output.glob("part-*")):
        # One that cannot be read is computed again, if it has its place here.
        if path.name not in ours or told_by(path) not in (None, job.fingerprint):
            raise StudyError(
                f"{job.output} holds {path.name}, which is of other scores than these; choose another folder, or delete this one"
            )


def finished_part(job: Job, number: int) -> PartDone | None:
    """What came of a part that is there and whole; None where it has to be computed.

    All of it is read: a page that is damaged shows in no other way.
    """
    import pyarrow.compute as pc

    file = part_file(job.output, number)
    first, end = job.source.span(number)
    if told_by(file) != job.fingerprint:
        return None
    try:
        table = read_rows(file)
    except StudyError:
        return None
    if len(table) < end - first:
        return None
    failed = pc.sum(pc.not_equal(table["error"], "")).as_py() or 0
    return PartDone(number, len(table), int(failed), int(pc.sum(table["off_domain"]).as_py() or 0))


def write_ranks(job: Job, progress: Progress | None) -> None:
    """Rank 1 is the highest score, equal ones in the order of the list: a second pass, over the scores alone.

    Of all rows only scores and ranks are in memory. Whoever is killed here begins with the ranks again.
    """
    import pyarrow as pa

    files = [part_file(job.output, number) for number in range(job.source.parts)]
    scores = [_scores(read_rows(file, ["score"])) for file in files]
    ends = np.cumsum([len(part) for part in scores])
    flat = np.concatenate(scores)
    del scores
    known = np.flatnonzero(~np.isnan(flat))
    ranks = np.zeros(len(flat), dtype=np.int64)
    ranks[known[np.argsort(-flat[known], kind="stable")]] = np.arange(1, len(known) + 1)
    for number, (file, end) in enumerate(zip(files, ends.tolist(), strict=True)):
        table = read_rows(file)
        own = ranks[end - len(table) : end]
        column = pa.array(own, pa.int64(), mask=own == 0)
        table = table.set_column(table.schema.get_field_index("rank"), "rank", column)
        write_rows(table, file, job.fingerprint)
        if progress is not None:
            progress(number + 1, len(files), "ranks")


def _scores(table: Any) -> NDArray[np.float64]:
    return np.asarray(table["score"].to_numpy(zero_copy_only=False), dtype=np.float64)


def read_done(output: Path) -> dict[str, Any] | None:
    """What `write_done` wrote; None where the job is not finished, or nobody can tell."""
    try:
        found = json.loads((output / DONE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_done(output: Path, facts: dict[str, Any]) -> None:
    """Say that every part is there with its ranks."""
    with writing(output):
        write_atomically(output / DONE, json.dumps(facts, indent=2), private=False)


def no_longer_done(output: Path) -> None:
    """Parts are missing, or their ranks."""
    with writing(output):
        (output / DONE).unlink(missing_ok=True)
