"""A small study on feature rows, and answers to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.study import Study

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
