from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from steelyard.store import schema
from steelyard.store.database import make_engine, read_url
from steelyard.store.errors import StoreError
from steelyard.store.opening import upgrade
from steelyard.store.records import NewImage, NewPair
from steelyard.store.store import Store


def make_old_study(url: str) -> None:
    """A study as the first revision wrote it, with an answer in it."""
    engine = make_engine(read_url(url))
    with engine.connect() as connection:
        connection.execution_options(writing=True)
        with connection.begin():
            upgrade(connection, "0001")
            connection.execute(
                sa.insert(schema.images), [{"row": k, "id": f"i{k}", "path": ""} for k in range(2)]
            )
            pair = {
                "first_row": 0,
                "second_row": 1,
                "repeat": 0,
                "round": 0,
                "strategy": "",
                "reason": "",
                "created": 1.0,
            }
            connection.execute(
                sa.insert(schema.pairs).values(**pair, reserved=False, raters=1, answers=1, open=False)
            )
            connection.execute(sa.text("INSERT INTO annotators (name, created) VALUES ('kt', 1.0)"))
            answer = {
                "id": "x",
                "pair": 1,
                "annotator": "kt",
                "answer": "left",
                "left_row": 0,
                "right_row": 1,
            }
            connection.execute(
                sa.insert(schema.comparisons).values(
                    **answer, answered_at=1.0, received_at=1.0, note="", source="page"
                )
            )
    engine.dispose()


def backups(url: str) -> list[Path]:
    file = Path(str(read_url(url).database))
    return sorted(file.parent.glob(f"{file.name}.backup-*")) if url.startswith("sqlite") else []


def test_the_tables_are_what_the_migrations_make(empty_url: str) -> None:
    with Store.open(empty_url) as store:
        assert store.revision == schema.REVISION
        with store.database.reading() as connection:
            assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        assert store.check() == []
        assert store.settings.get("content ids until") is None, (
            "a new study never names images by their content"
        )
    assert backups(empty_url) == []


def test_a_closed_store_opens_again(empty_url: str) -> None:
    with Store.open(empty_url) as store:
        store.images.add_all([NewImage(0, "a"), NewImage(1, "b")])
        store.pairs.add_all([NewPair(0, 1)])
    with Store.open(empty_url, create=False) as store:
        assert store.pairs.open_count() == 1


def test_an_older_study_is_migrated_after_a_backup(empty_url: str) -> None:
    make_old_study(empty_url)
    with Store.open(empty_url, create=False) as store:
        assert [c.id for c in store.answers.log()] == ["x"]
        assert (store.people.get("kt").role, store.people.get("kt").active) == ("annotator", True)
        store.audit.add("kt", "look")
        store.answers.undo("x", "kt", id="u")
        assert store.check() == []
        # Browsers may hold answers that name images by their content.
        assert 13 < (store.settings.get("content ids until") - time.time()) / 86400 <= 14
        with store.database.reading() as connection:
            assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    if empty_url.startswith("sqlite"):
        [backup] = backups(empty_url)
        assert backup.name.startswith("study.db.backup-0001-")
        with closing(sqlite3.connect(backup)) as old:
            assert old.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
            assert old.execute("SELECT id FROM comparisons").fetchall() == [("x",)]
    Store.open(empty_url).close()
    assert len(backups(empty_url)) <= 1


def test_a_backup_can_be_opened_like_any_study(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    make_old_study(url)
    Store.open(url).close()
    [backup] = backups(url)
    with Store.open(f"sqlite:///{backup}") as store:
        assert store.answers.count() == 1


def test_a_migration_that_fails_leaves_the_study_as_it_was(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_study(empty_url)
    from steelyard.store import opening

    def half_way(connection: sa.Connection, revision: str) -> None:
        upgrade(connection, revision)
        raise StoreError("the light went out")

    monkeypatch.setattr(opening, "upgrade", half_way)
    with pytest.raises(StoreError, match="the light went out"):
        Store.open(empty_url)
    monkeypatch.undo()
    engine = make_engine(read_url(empty_url))
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "0001"
        assert not sa.inspect(connection).has_table("audit")
    engine.dispose()


def test_a_newer_study_is_refused_and_left_alone(empty_url: str) -> None:
    with Store.open(empty_url) as store, store.database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0999'"))
    with pytest.raises(
        StoreError,
        match=rf"newer Steelyard \(revision 0999; this one knows up to {schema.REVISION}\); upgrade",
    ):
        Store.open(empty_url)
    assert backups(empty_url) == []


def test_another_database_is_refused(empty_url: str) -> None:
    engine = make_engine(read_url(empty_url))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE recipes (id INTEGER)"))
    with pytest.raises(StoreError, match="recipes"):
        Store.open(empty_url)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["recipes"]
    engine.dispose()


def test_nothing_is_created_unless_asked(empty_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="steelyard init"):
        Store.open(empty_url, create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_left_empty_by_a_killed_process_can_be_filled(tmp_path: Path) -> None:
    (tmp_path / "study.db").touch()
    url = f"sqlite:///{tmp_path}/study.db"
    with pytest.raises(StoreError, match="holds no study"):
        Store.open(url, create=False)
    Store.open(url).close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere/study.db: the folder of the database does not exist"):
        Store.open(f"sqlite:///{tmp_path}/nowhere/study.db")


@pytest.mark.parametrize(
    "content", [b"this is no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_damaged_file_is_refused_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "study.db"
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged or no SQLite database.*backup"):
        Store.open(f"sqlite:///{file}")
    assert file.read_bytes() == content


def test_a_truncated_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    with Store.open(f"sqlite:///{file}") as store:
        store.images.add_all([NewImage(k, f"{k:032x}", "x" * 100) for k in range(2000)])
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])

    def read_all() -> None:
        with Store.open(f"sqlite:///{file}") as store:
            store.images.all()

    with pytest.raises(StoreError, match="damaged"):
        read_all()


def test_a_read_only_study_is_named(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/study.db") as store:
        # Root may write anywhere, so SQLite itself is told to refuse.
        sa.event.listen(store.database.engine, "begin", lambda c: c.exec_driver_sql("PRAGMA query_only = ON"))
        with pytest.raises(StoreError, match="read-only"):
            store.settings.keep("x", 1)


def test_the_store_is_light() -> None:
    code = "import sys, steelyard.store.store; print(sorted({'torch', 'pandas', 'alembic', 'psycopg'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
