"""Where the database is, said from outside; and whoever looks for its password finds it nowhere."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import ConfigError, SteelyardError, StudyError
from steelyard.images.catalog import Catalog
from steelyard.store.address import address, kept_address
from steelyard.store.database import read_url
from steelyard.store.store import Store
from steelyard.study import Study
from tests.conftest import run_sql

SECRET = "hunter2"
VARIABLE, FILE = "STEELYARD_STORE", "STEELYARD_STORE_PASSWORD_FILE"


def test_the_variable_says_where_and_the_study_keeps_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = "postgresql+psycopg://steelyard@old/colon?schema=colon&sslmode=require"
    assert address(kept) == kept
    assert kept_address(kept) == kept
    monkeypatch.setenv(VARIABLE, f"postgresql://steelyard:{SECRET}@new/all?sslmode=verify-full")
    assert (
        address(kept) == f"postgresql+psycopg://steelyard:{SECRET}@new/all?schema=colon&sslmode=verify-full"
    )
    assert kept_address("") == "postgresql+psycopg://steelyard@new/all?sslmode=verify-full"
    same = "postgresql+psycopg://steelyard@new/all?schema=colon"
    assert kept_address(same) == f"{same}&sslmode=verify-full"
    with pytest.raises(ConfigError, match="different databases"):
        kept_address("postgresql+psycopg://steelyard@other/all")
    monkeypatch.setenv(VARIABLE, "sqlite:////tmp/every.db")
    with pytest.raises(ConfigError, match="names a PostgreSQL database"):
        address("")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://steelyard:my@{SECRET}@db/colon",
        f"postgresql+psycopg://steelyard:my@{SECRET}/x@db/colon",
        f"postgresql+psycopg://steelyard:my?@{SECRET}/x@db/colon",
        f"postgresql+psycopg://steelyard:{SECRET}@db:54x2/colon",
        f"postgresql+psycopg:/steelyard:{SECRET}@db/colon",
        f"mysql://steelyard:{SECRET}@db/colon",
        f"{SECRET}",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(SteelyardError) as refused:
        read_url(url)
    assert SECRET not in str(refused.value)


def test_a_password_behind_the_question_mark_is_hidden_as_well() -> None:
    url = read_url(f"postgresql+psycopg://steelyard@db/colon?password={SECRET}&sslmode=require")
    assert url.password == SECRET
    assert SECRET not in url.render_as_string(hide_password=True)


@pytest.fixture
def locked(postgres_server: Any, postgres_url: str) -> Iterator[str]:
    """The URL, without a password, of a database that asks for one."""
    hba = Path(postgres_server.pgdata) / "pg_hba.conf"
    before = hba.read_text(encoding="utf-8")
    hba.write_text(f"local all locked scram-sha-256\n{before}", encoding="utf-8")
    name = str(read_url(postgres_url).database)
    run_sql(
        postgres_server, f"CREATE ROLE locked LOGIN PASSWORD '{SECRET}'", f"ALTER DATABASE {name} OWNER TO locked",
        "SELECT pg_reload_conf()",
    )  # fmt: skip
    yield f"postgresql+psycopg://locked@/{name}?host={postgres_server.pgdata}"
    hba.write_text(before, encoding="utf-8")
    run_sql(postgres_server, f"ALTER DATABASE {name} OWNER TO postgres", "SELECT pg_reload_conf()")
    run_sql(postgres_server, "DROP OWNED BY locked CASCADE", "DROP ROLE locked", database=name)


@pytest.mark.postgres
def test_every_way_to_bring_the_password_works_and_none_tells_it(
    locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SteelyardError, match="no password supplied"):
        Store.open(locked)
    file, passfile = tmp_path / "password", tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:*:{SECRET}\n", encoding="utf-8")
    passfile.chmod(0o600)
    file.write_text(f"{SECRET}\n", encoding="utf-8")
    for name, value in (
        (FILE, str(file)), ("STEELYARD_STORE_PASSWORD", SECRET), ("PGPASSWORD", SECRET), ("PGPASSFILE", str(passfile)),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with Store.open(locked) as store:
                assert SECRET not in f"{store.url} {store.database.engine.url!r} {vars(store.database)}"
    monkeypatch.setenv(FILE, str(file))
    file.write_text("not it\n", encoding="utf-8")
    with pytest.raises(SteelyardError) as refused:
        Store.open(locked)
    assert "not it" not in str(refused.value)
    file.unlink()
    with pytest.raises(SteelyardError, match=r"password of the database cannot be read.*does not exist"):
        Store.open(locked)


@pytest.mark.postgres
def test_pg_dump_is_not_told_the_password_where_others_can_read_it(
    locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has an account on the machine sees the arguments of every program."""
    from steelyard.store.backup import copy_store

    tool = tmp_path / "pg_dump"
    tool.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo 'pg_dump (PostgreSQL) 99.1' && exit\necho \"$@\" > {tmp_path}/arguments\n"
        f"echo $PGPASSWORD > {tmp_path}/password\n",
        encoding="utf-8",
    )
    tool.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with_password = read_url(locked).set(password=SECRET).render_as_string(hide_password=False)
    Store.open(with_password).close()
    copy_store(with_password, tmp_path)
    assert "--dbname=postgresql://locked@/" in (tmp_path / "arguments").read_text(encoding="utf-8")
    assert SECRET not in (tmp_path / "arguments").read_text(encoding="utf-8")
    assert (tmp_path / "password").read_text(encoding="utf-8").strip() == SECRET
    monkeypatch.setenv("STEELYARD_STORE_PASSWORD", SECRET)
    (tmp_path / "password").unlink()
    copy_store(locked, tmp_path)
    assert (tmp_path / "password").read_text(encoding="utf-8").strip() == SECRET


@pytest.mark.postgres
def test_the_variable_does_not_take_a_study_to_another_studys_answers(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def catalog(n: int) -> Catalog:
        np.save(tmp_path / f"{n}.npy", np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32))
        return Catalog.from_features(tmp_path / f"{n}.npy")

    Study.create(tmp_path / "one", catalog(6), preset="features", store=postgres_url).close()
    Study.create(tmp_path / "file", catalog(7), preset="features").close()
    elsewhere = postgres_url.replace("test_", "not_there_")
    toml = tmp_path / "one" / "study.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace(postgres_url, elsewhere), encoding="utf-8")
    with pytest.raises(SteelyardError, match="not_there_"):
        Study.open(tmp_path / "one")
    monkeypatch.setenv(VARIABLE, postgres_url)
    Study.open(tmp_path / "one").close()
    with pytest.raises(StudyError, match=r"are in its study\.db"):
        Study.open(tmp_path / "file")
    (tmp_path / "file" / "study.db").unlink()
    toml = tmp_path / "file" / "study.toml"
    text = toml.read_text(encoding="utf-8").replace('store = ""', f'store = "{postgres_url}"')
    toml.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match="answers of another study"):
        Study.open(tmp_path / "file")
