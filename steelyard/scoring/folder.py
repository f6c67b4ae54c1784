"""The folder of a scoring job: what it is about, which parts are finished, and the ranks over all of them.

    scores.parquet/
      part-000000.parquet …   rows, as any reader of Parquet datasets takes them
      _job.json               model, source and how many parts; written when the list is whole
      _list.parquet           names of the images, a group of rows for each part
      _done.json              what came of it; written when every row has its rank

Names that begin with a line are passed over by readers of datasets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError, why_not
from steelyard.files import UNFINISHED, replacing, write_atomically
from steelyard.progress import Progress
from steelyard.scoring.part import Job, PartDone, part_file

__all__ = ["DONE", "JOB", "finished_part", "prepared", "read_done", "same_job", "write_done", "write_ranks"]

JOB, DONE, _LOCK = "_job.json", "_done.json", "_lock"
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
    others = [path for path in output.iterdir() if not _ours(path)] if output.is_dir() else []
    if others:
        raise StudyError(f"{output} holds {others[0].name}, which is no part of scores; choose a new folder")
    mine = False
    try:
        output.mkdir(parents=True, exist_ok=True)
        with FileLock(output / _LOCK, timeout=0):
            mine = True
            for path in output.iterdir():
                if path.name.endswith(UNFINISHED):
                    path.unlink(missing_ok=True)
            yield
    except Timeout:
        raise StudyError(
            f"{output} is being filled by another process; wait for it, or choose another folder"
        ) from None
    except OSError as error:
        raise StudyError(f"scores cannot be written: {why_not(error, output)}") from error
    finally:
        # Nothing came of it, not even a list: leave no empty folder behind.
        if mine and [path.name for path in output.iterdir()] == [_LOCK]:
            with suppress(OSError):
                (output / _LOCK).unlink()
                output.rmdir()


def _ours(path: Path) -> bool:
    return path.name.startswith(("_", "part-")) or path.name.endswith(UNFINISHED)


def same_job(job: Job, given: str) -> bool:
    """Whether the folder goes on with this job (True), or is new and begins it (False).

    Raises:
        StudyError: it holds scores of another model or of other images, and which.
    """
    about = {
        "format": _FORMAT,
        "fingerprint": job.fingerprint,
        "model": job.plan.model,
        "model_fingerprint": job.plan.fingerprint,
        "source": given,
        "source_fingerprint": job.source.fingerprint,
        "images": job.source.count,
        "part": job.source.part,
    }
    path = job.output / JOB
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        write_atomically(path, json.dumps(about, indent=2), private=False)
        return False
    except (OSError, ValueError) as error:
        raise StudyError(
            f"{path} cannot be read ({error}); delete {job.output} and score again, or choose another folder"
        ) from error
    if before.get("fingerprint") == job.fingerprint:
        return True
    if before.get("model_fingerprint") != about["model_fingerprint"]:
        what = f"scores of model {before.get('model')} on its scales, and the newest is now model {job.plan.model}"
    elif before.get("source_fingerprint") != about["source_fingerprint"]:
        what = f"scores of {before.get('source')} with {before.get('images'):,} images, and {given} has now {job.source.count:,}, or others"
    else:
        what = f"parts of {before.get('part'):,} images, not of {job.source.part:,}"
    raise StudyError(f"{job.output} holds {what}; choose another folder, or delete this one")


def finished_part(job: Job, number: int) -> PartDone | None:
    """What came of a part that is there and whole; None where it has to be computed."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(part_file(job.output, number))
        if (file.schema_arrow.metadata or {}).get(b"steelyard") != job.fingerprint.encode():
            return None
        columns = file.read(columns=["off_domain", "error"])
    except (OSError, pa.ArrowException):
        return None
    failed = pc.sum(pc.not_equal(columns["error"], "")).as_py() or 0
    return PartDone(number, len(columns), int(failed), int(pc.sum(columns["off_domain"]).as_py() or 0))


def write_ranks(job: Job, progress: Progress | None) -> None:
    """Rank 1 is the highest score, equal ones in the order of the list: a second pass, over the scores alone.

    Of all rows only scores and ranks are in memory. Whoever is killed here begins with the ranks again.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [part_file(job.output, number) for number in range(job.source.parts)]
    scores = [_scores(pq.ParquetFile(file).read(columns=["score"])) for file in files]
    ends = np.cumsum([len(part) for part in scores])
    flat = np.concatenate(scores)
    del scores
    known = np.flatnonzero(~np.isnan(flat))
    ranks = np.zeros(len(flat), dtype=np.int64)
    ranks[known[np.argsort(-flat[known], kind="stable")]] = np.arange(1, len(known) + 1)
    for number, (file, end) in enumerate(zip(files, ends.tolist(), strict=True)):
        table = pq.ParquetFile(file).read()
        own = ranks[end - len(table) : end]
        column = pa.array(own, pa.int64(), mask=own == 0)
        table = table.set_column(table.schema.get_field_index("rank"), "rank", column)
        with replacing(file, private=False, sync=False) as new:
            pq.write_table(table, new)
        if progress is not None:
            progress(number + 1, len(files), "ranks")


def _scores(table: Any) -> NDArray[np.float64]:
    return np.asarray(table["score"].to_numpy(zero_copy_only=False), dtype=np.float64)


def read_done(output: Path) -> dict[str, Any] | None:
    """What `write_done` wrote; None where the job is not finished."""
    try:
        found: dict[str, Any] = json.loads((output / DONE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def write_done(output: Path, facts: dict[str, Any]) -> None:
    """Say that every part is there with its ranks."""
    write_atomically(output / DONE, json.dumps(facts, indent=2), private=False)
