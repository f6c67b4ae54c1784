"""Many studies in one PostgreSQL database, each in a schema of its own: none sees, waits for or harms another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import steelyard as sy
from steelyard.errors import StudyError
from steelyard.pairs import Answer
from steelyard.rescue.backup import backup_study
from steelyard.rescue.check import check_study
from steelyard.rescue.restore import restore_study
from steelyard.store import schema
from steelyard.store.database import make_engine, read_url
from steelyard.store.errors import StoreError
from steelyard.store.records import NewComparison, NewImage, NewPair
from steelyard.store.store import Store
from steelyard.study import Study
from tests.conftest import run_sql

pytestmark = pytest.mark.postgres
IMAGES, PEOPLE = 12, 3


def within(url: str, name: str) -> str:
    return read_url(url).update_query_dict({"schema": name}).render_as_string(hide_password=False)


@pytest.fixture
def two(postgres_url: str) -> list[str]:
    """One study in `public`, as every version so far made it, and one in a schema, in the same database."""
    urls = [postgres_url, within(postgres_url, "colon")]
    for url in urls:
        with Store.open(url) as store:
            store.images.add_all([NewImage(row, f"{row:032x}") for row in range(IMAGES)])
            store.pairs.add_all([NewPair(i, j) for i in range(IMAGES) for j in range(i)])
    return urls


def answer_all(url: str, me: str, failed: list[BaseException]) -> None:
    try:
        with Store.open(url, create=False) as store:
            rng = np.random.default_rng(0)
            while leased := store.pairs.lease(me, 2, seconds=600, rng=rng):
                for one in leased:
                    store.answers.add(NewComparison(one.pair, me, Answer.LEFT, one.left, one.right))
    except BaseException as error:
        failed.append(error)


def test_answers_to_two_studies_at_once_stay_apart(two: list[str]) -> None:
    failed: list[BaseException] = []
    people = [
        threading.Thread(target=answer_all, args=(url, f"{k}-{me}", failed))
        for k, url in enumerate(two)
        for me in range(PEOPLE)
    ]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert failed == []
    for k, url in enumerate(two):
        with Store.open(url, create=False) as store:
            log = store.answers.log()
            assert [row.seq for row in log] == list(range(1, IMAGES * (IMAGES - 1) // 2 + 1)), (
                "numbers of its own"
            )
            assert {row.annotator.split("-")[0] for row in log} == {str(k)}, "nobody of the other study"
            assert store.check() == []


def test_a_study_in_a_schema_is_made_of_the_same_tables(two: list[str]) -> None:
    with Store.open(two[1], create=False) as store, store.database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        assert sa.inspect(connection).default_schema_name == "colon"


@pytest.mark.parametrize("busy", [0, 1])
def test_a_long_import_into_one_holds_up_nobody_in_the_other(two: list[str], busy: int) -> None:
    """Both the function of the database and Python write the log: each takes the lock of its study, and the same one."""
    with Store.open(two[busy], create=False) as one, Store.open(two[1 - busy], create=False) as other:
        with other.database.writing() as connection:
            connection.execute(sa.text("SET lock_timeout = '200ms'"))
        with one.database.together() as connection:
            one.database.lock_log(connection)
            other.audit.add("kt", "written by Python")
            [leased] = other.pairs.lease("kt", 1, seconds=600, rng=np.random.default_rng(0))
            other.answers.add(NewComparison(leased.pair, "kt", Answer.LEFT, leased.left, leased.right))
            assert _waits(two[busy]), "but its own people wait their turn"
        assert other.answers.count() == 1


def _waits(url: str) -> bool:
    """Whether the function that writes answers would wait for the lock that Python holds."""
    engine = make_engine(read_url(url))
    source = "SELECT prosrc FROM pg_proc WHERE proname = 'steelyard_answer' AND pg_function_is_visible(oid)"
    try:
        with engine.connect() as connection:
            code = str(connection.execute(sa.text(source)).scalar_one())
            lock = code.split("pg_advisory_xact_lock(")[1].split(")")[0]
            return not connection.execute(sa.text(f"SELECT pg_try_advisory_xact_lock({lock})")).scalar_one()
    finally:
        engine.dispose()


def test_one_study_under_two_spellings_has_one_lock(two: list[str], postgres_url: str) -> None:
    """`options=` chose a schema before `schema=` did; renaming a schema is allowed as well."""
    by_options = read_url(postgres_url).update_query_dict({"options": "-csearch_path=colon"})
    with Store.open(two[1]) as one, Store.open(by_options.render_as_string(hide_password=False)) as other:
        assert other.images.count() == IMAGES
        with one.database.together() as connection, other.database.writing() as waiting:
            one.database.lock_log(connection)
            waiting.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                other.database.lock_log(waiting)
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as connection_:
        connection_.execute("ALTER SCHEMA colon RENAME TO rectum")
    failed: list[BaseException] = []
    people = [
        threading.Thread(target=answer_all, args=(within(postgres_url, "rectum"), f"p{me}", failed))
        for me in range(2)
    ]
    for person in people:
        person.start()
    for person in people:
        person.join()
    with Store.open(within(postgres_url, "rectum"), create=False) as store:
        store.audit.add("kt", "looked")
        assert (failed, store.check()) == ([], [])


def test_a_missing_trigger_is_not_covered_up_by_another_study(two: list[str]) -> None:
    with Store.open(two[1]) as store, store.database.writing() as connection:
        connection.execute(sa.text("DROP TRIGGER comparisons_no_change ON comparisons"))
    with Store.open(two[1]) as hurt, Store.open(two[0]) as sound:
        assert hurt.check() == ["the trigger that keeps comparisons append-only is missing"]
        assert sound.check() == []


@pytest.mark.parametrize(
    "name", ["Colon", "1st", "pg_mine", "information_schema", 'a";DROP SCHEMA public', "x" * 64]
)
def test_what_is_no_name_of_a_schema_is_refused(postgres_url: str, name: str) -> None:
    with pytest.raises(StoreError, match="schema= names one schema"):
        Store.open(within(postgres_url, name))


def test_nothing_is_made_unless_asked(postgres_url: str) -> None:
    with pytest.raises(StoreError, match="holds no study"):
        Store.open(within(postgres_url, "colon"), create=False)
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT to_regnamespace('colon')").fetchone() == (None,)


def test_whoever_may_not_make_a_schema_is_told_what_to_ask_for(
    postgres_server: Any, postgres_url: str
) -> None:
    database = str(read_url(postgres_url).database)
    run_sql(postgres_server, f"CREATE ROLE guest_{database} LOGIN PASSWORD 'x'")
    url = (
        read_url(postgres_url)
        .set(username=f"guest_{database}", password="x")
        .update_query_dict({"schema": "colon"})
    )
    asked = url.render_as_string(hide_password=False)
    with pytest.raises(StoreError, match=f'CREATE SCHEMA colon AUTHORIZATION "guest_{database}"'):
        Store.open(asked)
    run_sql(postgres_server, f"CREATE SCHEMA colon AUTHORIZATION guest_{database}", database=database)
    Store.open(asked).close()


# ---------------------------------------------------------------------- whole studies


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, str], Study]:
    def study(name: str, store: str) -> Study:
        seed = sum(name.encode())
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(seed).normal(size=(20, 4)).astype(np.float32))
        return Study.create(
            tmp_path / name, sy.Catalog.from_features(tmp_path / f"{name}.npy"), preset="features", store=store,
            ask={"start": "random"},
        )  # fmt: skip

    return study


def test_a_database_that_holds_another_study_is_refused(
    make: Callable[[str, str], Study], postgres_url: str
) -> None:
    make("one", postgres_url).close()
    with pytest.raises(StudyError, match=r"holds a study of 20 images already; .*\?schema=NAME"):
        make("two", postgres_url)
    make("two", within(postgres_url, "two")).close()
    with pytest.raises(StudyError, match=r"schema=two holds a study"):
        make("three", within(postgres_url, "two"))


@pytest.mark.usefixtures("tools")
def test_each_study_is_backed_up_and_restored_by_itself(
    make: Callable[[str, str], Study], postgres_url: str, tmp_path: Path
) -> None:
    made = [make("one", postgres_url), make("two", within(postgres_url, "two"))]
    for study, answers in zip(made, (3, 5), strict=True):
        for pair in study.ask(answers):
            study.tell(pair, "left")
        study.close()
    for study, answers in zip(made, (3, 5), strict=True):
        name, target = study.folder.name, within(postgres_url, f"{study.folder.name}_again")
        backup = backup_study(study.folder, tmp_path / f"{name}.zip")
        assert backup.answers == answers
        restored = restore_study(backup.path, tmp_path / f"{name} again", store=target)
        assert [one for one in restored.findings if one.level == "problem"] == []
        with Study.open(restored.folder) as again:
            assert again.store.answers.count() == answers
        with pytest.raises(StoreError, match=r"holds tables already.*\?schema=NAME"):
            restore_study(backup.path, tmp_path / "third", store=target)
        assert [one for one in check_study(study.folder) if one.level == "problem"] == []


@pytest.mark.usefixtures("tools")
def test_what_pg_dump_wrote_is_not_put_into_a_schema(
    make: Callable[[str, str], Study], postgres_url: str, tmp_path: Path
) -> None:
    make("one", postgres_url).close()
    backup = backup_study(tmp_path / "one", tmp_path / "one.zip")
    with pytest.raises(StoreError, match=r"not into the schema again; leave \?schema= out"):
        restore_study(backup.path, tmp_path / "again", store=within(postgres_url, "again"))
    assert not (tmp_path / "again").exists()


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, postgres_server: Any) -> None:
    """The server's own pg_dump first on the path: it must not be used where it would take in other studies."""
    monkeypatch.setenv("PATH", f"{postgres_server.bin_path}{os.pathsep}{os.environ['PATH']}")
