"""A small study on feature rows, and answers to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.study import Study
from tests.study.growing import RANKER, draw
from tests.study.growing import N as FILES

N = 40


@pytest.fixture
def make_study(tmp_path: Path) -> Iterator[Callable[..., Study]]:
    """Makes studies of 40 images; closed afterwards."""
    made: list[Study] = []

    def make(**changes: Any) -> Study:
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32))
        catalog = sy.Catalog.from_features(tmp_path / "x.npy")
        made.append(Study.create(tmp_path / f"study{len(made)}", catalog, preset="features", **changes))
        return made[-1]

    yield make
    for study in made:
        study.close()


@pytest.fixture
def answered(make_study: Callable[..., Study]) -> Study:
    """A study with twelve answers."""
    study = make_study(ask={"start": "random", "random_share": 0.0})
    answer(study, 12)
    return study


def answer(study: Study, n: int) -> None:
    """The image with the larger first feature is worse."""
    rows = np.load(study.folder.parent / "x.npy")[:, 0]
    for pair in study.ask(n):
        left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
        study.tell(pair, "left" if rows[left] > rows[right] else "right")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The folder that the study is made of."""
    for k in range(FILES):
        draw(tmp_path / "images" / f"i{k:02d}.png", k)
    return tmp_path / "images"


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """Three more, somewhere else."""
    for k in range(FILES, FILES + 3):
        draw(tmp_path / "later" / f"i{k:02d}.png", k)
    return tmp_path / "later"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_reused")()


@pytest.fixture
def make_growing(tmp_path: Path, first: Path) -> Iterator[Callable[..., Study]]:
    """Makes the study, of a catalog or of the folder."""
    made: list[Study] = []

    def study(catalog: sy.Catalog | None = None, **changes: Any) -> Study:
        settings = {"ask": {"start": "random"}, "ranker": RANKER, "refit_after": 4, **changes}
        chosen = catalog or sy.Catalog.from_folder(first)
        made.append(
            Study.create(tmp_path / "study", chosen, preset=settings.pop("preset", "small"), **settings)
        )
        return made[-1]

    yield study
    for one in made:
        one.close()
