"""Sixteen processes ask and tell at once: nothing is lost, doubled or handed to two people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from steelyard.store.records import NewImage
from steelyard.store.store import Store

CROWD = Path(__file__).with_name("crowd.py")


def run_crowd(kind: str, url: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(CROWD), kind, url],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    saw: list[dict[str, Any]] = json.loads(done.stdout)
    return saw


def test_sixteen_processes_ask_and_tell_at_once(url: str) -> None:
    with Store.open(url) as store:
        store.images.add_all([NewImage(row, f"{row:032x}") for row in range(30)])
        *people, follower = run_crowd("work", url)
        assert len(people) == 16

        log = [c.id for c in store.answers.log()]
        acknowledged = [id for person in people for id in person["acknowledged"]]
        assert sorted(log) == sorted(acknowledged), "no answer is lost and none is doubled"
        assert follower["seen"] == log, "whoever reads on by number misses nothing"

        pairs = store.pairs.all()
        assert len({(p.first_row, p.second_row) for p in pairs}) == len(pairs) > 150
        assert follower["pairs"] == [p.id for p in pairs]
        handed = Counter(id for person in people for id in person["handed"])
        assert handed == {p.id: p.raters for p in pairs}, (
            "to as many different people as wanted, never to more"
        )
        said = Counter(c.pair for c in store.answers.log() if c.effective)
        assert said == {p.id: p.raters for p in pairs}
        assert store.pairs.open_count() == 0
        assert store.check() == []


def test_sixteen_processes_open_an_old_study_at_once(empty_url: str, tmp_path: Path) -> None:
    from steelyard.store.database import make_engine, read_url
    from steelyard.store.opening import upgrade

    engine = make_engine(read_url(empty_url))
    with engine.connect() as connection:
        connection.execution_options(writing=True)
        with connection.begin():
            upgrade(connection, "0001")
    engine.dispose()
    run_crowd("open", empty_url)
    with Store.open(empty_url, create=False) as store:
        assert [store.settings.get(f"p{me}") for me in range(16)] == list(range(16))
        assert store.check() == []
    assert len(list(tmp_path.glob("*.backup-*"))) == (1 if empty_url.startswith("sqlite") else 0)


def test_sixteen_processes_create_a_study_at_once(empty_url: str) -> None:
    run_crowd("open", empty_url)
    with Store.open(empty_url, create=False) as store:
        assert [store.settings.get(f"p{me}") for me in range(16)] == list(range(16))
