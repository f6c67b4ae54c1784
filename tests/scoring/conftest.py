"""Two studies with a model – of drawn images, and of feature rows – and new images to score."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.study import Study
from tests.study.growing import answer, draw

NEW = 23


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    folder = tmp_path_factory.mktemp("scoring")
    for k in range(24):
        draw(folder / "images" / f"i{k:02d}.png", k)
    with Study.create(
        folder / "study", sy.Catalog.from_folder(folder / "images"), ask={"start": "random"}, preset="quick",
        ranker={"backbone": "lite0", "image_size": 32},
    ) as made:  # fmt: skip
        answer(made, 30)
        made.fit()
        yield made


@pytest.fixture(scope="session")
def rows_study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    folder = tmp_path_factory.mktemp("rows")
    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    np.save(folder / "x.npy", rows)
    with Study.create(
        folder / "study",
        sy.Catalog.from_features(folder / "x.npy"),
        preset="features",
        ask={"start": "random"},
    ) as made:
        for pair in made.ask(30):
            left, right = made.catalog.index_of(pair.left), made.catalog.index_of(pair.right)
            made.tell(pair, "left" if rows[left, 0] > rows[right, 0] else "right")
        made.fit()
        yield made


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """New images, one of them in a subfolder, one of them cut short: n05.png."""
    folder = tmp_path / "new"
    for k in range(NEW - 1):
        draw(folder / f"n{k:02d}.png", 100 + k)
    draw(folder / "deeper" / "n22.png", 200)
    whole = (folder / "n05.png").read_bytes()
    (folder / "n05.png").write_bytes(whole[: len(whole) // 2])
    return folder
