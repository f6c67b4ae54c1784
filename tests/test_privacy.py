"""A study's files are for their owner – in whatever process, with whatever umask they are made."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import ConfigError
from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer
from steelyard.privacy import read_umask
from steelyard.study import Study


@pytest.fixture
def careless() -> Iterator[None]:
    """A process that gives everything to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def make(folder: Path) -> Study:
    rng = np.random.default_rng(0)
    np.save(folder / "features.npy", rng.normal(size=(12, 3)).astype(np.float32))
    (folder / "labels.csv").write_text("image\n" + "\n".join(f"{k}.png" for k in range(12)), encoding="utf-8")
    catalog = Catalog.from_features(folder / "features.npy", folder / "labels.csv")
    return Study.create(folder / "colon", catalog, preset="features", ask={"start": "random"})


def rights(study: Path) -> dict[str, str]:
    """What others may do with each file and folder right below a study."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode) & 0o077) for path in study.iterdir()}


@pytest.mark.usefixtures("careless")
def test_nobody_else_reads_a_study(tmp_path: Path) -> None:
    with make(tmp_path) as study:
        assert stat.S_IMODE(study.folder.stat().st_mode) == 0o700
        for pair in study.ask(8):
            study.tell(pair, Answer.LEFT)
        study.fit()
        assert {"study.db", "study.db-wal", "study.db-shm", "study.toml", "models", "cache"} <= set(
            rights(study.folder)
        )
        assert set(rights(study.folder).values()) == {"0o0"}


@pytest.mark.usefixtures("careless")
def test_a_study_of_before_is_closed_when_it_is_opened_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path).close()
    folder = tmp_path / "colon"
    folder.chmod(0o755)
    for name in ("study.toml", "study.db", "catalog.arrow"):
        (folder / name).chmod(0o644)
    (folder / "models").chmod(0o755)
    with caplog.at_level(logging.WARNING, "steelyard"):
        for _ in range(2):
            Study.open(folder).close()
    assert set(rights(folder).values()) == {"0o0"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "a folder that was there is left as it was"
    [said] = [
        record.getMessage() for record in caplog.records if "others on this machine" in record.getMessage()
    ]
    assert "study.db" in said
    assert "STEELYARD_UMASK" in said


@pytest.mark.usefixtures("careless")
def test_a_group_may_share_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_UMASK", "007")
    with make(tmp_path) as study:
        study.ask(1)
        shared = {path.name: stat.S_IMODE(path.stat().st_mode) for path in study.folder.iterdir()}
    assert shared["study.db"] == shared["study.db-wal"] == 0o660
    assert shared["study.toml"] == shared["catalog.arrow"] == 0o660
    assert shared["models"] == 0o770


def test_what_commands_write_is_their_owners(tmp_path: Path) -> None:
    with make(tmp_path) as study:
        [pair] = study.ask(1)
        study.tell(pair, Answer.LEFT)
    program = "import os, sys; os.umask(0); sys.argv = ['steelyard', *sys.argv[1:]]; from steelyard.cli import main; main()"
    out = tmp_path / "answers.csv"
    subprocess.run(
        [sys.executable, "-c", program, "export", str(tmp_path / "colon"), "-o", str(out)],
        check=True,
        capture_output=True,
    )
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize("wrong", ["rw", "777", "0o100", "-1"])
def test_a_umask_that_cannot_be_meant_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("STEELYARD_UMASK", wrong)
    with pytest.raises(ConfigError, match=wrong):
        read_umask()
