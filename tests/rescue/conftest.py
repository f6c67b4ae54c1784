"""A small study with answers and a model, on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from PIL import Image

from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer
from steelyard.store.database import make_engine, read_url
from steelyard.store.dump import LEFT_OUT, table_rows
from steelyard.store.records import NewGrade, new_id
from steelyard.study import Study, study_config

N = 16
BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest) -> str:
    """What `store` of the study says: nothing, or a new database."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


MakeStudy = Callable[[Path, Path, str], Study]


@pytest.fixture(name="make_study")
def _make_study() -> MakeStudy:
    return make_study


@pytest.fixture(name="answer")
def _answer() -> Callable[..., None]:
    return answer


_numbers = itertools.count()


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Callable[[], str]:
    """A function that makes one more empty database on PostgreSQL and gives its URL."""

    def made() -> str:
        import psycopg

        server, name = request.getfixturevalue("postgres_server"), f"more_{next(_numbers)}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return str(server.get_uri(database=name, driver="psycopg"))

    return made


@pytest.fixture
def study(tmp_path: Path, store_url: str) -> Iterator[Study]:
    """A study of files and features, with answers of every kind, grades, people and a model."""
    with make_study(tmp_path / "study", tmp_path / "images", store_url) as made:
        yield made


@pytest.fixture
def sqlite_study(tmp_path: Path) -> Iterator[Study]:
    with make_study(tmp_path / "study", tmp_path / "images", "") as made:
        yield made


def make_study(folder: Path, images: Path, store: str) -> Study:
    rng = np.random.default_rng(0)
    severity = rng.permutation(N) / N
    images.mkdir()
    lines = ["image,grade"]
    for row, value in enumerate(severity):
        Image.fromarray(np.full((8, 8, 3), int(250 * value), np.uint8)).save(images / f"{row}.png")
        lines.append(f"{row}.png,{int(value * 3)}")
    (images / "labels.csv").write_text("\n".join(lines))
    rows = np.column_stack([severity, rng.normal(size=(N, 2))]).astype(np.float32)
    catalog = Catalog.from_features(rows, images / "labels.csv", root=images)
    study = Study.create(folder, catalog, config=study_config("features", store=store, seed=1))
    store_ = study.store
    store_.people.add("alma", role="admin", password_hash="$argon2 of alma")
    store_.people.sessions.add("session hash of alma", "alma", "csrf", expires=4e9)
    store_.people.tokens.add("token hash of alma", "alma", "nightly – “quoted”, \\N and more")
    store_.settings.keep("nothing", None)
    store_.settings.keep("ünïcode", {"b": [1, 2.50, None], "a": "\n"})
    answer(study, 8)
    study.fit()
    first = store_.answers.log()[0]
    study.undo(first.id, annotator=first.annotator)
    given = store_.grades.add(NewGrade(str(catalog.ids[2]), "kt", 1))
    store_.grades.undo(given.id, "kt", id=new_id())
    store_.images.exclude(str(catalog.ids[3]), "alma", "blurred")
    store_.audit.add("alma", "looked", {"at": "everything", "share": 0.1})
    study.ask(2, annotator="lena")
    return study


def answer(study: Study, n: int, annotator: str = "kt") -> None:
    said = [Answer.LEFT, Answer.RIGHT, Answer.EQUAL, Answer.CANNOT_JUDGE, Answer.LEFT, Answer.RIGHT]
    for number, pair in enumerate(study.ask(n, annotator=annotator)):
        study.tell(pair, said[number % len(said)], annotator=annotator, note="äöü\t\\" if number == 1 else "")


@pytest.fixture
def rows_of() -> Callable[[str], dict[str, Any]]:
    """Every row of every table that a backup holds, by table."""
    return read_rows


def read_rows(url: str) -> dict[str, Any]:
    engine = make_engine(read_url(url))
    with engine.connect() as connection, connection.begin():
        found = {table.name: (table.columns, list(table.rows)) for table in table_rows(connection)}
        for name in LEFT_OUT:
            count = connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one()
            found[name] = ([], count)
    engine.dispose()
    return found


@pytest.fixture
def postgres_tools(monkeypatch: pytest.MonkeyPatch, postgres_server: Any) -> None:
    """Put the server's own pg_dump and pg_restore first on the path."""
    monkeypatch.setenv("PATH", f"{postgres_server.bin_path}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def no_postgres_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without them."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
