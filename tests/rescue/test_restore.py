"""A backup becomes the study that it was made of, in the same database or the other."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import StoreError, StudyError
from steelyard.pairs import Answer
from steelyard.rescue import backup_study, restore_study
from steelyard.rescue.archive import Archive
from steelyard.study import Study
from steelyard.study.making import store_url as url_of

Rows = Callable[[str], dict[str, Any]]
MakeStudy = Callable[[Path, Path, str], Study]


def same(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Equal row by row, but for the line of the audit log that says so; nobody is signed in."""
    columns, audit = after["audit"]
    assert audit[-1][columns.index("action")] == "restored from a backup"
    assert after["sessions"] == ([], 0)
    assert before["sessions"] == ([], 1)
    assert {**after, "audit": (columns, audit[:-1]), "sessions": None} == {**before, "sessions": None}


def problems(findings: list[Any]) -> list[str]:
    return [finding.sentence for finding in findings if finding.level == "problem"]


def test_a_study_comes_back_row_by_row(
    study: Study, store_url: str, tmp_path: Path, rows_of: Rows, new_database: Callable[[], str]
) -> None:
    scores = study.score()
    made = backup_study(study.folder, tmp_path / "b.zip", portable=bool(store_url))
    target = new_database() if store_url else ""
    done = restore_study(made.path, tmp_path / "again", store=target)
    assert problems(done.findings) == []
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    with Study.open(tmp_path / "again") as again:
        same(rows_of(url_of(study.folder, study.config)), rows_of(url_of(again.folder, again.config)))
        assert again.config == study.config.with_changes(store=target)
        assert again.score().equals(scores)
        assert again.store.check() == []
        pair = again.ask(1, annotator="kt")[0]
        again.tell(pair, Answer.LEFT, annotator="kt")  # the next number is free
        assert again.fit().round == 1
    for file in (tmp_path / "again").rglob("*"):
        if file.name in ("study.toml", "study.db", "catalog.arrow"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


@pytest.mark.postgres
def test_a_study_moves_from_sqlite_to_postgresql_and_back(
    sqlite_study: Study, tmp_path: Path, rows_of: Rows, postgres_url: str
) -> None:
    before = rows_of(sqlite_study.store.database.engine.url.render_as_string())
    there = backup_study(sqlite_study.folder, tmp_path / "there.zip")
    done = restore_study(there.path, tmp_path / "team", store=postgres_url)
    assert problems(done.findings) == []
    same(before, rows_of(postgres_url))
    with Study.open(tmp_path / "team") as team:
        team.tell(team.ask(1, annotator="kt")[0], Answer.RIGHT, annotator="kt")
        team.store.people.sessions.add("somebody", "alma", "csrf", expires=4e9)
    middle = rows_of(postgres_url)
    back = backup_study(tmp_path / "team", tmp_path / "back.zip", portable=True)
    restore_study(back.path, tmp_path / "home")
    same(middle, rows_of(f"sqlite:///{tmp_path}/home/study.db"))


@pytest.mark.postgres
@pytest.mark.usefixtures("postgres_tools")
def test_pg_dump_and_pg_restore_are_used_where_they_are(
    tmp_path: Path, postgres_url: str, rows_of: Rows, make_study: MakeStudy, new_database: Callable[[], str]
) -> None:
    with make_study(tmp_path / "study", tmp_path / "images", postgres_url):
        made = backup_study(tmp_path / "study", tmp_path / "b.zip")
    with Archive.open(made.path) as archive:
        assert archive.about["database"] == "postgresql"
        assert "store/study.pgdump" in archive.members
        assert archive.about["rows"]["comparisons"] == made.answers == 9
    assert b"session hash of alma" not in made.path.read_bytes()
    with pytest.raises(StoreError, match=r"pg_dump.*--store"):
        restore_study(made.path, tmp_path / "again")
    target = new_database()
    done = restore_study(made.path, tmp_path / "again", store=target)
    assert problems(done.findings) == []
    same(rows_of(postgres_url), rows_of(target))
    with pytest.raises(StoreError, match=r"holds tables already.*empty database"):
        restore_study(made.path, tmp_path / "third", store=target)
    assert not (tmp_path / "third").exists()


@pytest.mark.postgres
@pytest.mark.usefixtures("no_postgres_tools")
def test_without_tools_the_dump_is_portable(tmp_path: Path, postgres_url: str, make_study: MakeStudy) -> None:
    with make_study(tmp_path / "study", tmp_path / "images", postgres_url):
        made = backup_study(tmp_path / "study", tmp_path / "b.zip")
    with Archive.open(made.path) as archive:
        assert archive.about["database"] == "portable"


@pytest.mark.postgres
def test_no_backup_holds_the_password_of_the_database(
    tmp_path: Path, postgres_url: str, make_study: MakeStudy
) -> None:
    from sqlalchemy.engine import make_url

    secret = make_url(postgres_url).set(password="the-password-of-the-database")
    url = secret.render_as_string(hide_password=False)  # the test server trusts everybody who is here
    with make_study(tmp_path / "study", tmp_path / "images", url):
        made = backup_study(tmp_path / "study", tmp_path / "b.zip")
    with Archive.open(made.path) as archive:
        archive.extract(tmp_path / "unpacked")
    for file in (tmp_path / "unpacked").rglob("*"):
        assert not file.is_file() or b"the-password-of" not in file.read_bytes(), file


def test_an_old_wal_beside_the_new_file_is_never_read(
    sqlite_study: Study, tmp_path: Path, rows_of: Rows
) -> None:
    """The former database died with answers in its -wal; whoever deleted only study.db must not get them mixed."""
    folder = sqlite_study.folder
    made = backup_study(folder, tmp_path / "b.zip")
    before = rows_of(f"sqlite:///{folder}/study.db")
    target = tmp_path / "target"
    target.mkdir()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("CREATE TABLE intruder (x)")
        other.executemany("INSERT INTO intruder VALUES (?)", [("x" * 500,)] * 500)
        other.commit()
        shutil.copy(tmp_path / "other.db-wal", target / "study.db-wal")
        shutil.copy(tmp_path / "other.db-shm", target / "study.db-shm")
    with pytest.raises(StudyError, match=r"what is left of one \(study.db-shm, study.db-wal\).*--replace"):
        restore_study(made.path, target)
    done = restore_study(made.path, target, replace=True)
    assert problems(done.findings) == []
    assert not list(target.glob("study.db-*"))
    assert done.replaced is not None
    assert sorted(path.name for path in done.replaced.iterdir()) == ["study.db-shm", "study.db-wal"]
    same(before, rows_of(f"sqlite:///{target}/study.db"))


def test_replacing_moves_aside_and_deletes_nothing(
    sqlite_study: Study, tmp_path: Path, answer: Callable[..., None]
) -> None:
    folder = sqlite_study.folder
    made = backup_study(folder, tmp_path / "b.zip")
    answer(sqlite_study, 3, "lena")
    with pytest.raises(StudyError, match=r"holds a study.*--replace"):
        restore_study(made.path, folder)
    with pytest.raises(StudyError, match="in use; stop whoever serves"):
        restore_study(made.path, folder, replace=True)
    assert sqlite_study.store.answers.count() == 10
    sqlite_study.close()
    done = restore_study(made.path, folder, replace=True)
    with Study.open(folder) as restored, Study.open(str(done.replaced)) as aside:
        assert restored.store.answers.count() == 7
        assert aside.store.answers.count() == 10
        assert len(aside.score()) == 15


def test_a_damaged_study_can_be_replaced(sqlite_study: Study, tmp_path: Path) -> None:
    folder = sqlite_study.folder
    made = backup_study(folder, tmp_path / "b.zip")
    sqlite_study.close()
    (folder / "study.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 3000)
    (folder / "study.toml").write_text("")
    (folder / "catalog.arrow").write_bytes(b"ARROW1")
    done = restore_study(made.path, folder, replace=True)
    assert problems(done.findings) == []
    with Study.open(folder) as study:
        assert study.store.answers.count() == 7


def test_an_older_backup_is_migrated_when_it_is_restored(tmp_path: Path) -> None:
    files = Path(__file__).parent.parent / "files" / "study-0.1"
    shutil.copytree(files, tmp_path / "old")
    for portable in (False, True):
        made = backup_study(tmp_path / "old", tmp_path / f"{portable}.zip", portable=portable)
        with Archive.open(made.path) as archive:
            assert archive.about["revision"] == "0002"  # a backup migrates nothing
        shutil.copytree(files / "images", tmp_path / str(portable) / "images")
        done = restore_study(made.path, tmp_path / str(portable))
        assert problems(done.findings) == []
        with Study.open(tmp_path / str(portable)) as study, Study.open(files_copy(tmp_path, portable)) as old:
            assert study.store.answers.log() == old.store.answers.log()
            assert np.array_equal(study.score()["score"], old.score()["score"])


def files_copy(tmp_path: Path, portable: bool) -> Path:
    files = Path(__file__).parent.parent / "files" / "study-0.1"
    return Path(shutil.copytree(files, tmp_path / f"live-{portable}"))


def test_a_newer_backup_is_refused(
    sqlite_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backup_study(sqlite_study.folder, tmp_path / "b.zip")
    monkeypatch.setattr("steelyard.store.refill.known_revisions", lambda: {"0001"})
    with pytest.raises(StoreError, match="newer Steelyard"):
        restore_study(made.path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_names_that_are_wrong_are_said(sqlite_study: Study, tmp_path: Path) -> None:
    folder = sqlite_study.folder
    made = backup_study(folder, tmp_path / "b.zip")
    with pytest.raises(StudyError, match="never overwrites"):
        backup_study(folder, made.path)
    with pytest.raises(StudyError, match="nowhere does not exist"):
        backup_study(folder, tmp_path / "nowhere" / "b.zip")
    with pytest.raises(StudyError, match="is not a study"):
        backup_study(tmp_path)
    with pytest.raises(StudyError, match="there is no backup"):
        restore_study(tmp_path / "none.zip", tmp_path / "again")
    with pytest.raises(StudyError, match="PostgreSQL database; leave it out"):
        restore_study(made.path, tmp_path / "again", store="sqlite:///x.db")
    assert not (tmp_path / "again").exists()
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_models_newest_or_all(sqlite_study: Study, tmp_path: Path) -> None:
    sqlite_study.fit()
    sqlite_study.fit()
    paths = tuple(model.path for model in sqlite_study.store.models.all())
    newest = backup_study(sqlite_study.folder, tmp_path / "newest.zip")
    assert newest.models == paths[2:]
    network = sqlite_study.config.with_changes(ranker={"kind": "network"})
    for warm, models in {
        "round0": (paths[0], paths[2]),
        "previous": newest.models,
    }.items():
        network.with_changes(ranker={"warm_start": warm}).save(sqlite_study.folder / "study.toml")
        assert backup_study(sqlite_study.folder, tmp_path / f"{warm}.zip").models == models
    sqlite_study.config.save(sqlite_study.folder / "study.toml")
    every = backup_study(sqlite_study.folder, tmp_path / "every.zip", all_models=True)
    assert every.models == paths
    assert len(paths) == 3
    done = restore_study(newest.path, tmp_path / "again")
    assert problems(done.findings) == []
    assert [f.level for f in done.findings if paths[0] in f.sentence] == ["note"]
    with Study.open(tmp_path / "again") as again:
        assert again.fit().round == 3


def test_a_damaged_store_is_not_backed_up(sqlite_study: Study, tmp_path: Path) -> None:
    sqlite_study.close()
    file = sqlite_study.folder / "study.db"
    content = bytearray(file.read_bytes())
    for start in range(8192, len(content), 4096):
        content[start : start + 64] = b"\xff" * 64
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged|malformed"):
        backup_study(sqlite_study.folder, tmp_path / "b.zip")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["images", "study"]
