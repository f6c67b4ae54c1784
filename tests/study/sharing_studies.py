"""A study that workers know by URLs alone, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from steelyard.study import Study
from tests.study.conftest import answer


def share(make_study: Callable[..., Study], tmp_path: Path) -> Study:
    """A study with twelve answers that others may learn from."""
    study = make_study(
        ask={"start": "random", "random_share": 0.0}, refit_after=10, models=f"file://{tmp_path}/shelf"
    )
    answer(study, 12)
    study.sharing.refresh()
    return study


def store_of(study: Study) -> str:
    """Address of its store."""
    return f"sqlite:///{study.folder}/study.db"
