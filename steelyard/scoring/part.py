"""One part: bytes in, a Parquet file of scores out, whole or not at all. Runs in any process that sees the folders.

A picture that cannot be scored is a row with the reason. A stand-in keeps its place among the others while they are computed.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import CatalogError, ImageError, RankerError
from steelyard.images import dicom
from steelyard.images.decode import RGB, decode, quiet
from steelyard.images.files import content_id
from steelyard.images.formats import HEAD_BYTES, sniff
from steelyard.ranker.inputs import read_inputs
from steelyard.scoring.fetching import TOGETHER, fetched
from steelyard.scoring.parquet import write_rows
from steelyard.scoring.source import Source, open_matrix, paths_of_part
from steelyard.study.scorer import ScorePlan, Scorer

__all__ = ["LIST", "Job", "PartDone", "part_file", "score_part"]

LIST = "_list.parquet"  # readers of a dataset pass over names that begin with a line
_TOO_LARGE = "holds values so large that its score is not finite"
_TELLING = 16  # so many images in a row that cannot be fetched are no accident of a file


@dataclass(frozen=True)
class Job:
    """What every part of one job has in common.

    Attributes:
        plan: which model scores.
        source: what is scored.
        output: folder of the parts.
        fingerprint: of both; every part carries it.
    """

    plan: ScorePlan
    source: Source
    output: Path
    fingerprint: str


@dataclass(frozen=True)
class PartDone:
    """What came of a part: its number, rows, rows without a score, and rows flagged as unlike the study's images."""

    number: int
    rows: int
    failed: int
    flagged: int


@dataclass
class _Picture:
    path: str
    id: str = ""
    data: bytes = b""
    frame: int = 1
    error: str = ""


def part_file(output: Path, number: int) -> Path:
    """Where a part lies."""
    return output / f"part-{number:06d}.parquet"


def score_part(task: tuple[Job, int]) -> PartDone:
    """Score one part and write it.

    Raises:
        CatalogError: not one of its images can be fetched, or a host is away: the fault is not with a file.
    """
    job, number = task
    scorer = _scorer(job.plan)
    names, ids, errors, inputs = (_rows if job.source.kind == "rows" else _images)(job, number, scorer)
    table = _table(names, ids, errors, _columns(scorer, inputs, errors))
    write_rows(table, part_file(job.output, number), job.fingerprint)
    import pyarrow.compute as pc

    flagged = int(pc.sum(table["off_domain"]).as_py() or 0)
    return PartDone(number, len(table), sum(map(bool, errors)), flagged)


@lru_cache(maxsize=1)
def _scorer(plan: ScorePlan) -> Scorer:
    """The model is loaded once by every worker."""
    return Scorer(plan)


Part = tuple[list[str], list[str], list[str], NDArray[Any]]  # names, ids, errors, inputs


def _rows(job: Job, number: int, scorer: Scorer) -> Part:
    first, end = job.source.span(number)
    inputs = np.array(open_matrix(job.source.place)[first:end])
    good = np.isfinite(inputs).all(axis=1)
    with np.errstate(over="ignore"):  # models compute in float32
        fits = np.isfinite(inputs.astype(np.float32)).all(axis=1)
    inputs[~fits] = 0
    errors = np.where(good, np.where(fits, "", _TOO_LARGE), "holds values that are not finite (NaN or infinity)").tolist()  # fmt: skip
    rows = range(first, end)
    # Names and ids as `Catalog.from_features` gives them.
    return [f"row-{row}" for row in rows], [content_id(b"row ", str(row).encode()) for row in rows], errors, inputs  # fmt: skip


def _columns(scorer: Scorer, inputs: NDArray[Any], errors: list[str]) -> dict[str, NDArray[Any]]:
    """What the model says; a row that it has no finite score for becomes an error, and does not end the job."""
    with np.errstate(over="ignore", invalid="ignore"):  # it refuses what is not finite
        try:
            return scorer.columns(inputs)
        except RankerError:
            scorer.columns(np.zeros_like(inputs[:1]))  # raises again where the fault is not with a row
        for row in _beyond(scorer, inputs, 0, len(inputs)):
            inputs[row], errors[row] = 0, _TOO_LARGE
        return scorer.columns(inputs)


