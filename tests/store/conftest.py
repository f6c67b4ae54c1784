"""One contract, two databases: a test that takes `store` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.pairs import Answer
from steelyard.store.records import Leased, NewComparison, NewImage, NewPair
from steelyard.store.store import Store

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/study.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh store, made once: copying is quicker than migrating."""
    file = tmp_path_factory.mktemp("template") / "study.db"
    Store.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh store."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "study.db")
        return f"sqlite:///{tmp_path}/study.db"
    emptied: str = request.getfixturevalue("postgres_reused")()
    return emptied


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A fresh store with 12 images; whatever a test does to it, it has to stay sound."""
    with Store.open(url, create=False) as opened:
        opened.images.add_all([NewImage(row, image_id(row), f"{row}.png") for row in range(12)])
        yield opened
        assert opened.check() == []


def image_id(row: int) -> str:
    return f"{row:032x}"


@pytest.fixture
def pair_ids(store: Store) -> list[int]:
    """Five open pairs: (0, 1) … (4, 5)."""
    return store.pairs.add_all([NewPair(row, row + 1, 0, "random", "drawn at random") for row in range(5)])


class Say:
    """Short ways of answering."""

    @staticmethod
    def about(leased: Leased, answer: Answer = Answer.LEFT, **more: Any) -> NewComparison:
        return NewComparison(leased.pair, leased.annotator, answer, leased.left, leased.right, **more)

    @staticmethod
    def on(
        store: Store, pair: int, annotator: str, answer: Answer = Answer.LEFT, **more: Any
    ) -> NewComparison:
        stored = store.pairs.get(pair)
        return NewComparison(pair, annotator, answer, stored.first, stored.second, **more)


@pytest.fixture
def say() -> type[Say]:
    return Say
