from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from steelyard.store.backup import copy_sqlite
from steelyard.store.errors import StoreError
from steelyard.store.store import Store


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_copy_is_a_whole_study(store: Store, pair_ids: list[int], say: Any, tmp_path: Path) -> None:
    store.answers.add(say.on(store, pair_ids[0], "kt"))
    target = tmp_path / "copy.db"
    file = Path(str(store.database.engine.url.database))
    assert copy_sqlite(file, target) == target
    with pytest.raises(StoreError, match="never overwrites"):
        copy_sqlite(file, target)
    with pytest.raises(StoreError, match="does not exist"):
        copy_sqlite(file, tmp_path / "nowhere" / "copy.db")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("copy")] == ["copy.db"]
    with closing(sqlite3.connect(target)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with Store.open(f"sqlite:///{target}", create=False) as copy:
        assert copy.answers.log() == store.answers.log()
        assert copy.check() == []