def _beyond(scorer: Scorer, inputs: NDArray[Any], first: int, end: int) -> list[int]:
    """Rows that the model refuses, found by halves."""
    try:
        scorer.columns(inputs[first:end])
    except RankerError:
        if end - first == 1:
            return [first]
        middle = (first + end) // 2
        return _beyond(scorer, inputs, first, middle) + _beyond(scorer, inputs, middle, end)
    return []


def _images(job: Job, number: int, scorer: Scorer) -> Part:
    listed = paths_of_part(job.output / LIST, number)
    files = fetched(job.source.place, listed)
    pictures: list[_Picture] = []
    inputs: list[NDArray[Any]] = []
    unusable = {path for path, reason in listed if reason}
    missing: list[str] = []
    tried = 0
    while together := list(islice(files, TOGETHER)):
        batch = [picture for path, data in together for picture in _frames(path, data)]
        inputs.append(
            read_inputs(_Batch(batch, job.plan.max_megapixels), scorer.config)  # type: ignore[arg-type]
        )
        pictures += batch
        tried += sum(path not in unusable for path, _ in together)
        missing += [
            f"{path} {data.reason}"
            for path, data in together
            if isinstance(data, ImageError) and path not in unusable
        ]
        if len(missing) == tried >= _TELLING:
            raise CatalogError(
                f"not one of the first {tried} images of part {number} can be fetched; of the first: {missing[0]}. "
                "Nothing of this part was written; run the same again when they are there"
            )
    return (
        [one.path for one in pictures], [one.id for one in pictures], [one.error for one in pictures], np.concatenate(inputs)
    )  # fmt: skip


def _frames(path: str, data: bytes | ImageError) -> list[_Picture]:
    """The picture of a file – or several, where a DICOM file has frames –, named as in a catalog."""
    if isinstance(data, ImageError):
        return [_Picture(path, error=data.reason)]
    id, frames = content_id(data), 1
    if sniff(data[:HEAD_BYTES]) == "DICOM":
        try:
            with quiet():
                frames = dicom.count_frames(io.BytesIO(data), path)
        except ImageError as error:
            return [_Picture(path, id, error=error.reason)]
    if frames == 1:
        return [_Picture(path, id, data)]
    return [
        _Picture(f"{path}#{frame}", content_id(data, f"#{frame}".encode()), data, frame)
        for frame in range(1, frames + 1)
    ]


class _Batch:
    """What `read_inputs` needs of a catalog."""

    features = None

    def __init__(self, pictures: list[_Picture], max_megapixels: float) -> None:
        self._pictures, self._max_megapixels = pictures, max_megapixels
        self.ids = [picture.id for picture in pictures]

    def __len__(self) -> int:
        return len(self._pictures)

    def read(self, row: int) -> RGB:
        return self.read_small(row, 0)

    def read_small(self, row: int, least: int) -> RGB:
        picture = self._pictures[row]
        if not picture.error:
            try:
                return decode(
                    picture.data, frame=picture.frame, max_megapixels=self._max_megapixels, least=least
                )
            except ImageError as error:
                picture.error = error.reason
            finally:
                picture.data = b""
        return np.zeros((8, 8, 3), dtype=np.uint8)


def _table(names: list[str], ids: list[str], errors: list[str], columns: dict[str, NDArray[Any]]) -> Any:
    """As `steelyard score` orders its columns; ranks are known when all parts are."""
    import pyarrow as pa

    bad = np.array([bool(error) for error in errors])

    def numbers(values: NDArray[Any]) -> Any:
        return pa.array(values, pa.float64(), mask=bad | np.isnan(values))

    first = ("score", "uncertainty", "low", "high")
    later = [name for name in columns if name not in first and name != "off_domain"]
    off = [None if out or value is None else bool(value) for out, value in zip(bad, columns["off_domain"], strict=True)]  # fmt: skip
    arrays = {
        "image": pa.array(ids, pa.string()),
        "path": pa.array(names, pa.string()),
        **{name: numbers(columns[name]) for name in first},
        "rank": pa.nulls(len(names), pa.int64()),
        **{name: numbers(columns[name]) for name in later},
        "off_domain": pa.array(off, pa.bool_()),
        "error": pa.array(errors, pa.string()),
    }
    return pa.table(arrays)
