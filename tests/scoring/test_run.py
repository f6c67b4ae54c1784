"""One path for both engines: parts that are whole or missing, and the same numbers wherever they are computed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import CatalogError, ConfigError, RankerError, StudyError
from steelyard.scoring import part, run, score_many
from steelyard.study import Study
from tests.scoring import killing
from tests.scoring.conftest import NEW
from tests.study.growing import answer, draw
from tests.waiting import until


def read(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder)


def test_parts_together_are_the_table_of_one_go(study: Study, new: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    done = score_many(
        study, str(new), tmp_path / "out", part=5, jobs=1, progress=lambda *call: told.append(call)
    )
    assert (done.rows, done.failed, done.parts, done.computed) == (NEW, 1, 5, 5)
    table, one = read(tmp_path / "out"), study.score(new)
    assert list(table.columns) == [*one.columns, "error"]
    bad = table[table["error"] != ""]
    assert bad["path"].tolist() == ["n05.png"]
    assert "is truncated" in bad["error"].iloc[0]
    assert bad[["score", "low", "rank", "unlike", "off_domain"]].isna().all().all()
    good = table[table["error"] == ""].sort_values("rank")
    for column in ("image", "path", "rank", "off_domain"):
        assert good[column].tolist() == one[column].tolist(), column
    for column in ("score", "uncertainty", "low", "high", "unlike"):
        np.testing.assert_allclose(good[column], one[column], rtol=0, atol=1e-12)
    assert (NEW, NEW, "images scored") in told


@pytest.mark.slow
def test_ray_gives_the_same_parts_though_a_worker_is_killed(
    study: Study, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_cluster: None
) -> None:
    score_many(study, str(new), tmp_path / "here", part=5, jobs=1)
    monkeypatch.setattr(run, "score_part", killing.killed_once)
    done = score_many(study, str(new), tmp_path / "ray", engine="ray", part=5, jobs=2)
    assert int((tmp_path / "killed").read_text()) != os.getpid()
    assert (done.rows, done.computed) == (NEW, 5)
    for name in sorted(path.name for path in (tmp_path / "here").glob("part-*")):
        here, ray = read(tmp_path / "here" / name), read(tmp_path / "ray" / name)
        pd.testing.assert_frame_equal(here, ray, check_exact=True)
    again = score_many(study, str(new), tmp_path / "ray", part=5, jobs=1)  # another engine goes on with it
    assert again.computed == 0
    assert not list((tmp_path / "ray").glob("*.unfinished"))


def test_a_killed_driver_leaves_whole_parts_and_the_next_computes_the_rest(
    study: Study, new: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.scoring.killing", str(study.folder), str(new), str(output)],
        cwd=Path(__file__).parents[2],
    )
    try:
        until(lambda: (tmp_path / "stuck").exists() or child.poll() is not None, seconds=120)
        with pytest.raises(StudyError, match="is being filled by another process"):
            score_many(study, str(new), output, part=5)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert sorted(path.name for path in output.glob("part-*")) == [
        "part-000000.parquet",
        "part-000001.parquet",
    ]
    done = score_many(study, str(new), output, part=5, jobs=1)
    assert (done.rows, done.computed) == (NEW, 3)
    score_many(study, str(new), tmp_path / "whole", part=5, jobs=1)
    pd.testing.assert_frame_equal(read(output), read(tmp_path / "whole"))
    assert not list(output.glob(".*unfinished"))


def test_a_part_that_is_gone_or_damaged_is_computed_again(study: Study, new: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    score_many(study, str(new), output, part=5, jobs=1)
    before = read(output)
    (output / "part-000001.parquet").unlink()
    damaged = output / "part-000003.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert score_many(study, str(new), output, part=5, jobs=1).computed == 2
    pd.testing.assert_frame_equal(read(output), before)
    assert score_many(study, str(new), output, part=5, jobs=1).computed == 0


def test_a_folder_that_is_made_anew_has_the_rows_of_its_own_list(
    study: Study, new: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    score_many(study, str(new), output, jobs=1)
    shutil.rmtree(output)
    for k in range(3):
        draw(tmp_path / "others" / f"o{k}.png", 300 + k)
    assert score_many(study, str(tmp_path / "others"), output, jobs=1).rows == 3
    assert read(output)["path"].tolist() == ["o0.png", "o1.png", "o2.png"]


def test_another_model_other_images_and_other_parts_are_refused(
    study: Study, new: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    score_many(study, str(new), output, part=5, jobs=1)
    before = read(output)
    with pytest.raises(StudyError, match="parts of 5 images, not of 7; choose another folder"):
        score_many(study, str(new), output, part=7)
    draw(new / "one-more.png", 7)
    with pytest.raises(StudyError, match=r"holds scores of .* with 23 images, and .* has now 24"):
        score_many(study, str(new), output, part=5)
    (new / "one-more.png").unlink()
    moved = tmp_path / "study"
    shutil.copytree(study.folder, moved)
    with Study.open(moved) as other:
        assert score_many(other, str(new), output, part=5).computed == 0  # the same model at another place
        answer(other, 4)
        other.fit()
        with pytest.raises(StudyError, match=r"holds scores of model 1 .* newest is now model 2"):
            score_many(other, str(new), output, part=5)
    pd.testing.assert_frame_equal(read(output), before)


def test_a_job_goes_on_with_its_own_model_though_the_study_has_let_go_of_it(
    study: Study, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study that is served makes a model every few minutes; a long job that was killed must not begin again."""
    score_many(study, str(new), tmp_path / "whole", part=5, jobs=1)
    shutil.copytree(study.folder, tmp_path / "study")

    def ends(task: tuple[part.Job, int]) -> part.PartDone:
        if task[1] == 2:
            raise KeyboardInterrupt
        return part.score_part(task)

    with Study.open(tmp_path / "study") as served:
        with monkeypatch.context() as killed:
            killed.setattr(run, "score_part", ends)
            with pytest.raises(KeyboardInterrupt):
                score_many(served, str(new), tmp_path / "out", part=5, jobs=1)
        answer(served, 4)
        served.fit()
        first, second = served.store.models.all()
        shutil.rmtree(served.folder / first.path)
        part._scorer.cache_clear()
        words = ["score", str(served.folder), str(new), "--engine", "local", "--jobs", "1", "--part", "5"]
        told = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "out")])
        assert told.exit_code == 0, told.output
        assert "(3 computed now)" in told.stdout
        assert f"scored by model {first.id}, with which this folder was begun; the newest is model {second.id}" in told.stderr  # fmt: skip
        pd.testing.assert_frame_equal(read(tmp_path / "out"), read(tmp_path / "whole"), check_exact=True)
        with pytest.raises(StudyError, match=r"holds scores of model 1 .* newest is now model 2"):
            score_many(served, str(new), tmp_path / "out", part=5)  # it is done: nothing goes on
        (tmp_path / "out" / "part-000001.parquet").unlink()
        [weights] = (tmp_path / "out" / "_model").glob("weights-*.safetensors")
        weights.write_bytes(weights.read_bytes()[:-1] + b"x")
        with pytest.raises(StudyError, match=r"holds scores of model 1 .* newest is now model 2"):
            score_many(served, str(new), tmp_path / "out", part=5)  # and not with a model that was changed


