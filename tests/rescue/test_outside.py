"""A backup is restored into the database that the environment names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import ConfigError
from steelyard.images.catalog import Catalog
from steelyard.rescue import backup_study, restore_study
from steelyard.study import Study


@pytest.mark.postgres
def test_a_backup_goes_where_the_variable_says(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32))
    Study.create(tmp_path / "one", Catalog.from_features(tmp_path / "rows.npy"), preset="features").close()
    made = backup_study(tmp_path / "one")
    monkeypatch.setenv("STEELYARD_STORE", postgres_url)
    with pytest.raises(ConfigError, match="different databases"):
        restore_study(made.path, tmp_path / "two", store="postgresql+psycopg://x@y/z")
    assert not (tmp_path / "two").exists(), "nothing was written"
    done = restore_study(made.path, tmp_path / "two")
    assert list(done.findings) == []
    assert done.store.startswith("postgresql")
    monkeypatch.delenv("STEELYARD_STORE")
    with Study.open(tmp_path / "two") as study:
        assert study.store.url.startswith("postgresql"), "study.toml keeps the address"
