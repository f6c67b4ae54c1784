"""The folder of a job: damage is seen and mended, what is of others is refused, and what is said to be done is on disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from steelyard.errors import ConfigError, StudyError
from steelyard.scoring import run, score_many
from steelyard.study import Study
from tests.study.growing import draw

ROWS = 400


@pytest.fixture
def rows(tmp_path: Path) -> str:
    file = tmp_path / "rows.npy"
    np.save(file, np.random.default_rng(1).normal(size=(ROWS, 5)).astype(np.float32))
    return str(file)


def damage(part: Path, column: str) -> None:
    """Change one byte in the middle of the values of a column; the file's shape stays."""
    group = pq.ParquetFile(part).metadata.row_group(0)
    [chunk] = [group.column(k) for k in range(group.num_columns) if group.column(k).path_in_schema == column]
    content = bytearray(part.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0x10
    part.write_bytes(content)


@pytest.mark.parametrize("done", [True, False], ids=["done", "killed before"])
@pytest.mark.parametrize("column", ["score", "path", "unlike"])
def test_a_damaged_page_is_a_part_that_is_missing(
    rows_study: Study, rows: str, tmp_path: Path, column: str, done: bool
) -> None:
    output = tmp_path / "out"
    score_many(rows_study, rows, output, part=200, jobs=1)
    before = pd.read_parquet(output)
    damage(output / "part-000001.parquet", column)
    if not done:
        (output / "_done.json").unlink()
    assert score_many(rows_study, rows, output, part=200, jobs=1).computed == 1
    pd.testing.assert_frame_equal(pd.read_parquet(output), before, check_exact=True)
    assert score_many(rows_study, rows, output, part=200, jobs=1).computed == 0


def test_ranked_parts_are_on_disk_before_they_are_called_done(
    rows_study: Study, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, synced, fsync = tmp_path / "out", set(), os.fsync

    def identity(seen: os.stat_result) -> tuple[int, int, int]:
        return seen.st_ino, seen.st_size, seen.st_mtime_ns

    def watched(descriptor: int) -> None:
        if not (output / "_done.json").exists():
            synced.add(identity(os.fstat(descriptor)))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    score_many(rows_study, rows, output, part=200, jobs=1)
    assert {identity(part.stat()) for part in output.glob("part-*")} <= synced


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": 1}'])
def test_a_damaged_word_that_all_is_done_is_none(
    rows_study: Study, rows: str, tmp_path: Path, text: str
) -> None:
    first = score_many(rows_study, rows, tmp_path / "out", part=200, jobs=1)
    file = tmp_path / "out" / "_done.json"
    said = file.read_text()
    file.write_text(text)
    again = score_many(rows_study, rows, tmp_path / "out", part=200, jobs=1)
    assert (again.rows, again.computed) == (first.rows, 0)
    assert file.read_text() == said.replace('"computed": 2', '"computed": 0')


def test_parts_of_others_are_refused_and_stay(rows_study: Study, rows: str, tmp_path: Path) -> None:
    spark = tmp_path / "spark"
    spark.mkdir()
    (spark / "part-00000-8b1c.snappy.parquet").write_bytes(b"theirs")
    with pytest.raises(
        StudyError, match=r"holds part-00000-8b1c\.snappy\.parquet, which is no part of scores"
    ):
        score_many(rows_study, rows, spark)
    (spark / "part-00000-8b1c.snappy.parquet").rename(spark / "_SUCCESS")
    with pytest.raises(StudyError, match="holds _SUCCESS, which is no part of scores"):
        score_many(rows_study, rows, spark)
    named = tmp_path / "named"
    named.mkdir()
    pd.DataFrame({"x": [1, 2]}).to_parquet(named / "part-000000.parquet")
    with pytest.raises(StudyError, match=r"holds part-000000\.parquet, which is of other scores than these"):
        score_many(rows_study, rows, named)
    assert len(pd.read_parquet(named)) == 2


def test_parts_of_an_earlier_job_do_not_stay_in_the_table(
    rows_study: Study, rows: str, tmp_path: Path
) -> None:
    """Somebody deletes `_job.json`, and scores a shorter source into the same folder."""
    output, short = tmp_path / "out", tmp_path / "short.npy"
    score_many(rows_study, rows, output, part=200, jobs=1)
    before = pd.read_parquet(output)
    (output / "_job.json").unlink()
    np.save(short, np.zeros((100, 5), np.float32))
    with pytest.raises(
        StudyError, match="which is of other scores than these; choose another folder, or delete"
    ):
        score_many(rows_study, str(short), output, part=200, jobs=1)
    assert score_many(rows_study, rows, output, part=200, jobs=1).computed == 0  # they are of this one
    pd.testing.assert_frame_equal(pd.read_parquet(output), before, check_exact=True)


def test_a_list_that_is_gone_is_written_again(study: Study, tmp_path: Path) -> None:
    for k in range(4):
        draw(tmp_path / "new" / f"{k}.png", k)
    output = tmp_path / "out"
    score_many(study, str(tmp_path / "new"), output, part=2, jobs=1)
    for name in ("_list.parquet", "part-000001.parquet"):
        (output / name).unlink()
    assert score_many(study, str(tmp_path / "new"), output, part=2, jobs=1).computed == 1
    (output / "_list.parquet").write_bytes(b"damaged")
    (output / "part-000001.parquet").unlink()
    assert score_many(study, str(tmp_path / "new"), output, part=2, jobs=1).computed == 1


@pytest.mark.parametrize("kind", [str, Path])
def test_an_address_is_no_folder_to_write_to(
    rows_study: Study, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    monkeypatch.chdir(tmp_path)
    for output in ("s3://bucket/scores", "file:///scores"):
        with pytest.raises(
            ConfigError, match="scores are written into a folder that this machine sees, not to"
        ):
            score_many(rows_study, rows, kind(output), jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_only_what_cannot_be_written_is_said_to_be_so(
    rows_study: Study, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StudyError, match=r"scores cannot be written: .*rows\.npy is a file, not a folder"):
        score_many(rows_study, rows, Path(rows) / "out", jobs=1)

    def broken(*_: object, **__: object) -> None:
        raise ConnectionResetError("the source went away")

    monkeypatch.setattr(run, "run_all", broken)
    with pytest.raises(ConnectionResetError):
        score_many(rows_study, rows, tmp_path / "out", jobs=1)
