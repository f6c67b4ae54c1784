"""A file is there whole, with the rights it should have, or it is as it was."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.files import move_new, replacing, write_atomically


@pytest.fixture(autouse=True)
def ordinary_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_in_one_step(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "study.toml"
    path.write_text("old", encoding="utf-8")
    with replacing(path, sync=sync) as file:
        file.write(b"new")
        assert path.read_text(encoding="utf-8") == "old"
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_who_may_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, private in (("private", True), ("public", False)):
        write_atomically(tmp_path / name, "ü", private=private)
    assert (tmp_path / "private").read_bytes() == "ü".encode()
    assert rights(tmp_path / "private") == 0o600
    assert rights(tmp_path / "public") == 0o644
    (tmp_path / "private").chmod(0o640)
    write_atomically(tmp_path / "private", "again")
    assert rights(tmp_path / "private") == 0o640, "what was there keeps its rights"
    os.umask(0)
    monkeypatch.setenv("STEELYARD_UMASK", "007")
    write_atomically(tmp_path / "shared", "")
    assert rights(tmp_path / "shared") == 0o660


def test_a_name_that_is_taken_is_never_given_again(tmp_path: Path) -> None:
    source, target = tmp_path / "made", tmp_path / "backup"
    source.write_text("new", encoding="utf-8")
    target.write_text("kept", encoding="utf-8")
    with pytest.raises(FileExistsError):
        move_new(source, target)
    assert target.read_text(encoding="utf-8") == "kept"
    target.unlink()
    move_new(source, target)
    assert target.read_text(encoding="utf-8") == "new"
    assert not source.exists()