def test_what_is_no_folder_of_scores_is_left_alone(study: Study, new: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StudyError, match="is a file; with --engine scores go into a folder"):
        score_many(study, str(new), tmp_path / "file")
    with pytest.raises(StudyError, match="which is no part of scores; choose a new folder"):
        score_many(study, str(new), new)
    (tmp_path / "broken").mkdir()
    for text in ("{", "[]", "{}"):
        (tmp_path / "broken" / "_job.json").write_text(text)
        with pytest.raises(StudyError, match=r"_job\.json cannot be read .*; delete .* and score again"):
            score_many(study, str(new), tmp_path / "broken")
    with pytest.raises(ConfigError, match="unknown engine 'slurm'"):
        score_many(study, str(new), tmp_path / "out", engine="slurm")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is for the engine ray"):
        score_many(study, str(new), tmp_path / "out", address="head:6379")


def test_feature_rows_are_scored_in_parts(rows_study: Study, tmp_path: Path) -> None:
    rows = np.random.default_rng(5).normal(size=(1_003, 5)).astype(np.float32)
    rows[17, 2] = np.nan
    np.save(tmp_path / "new.npy", rows)
    done = score_many(rows_study, str(tmp_path / "new.npy"), tmp_path / "out", part=100, jobs=1)
    assert (done.rows, done.failed, done.parts) == (1_003, 1, 11)
    table = read(tmp_path / "out")
    assert table["path"].tolist() == [f"row-{k}" for k in range(1_003)]
    assert "not finite" in table["error"][17]
    model = rows_study.folder / rows_study.store.models.all()[-1].path
    from steelyard.ranker.ranker import load_ranker

    good = np.delete(np.arange(1_003), 17)
    posterior = load_ranker(model).posterior(rows[good])
    np.testing.assert_allclose(table["score"][good], posterior.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(table["uncertainty"][good], np.sqrt(posterior.variance), rtol=0, atol=1e-12)
    assert sorted(table["rank"][good].astype(int)) == list(range(1, 1_003))
    assert table["rank"][good].to_numpy()[np.argmax(posterior.mean)] == 1
    as_address = score_many(rows_study, f"file://{tmp_path}/new.npy", tmp_path / "out", part=100, jobs=1)
    assert as_address.computed == 0
    with pytest.raises(ConfigError, match=r"takes feature rows, and .* is not a matrix"):
        score_many(rows_study, str(tmp_path), tmp_path / "other")


def test_images_that_cannot_be_fetched_at_all_stop_the_job(study: Study, tmp_path: Path) -> None:
    """A folder that is not mounted must not become a table of a million reasons."""
    lines = ["image", *(f"gone/{k}.png" for k in range(40))]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    with pytest.raises(CatalogError, match=r"not one of the first 16 images .* gone/0.png is missing"):
        score_many(study, str(tmp_path / "list.csv"), tmp_path / "out", jobs=1)
    assert not list((tmp_path / "out").glob("part-*"))
    for k in range(40):
        draw(tmp_path / "gone" / f"{k}.png", k)
    assert score_many(study, str(tmp_path / "list.csv"), tmp_path / "out", jobs=1).failed == 0
    about = json.loads((tmp_path / "out" / "_job.json").read_text())
    assert (about["images"], about["model"]) == (40, 1)


def test_a_bad_cell_of_a_list_is_a_row_with_the_reason(study: Study, new: Path, tmp_path: Path) -> None:
    bad = (
        "https://[oops/1.png",
        "foo://x/1.png",
        "zip://x.png",
        "zip://x.png::/tmp/a.zip",
        "n\x01.png",
        "x" * 300,
    )
    (new / "list.csv").write_text("\n".join(["image", "n00.png", *bad, "n01.png"]) + "\n")
    done = score_many(study, str(new / "list.csv"), tmp_path / "out", jobs=1)
    assert (done.rows, done.failed) == (len(bad) + 2, len(bad))
    table = read(tmp_path / "out").set_index("path")
    assert table.index.tolist() == ["n00.png", *bad, "n01.png"]
    assert table.loc[["n00.png", "n01.png"], "error"].tolist() == ["", ""]
    assert (table.loc[list(bad), "error"] != "").all()
    assert "not foo://" in table.loc["foo://x/1.png", "error"]


def test_files_whose_names_cannot_be_used_have_their_rows(study: Study, new: Path, tmp_path: Path) -> None:
    try:
        (new / "n03.png").rename(os.fsdecode(os.fsencode(new) + b"/n03\xff.png"))
    except OSError:  # a system whose names are all text
        pytest.skip("names are Unicode here")
    done = score_many(study, str(new), tmp_path / "out", part=5, jobs=1)
    assert (done.rows, done.failed) == (NEW, 2)
    table = read(tmp_path / "out")
    assert table["path"].is_monotonic_increasing
    [row] = table[table["path"].str.startswith("n03")].to_dict("records")
    assert "not valid UTF-8" in row["error"]
    assert score_many(study, str(new), tmp_path / "out", part=5, jobs=1).computed == 0


def test_a_row_whose_score_is_beyond_all_numbers_is_an_error(rows_study: Study, tmp_path: Path) -> None:
    rows = np.random.default_rng(5).normal(size=(50, 5))
    np.save(tmp_path / "small.npy", rows)
    rows[3, 0], rows[17], rows[30, 1], rows[41, 2] = 1e300, 1e39, 1e30, np.nan
    np.save(tmp_path / "large.npy", rows)
    for name in ("small", "large"):
        score_many(rows_study, str(tmp_path / f"{name}.npy"), tmp_path / name, part=20, jobs=1)
    small, large = read(tmp_path / "small"), read(tmp_path / "large")
    bad = np.flatnonzero(large["error"] != "")
    assert bad.tolist() == [3, 17, 41]
    assert large["error"][bad].str.contains("so large").tolist() == [True, True, False]
    assert large["score"][bad].isna().all()
    others = np.setdiff1d(np.arange(50), [*bad, 30])
    np.testing.assert_array_equal(large["score"][others], small["score"][others])
    assert np.isfinite(large["score"][30])


def test_rows_of_another_width_are_the_fault_of_no_row(rows_study: Study, tmp_path: Path) -> None:
    np.save(tmp_path / "narrow.npy", np.zeros((6, 4), np.float32))
    with pytest.raises(RankerError, match="fitted on 5 features an image"):
        score_many(rows_study, str(tmp_path / "narrow.npy"), tmp_path / "out", jobs=1)


def test_rows_that_only_the_model_refuses_are_found_among_the_others() -> None:
    """A float32 whose reduction is none."""

    class Model:
        def columns(self, inputs: np.ndarray) -> dict[str, np.ndarray]:
            if (np.abs(inputs) > 9).any():
                raise RankerError("not finite")
            return {"score": inputs[:, 0]}

    inputs, errors = np.arange(13.0)[:, None], [""] * 13
    columns = part._columns(Model(), inputs, errors)  # type: ignore[arg-type]
    assert columns["score"].tolist() == [*range(10), 0, 0, 0]
    assert [bool(error) for error in errors] == [False] * 10 + [True] * 3
