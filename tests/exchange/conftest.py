"""A small study that must be sound afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.study import Study
from tests.exchange.files import make_study


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with make_study(tmp_path / "s") as made:
        yield made
        assert made.store.check() == []
