from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from steelyard.errors import MissingExtraError
from steelyard.pairs import Answer
from steelyard.store import database
from steelyard.store.errors import BusyError, ConflictError, StoreError
from steelyard.store.evidence import continued
from steelyard.store.records import Leased, NewImage, NewPair
from steelyard.store.schema import comparisons, pair_leases
from steelyard.store.store import Store
from tests.waiting import until

from .conftest import image_id


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "mysql://host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?uri=true",
        "postgresql+asyncpg://host/db",
    ],
)
def test_other_urls_are_refused_with_an_example(url: str) -> None:
    with pytest.raises(StoreError, match="sqlite:///"):
        Store.open(url)


def test_the_password_is_never_told() -> None:
    with pytest.raises(StoreError, match=r"kt:\*\*\*@127\.0\.0\.1:1/study") as caught:
        Store.open("postgresql://kt:secret@127.0.0.1:1/study?connect_timeout=2")
    assert "secret" not in str(caught.value)
    with pytest.raises(StoreError) as caught:
        Store.open("mysql://kt:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(database.sa, "create_engine", no_driver)
    with pytest.raises(MissingExtraError, match=r"steelyard\[postgres\]"):
        Store.open("postgresql+psycopg://host/db")


def test_answers_are_on_disk_before_they_are_acknowledged(store: Store) -> None:
    with store.database.reading() as connection:
        if store.url.startswith("sqlite"):
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        else:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_an_error_rolls_everything_back(store: Store) -> None:
    def fail_in_the_middle() -> None:
        with store.database.writing() as connection:
            connection.execute(sa.text("DELETE FROM images"))
            raise KeyError("something else went wrong")

    with pytest.raises(KeyError):
        fail_in_the_middle()
    assert len(store.images.all()) == 12


def test_what_the_driver_says_becomes_one_line_with_the_url(store: Store) -> None:
    with pytest.raises(StoreError) as caught, store.database.reading() as connection:
        connection.execute(sa.text("SELECT * FROM nothing"))
    assert str(caught.value).startswith(store.url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = 'x'", "DELETE FROM {}"])
@pytest.mark.parametrize(("log", "column"), [("comparisons", "note"), ("grades", "note"), ("audit", "actor")])
def test_the_database_itself_refuses_to_change_a_log(
    store: Store, pair_ids: list[int], say: Any, statement: str, log: str, column: str
) -> None:
    fill_logs(store, pair_ids, say)
    with pytest.raises(ConflictError, match=f"{log} is append-only"), store.database.writing() as connection:
        connection.execute(sa.text(statement.format(log, column)))
    assert (len(store.answers.log()), len(store.grades.log()), len(store.audit.log())) == (2, 1, 1)


def test_nor_is_there_a_way_around(store: Store, pair_ids: list[int], say: Any) -> None:
    fill_logs(store, pair_ids, say)
    before = store.answers.log()
    if store.url.startswith("sqlite"):
        columns = "seq, id, pair, annotator, answer, left_row, right_row, answered_at, received_at, supersedes, note, source"
        for seq, id, supersedes in ((1, "z", None), (9, "x", None), (9, "z", "x")):
            row = (seq, id, pair_ids[2], "kt", "equal", 2, 3, 0.0, 0.0, supersedes, "", "page")
            with pytest.raises(ConflictError, match="append-only"), store.database.writing() as connection:
                connection.exec_driver_sql(
                    f"INSERT OR REPLACE INTO comparisons ({columns}) VALUES ({', '.join('?' * 12)})", row
                )
    else:
        with pytest.raises(ConflictError, match="append-only"), store.database.writing() as connection:
            connection.execute(sa.text("TRUNCATE comparisons CASCADE"))
    assert store.answers.log() == before


def fill_logs(store: Store, pair_ids: list[int], say: Any) -> None:
    from steelyard.store.records import NewGrade

    store.answers.add(say.on(store, pair_ids[0], "kt", id="x"))
    store.answers.undo("x", "kt", id="y")
    store.grades.add(NewGrade(store.images.all(limit=1)[0].id, "kt", 1))
    store.audit.add("kt", "look")


def test_check_notices_what_went_around_the_store(store: Store, pair_ids: list[int]) -> None:
    with store.database.writing() as connection:
        connection.execute(sa.text("UPDATE pairs SET answers = 7 WHERE id = :id"), {"id": pair_ids[0]})
    assert any(f"pair {pair_ids[0]} does not know" in line for line in store.check())
    with store.database.writing() as connection:
        connection.execute(
            sa.text("UPDATE pairs SET answers = 0, raters = 1 WHERE id = :id"), {"id": pair_ids[0]}
        )
    assert store.check() == []
    drop = (
        "DROP TRIGGER audit_no_delete"
        if store.url.startswith("sqlite")
        else "DROP TRIGGER audit_no_change ON audit"
    )
    with store.database.writing() as connection:
        connection.execute(sa.text(drop))
    assert store.check() == ["the trigger that keeps audit append-only is missing"]
    restore = (
        "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END"
        if store.url.startswith("sqlite")
        else "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_append_only()"
    )
    with store.database.writing() as connection:
        connection.execute(sa.text(restore))


def test_a_child_process_makes_its_own_connections(store: Store) -> None:
    store.settings.keep("parent", 1)
    with store.database._writer:  # as if another thread were writing at the moment of the fork
        child = os.fork()
        if child == 0:
            try:
                store.settings.keep("child", 2)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert (store.settings.get("parent"), store.settings.get("child")) == (1, 2)
    store.settings.keep("parent again", 3)


def test_threads_share_a_store(store: Store, pair_ids: list[int], say: Any) -> None:
    def answer(k: int) -> None:
        store.answers.add(say.on(store, pair_ids[k], f"p{k}", Answer.EQUAL))

    threads = [threading.Thread(target=answer, args=(k,)) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.answers.count() == 5


def test_a_lock_that_stays_is_reported_as_busy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if store.url.startswith("sqlite"):
        engine = sa.create_engine(store.database.engine.url, connect_args={"timeout": 0.05})
        impatient = Store(database.Database(engine))
        sa.event.listen(engine, "connect", database._set_up_sqlite)
        sa.event.listen(engine, "begin", database._begin_sqlite)
    else:
        patience = {"options": "-c lock_timeout=50ms"}
        engine = sa.create_engine(store.database.engine.url, connect_args=patience)
        impatient = Store(database.Database(engine))
    with store.database.writing() as holder:
        holder.execute(sa.text("UPDATE images SET path = path"))
        with pytest.raises(BusyError, match="try again"):
            impatient.images.relocate({store.images.all(limit=1)[0].id: "elsewhere"})
    impatient.close()


def test_a_thread_that_never_gets_its_turn_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    with Store.open(f"sqlite:///{tmp_path}/study.db") as store:
        with store.database._writer, pytest.raises(BusyError, match="try again"):
            store.settings.keep("x", 1)
        store.settings.keep("x", 2)
        assert store.settings.get("x") == 2


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[Store]:
    with Store.open(postgres_url) as store:
        store.images.add_all([NewImage(row, f"{row:032x}") for row in range(4)])
        yield store
        assert store.check() == []


def wait_for_a_waiter(store: Store, what: str) -> None:
    """Until another connection waits for a lock."""
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = :what"
    )

    def there() -> bool:
        with store.database.reading() as reader:
            return bool(reader.execute(waiting, {"what": what}).scalar_one())

    until(there, "a connection that waits")


@pytest.mark.postgres
def test_a_lease_committed_between_look_and_lock_is_seen(postgres_store: Store) -> None:
    store = postgres_store
    [pair] = store.pairs.add_all([NewPair(0, 1)])
    store.people.add("a")
    answer: list[list[Leased]] = []
    asking = threading.Thread(
        target=lambda: answer.append(store.pairs.lease("b", 1, seconds=60, rng=np.random.default_rng(0)))
    )
    with store.database.engine.connect() as rival, rival.begin():
        rival.execute(sa.text("SELECT 1 FROM pairs WHERE id = :id FOR UPDATE"), {"id": pair})
        now = time.time()
        lease = {"pair": pair, "annotator": "a", "left_row": 0, "handed_at": now, "expires": now + 60}
        rival.execute(sa.insert(pair_leases).values(lease))
        asking.start()
        wait_for_a_waiter(store, "transactionid")  # the other has found the pair free and waits for its lock
    asking.join()
    assert answer == [[]]


@pytest.mark.postgres
def test_nobody_waits_for_a_pair_that_somebody_is_looking_at(postgres_store: Store) -> None:
    store = postgres_store
    first, second = store.pairs.add_all([NewPair(0, 1), NewPair(2, 3)])
    with store.database.engine.connect() as rival, rival.begin():
        rival.execute(sa.text("SELECT 1 FROM pairs WHERE id = :id FOR UPDATE"), {"id": first})
        [leased] = store.pairs.lease("b", 1, seconds=60, rng=np.random.default_rng(0))
        assert leased.pair == second
    assert len(store.pairs.lease("b", 2, seconds=60, rng=np.random.default_rng(0))) == 2


@pytest.mark.postgres
def test_two_who_want_what_the_other_holds_do_not_wait_for_each_other(postgres_store: Store) -> None:
    store = postgres_store
    for turn in range(15):
        ids = store.pairs.add_all([NewPair(0, 1, repeat=turn), NewPair(2, 3, repeat=turn)])
        people = [f"a{turn}", f"b{turn}"]
        for who in people:  # one pair each; then each pair wants the other person too
            store.pairs.lease(who, 1, seconds=60, rng=np.random.default_rng(0))
        with store.database.writing() as connection:
            connection.execute(sa.text("UPDATE pairs SET raters = 2"))
        start = threading.Barrier(2)
        got: dict[str, list[int]] = {}

        def ask(who: str, start: threading.Barrier = start, got: dict[str, list[int]] = got) -> None:
            start.wait()
            got[who] = sorted(
                one.pair for one in store.pairs.lease(who, 3, seconds=60, rng=np.random.default_rng(0))
            )

        threads = [threading.Thread(target=ask, args=(who,)) for who in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == dict.fromkeys(people, ids)


@pytest.mark.postgres
def test_numbers_of_the_log_are_in_the_order_of_commits(postgres_store: Store, say: Any) -> None:
    store = postgres_store
    first, second = store.pairs.add_all([NewPair(0, 1), NewPair(2, 3)])
    store.people.add("slow")
    quick = threading.Thread(target=lambda: store.answers.add(say.on(store, second, "quick", id="quick")))
    row: dict[str, Any] = {"id": "slow", "pair": first, "annotator": "slow", "answer": "left"}
    row |= {"left_row": 0, "right_row": 1}
    with store.database.engine.connect() as slow, slow.begin():
        store.database.lock_log(slow)
        row |= {"shown_at": None, "answered_at": 1.0, "received_at": 1.0, "supersedes": None, "note": ""}
        shown = {"left": image_id(0), "right": image_id(1)}
        [written] = continued(slow, "comparisons", [{**row, **shown, "source": "page"}])
        slow.execute(sa.insert(comparisons), {k: v for k, v in written.items() if k not in shown})
        slow.execute(sa.text("UPDATE pairs SET answers = 1, open = false WHERE id = :id"), {"id": first})
        quick.start()
        wait_for_a_waiter(store, "advisory")
        assert store.answers.last_seq() == 0  # whoever reads now has missed nothing when reading on
    quick.join()
    assert [c.id for c in store.answers.log()] == ["slow", "quick"]


def test_the_log_is_brought_into_the_file_while_others_read_and_write(store: Store, tmp_path: Path) -> None:
    """On PostgreSQL there is nothing to bring in, and asking for it does no harm."""
    reading = store.database.engine.connect()
    reading.execute(sa.text("SELECT count(*) FROM images"))
    store.checkpoint()
    store.pairs.add_all([NewPair(row, row + 1, 0, "random", "drawn at random") for row in range(5)])
    store.checkpoint()
    reading.close()
    store.checkpoint()
    assert len(store.pairs.all()) == 5
    if store.database.sqlite:
        alone = tmp_path / "alone.db"
        alone.write_bytes((tmp_path / "study.db").read_bytes())  # without its log
        with closing(sqlite3.connect(alone)) as copy:
            assert copy.execute("SELECT count(*) FROM pairs").fetchone() == (5,)


def test_a_server_started_anew_is_noticed(postgres_store: Store) -> None:
    """Connections that the server has dropped are replaced before anybody's answer meets them."""
    before = len(postgres_store.images.all())
    engine = sa.create_engine(
        postgres_store.database.engine.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as other:
        gone = sa.text(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'"
        )
        assert other.execute(gone).scalar_one() >= 1
        # The server ends them in its own time; one that is still ending may answer once more.
        until(lambda: other.execute(gone).scalar_one() == 0, "the end of every connection")
    assert len(postgres_store.images.all()) == before


def test_the_clock_of_the_server_is_asked_once_a_minute(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    sa.event.listen(
        postgres_store.database.engine, "before_cursor_execute",
        lambda _c, _cursor, statement, *_: asked.append(statement) if "clock_timestamp" in statement else None,
    )  # fmt: skip
    postgres_store.pairs.lease("a", 1, seconds=60, rng=np.random.default_rng(0))
    postgres_store.pairs.lease("a", 1, seconds=60, rng=np.random.default_rng(0))
    assert len(asked) <= 1
    monkeypatch.setattr(database, "CLOCK_SECONDS", -1.0)
    postgres_store.pairs.lease("a", 1, seconds=60, rng=np.random.default_rng(0))
    assert asked
    with postgres_store.database.reading() as connection:
        server = float(connection.execute(database._NOW).scalar_one())
        assert abs(postgres_store.database.clock(connection, None) - server) < 1.0
