"""A backup file that was cut, changed or made by somebody hostile is refused before anything is written."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import SteelyardError, StudyError
from steelyard.rescue import archive as archives
from steelyard.rescue import backup_study, restore_study
from steelyard.rescue.archive import Archive, safe_name
from steelyard.study import Study


@pytest.fixture
def made(sqlite_study: Study, tmp_path: Path) -> Path:
    return backup_study(sqlite_study.folder, tmp_path / "b.zip").path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(file: Path, folder: Path, words: str = "take another backup file") -> None:
    with pytest.raises(SteelyardError, match=words):
        restore_study(file, folder)
    assert not folder.exists(), "nothing is written before everything is verified"


def test_a_cut_file_is_refused_wherever_it_was_cut(made: Path, tmp_path: Path) -> None:
    content = made.read_bytes()
    rng = random.Random(0)
    for length in [0, 1, 21, 22, len(content) - 1, *(rng.randrange(len(content)) for _ in range(40))]:
        (tmp_path / "cut.zip").write_bytes(content[:length])
        refused(tmp_path / "cut.zip", tmp_path / "again", "take another backup file")


def test_a_changed_bit_is_refused_or_changes_nothing(made: Path, tmp_path: Path) -> None:
    """Some bits of a zip say nothing, like the time of a member. What is restored is right, or nothing is."""
    with Archive.open(made) as archive:
        archive.extract(tmp_path / "right")
    right, content = contents(tmp_path / "right"), made.read_bytes()
    rng, harmless = random.Random(1), 0
    for number in range(300):
        changed = bytearray(content)
        # Half of them where a mistake is likeliest: in the manifest and the directory at the end.
        low = 0 if number % 2 else len(content) - 3000
        changed[rng.randrange(low, len(content))] ^= 1 << rng.randrange(8)
        (tmp_path / "changed.zip").write_bytes(changed)
        target = tmp_path / f"unpacked-{number}"
        try:
            with Archive.open(tmp_path / "changed.zip") as archive:
                archive.verify()
                archive.extract(target)
        except StudyError:
            assert not target.exists()
            continue
        harmless += 1
        assert contents(target) == right
    assert harmless < 100


@pytest.mark.parametrize(
    ("field", "value"), [(8, 1), (10, 99), (42, 2**32 - 2)], ids=["encrypted", "method", "offset"]
)
def test_a_directory_that_lies_is_a_sentence(made: Path, tmp_path: Path, field: int, value: int) -> None:
    """Flags, compression and place of every member, as the zip's directory tells them."""
    changed = bytearray(made.read_bytes())
    at = changed.find(b"PK\x01\x02")
    while at >= 0:
        size = 4 if field == 42 else 2
        changed[at + field : at + field + size] = value.to_bytes(size, "little")
        at = changed.find(b"PK\x01\x02", at + 46)
    (tmp_path / "changed.zip").write_bytes(changed)
    with (
        pytest.raises(StudyError, match=r"damaged|refused|not a backup"),
        Archive.open(tmp_path / "changed.zip") as archive,
    ):
        archive.verify()


Change = Callable[[dict[str, bytes], dict[str, Any]], None]


def rewrite(made: Path, target: Path, change: Change, *, double: str = "") -> Path:
    """The same backup with other members and a manifest that agrees with them, as a hostile sender would make it."""
    with zipfile.ZipFile(made) as source:
        members = {name: source.read(name) for name in source.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(members, manifest)
    manifest["members"] = manifest.get("members") and {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in members.items()
    }
    with zipfile.ZipFile(target, "w") as written:
        for name, content in members.items():
            written.writestr(name, content)
        if double:
            with pytest.warns(UserWarning, match="Duplicate"):
                written.writestr(double, b"another")
        written.writestr("manifest.json", json.dumps(manifest))
    return target


@pytest.mark.parametrize(
    "name",
    [
        "../escaped", "models/round-000/../../../escaped", "/tmp/escaped", "C:\\escaped", "..\\escaped", "models/round-000/",
        "study.db-wal", "models/../study.toml", "store/../../escaped", "models/round-000/.hidden", "cache/x", "a\0b",
        "models/round-000/x/y", "models/round-000-5f0c12a/x", "models/round-000-5F0C12AB/x", "models/.training-1/x", "STUDY.TOML", "study.toml ", "models/round-000/x\n",
    ],
)  # fmt: skip
def test_no_member_leaves_the_folder(made: Path, tmp_path: Path, name: str) -> None:
    def add(members: dict[str, bytes], _: dict[str, Any]) -> None:
        members[name] = b"evil"

    assert not safe_name(name)
    outside = set(tmp_path.parent.iterdir())
    refused(rewrite(made, tmp_path / "evil.zip", add), tmp_path / "again")
    assert set(tmp_path.parent.iterdir()) == outside


def test_what_is_missing_doubled_or_newer_is_refused(made: Path, tmp_path: Path) -> None:
    def drop(name: str) -> Change:
        return lambda members, _: (members.pop(name), None)[1]

    def newer(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["format"] = 99

    def other(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["steelyard"] = "something else"

    def broken(members: dict[str, bytes], _: dict[str, Any]) -> None:
        members["study.toml"] = b""

    again = tmp_path / "again"
    for name in ("study.toml", "catalog.arrow", "store/study.db"):
        refused(
            rewrite(made, tmp_path / f"{Path(name).name}.zip", drop(name)), again, "not a complete backup"
        )
    refused(rewrite(made, tmp_path / "newer.zip", newer), again, "upgrade Steelyard")
    refused(rewrite(made, tmp_path / "other.zip", other), again, "not that of a study")
    refused(rewrite(made, tmp_path / "empty.zip", broken), again, "study.toml is empty")
    double = rewrite(made, tmp_path / "double.zip", lambda *_: None, double="study.toml")
    refused(double, again, "two of its files have one name")


def test_a_backup_does_not_say_which_database_is_written(made: Path, tmp_path: Path) -> None:
    """One that names the database of another study: nothing is opened, migrated or written there."""
    other = tmp_path / "other"
    restore_study(made, other)
    before = contents(other)

    def point(members: dict[str, bytes], _: dict[str, Any]) -> None:
        text = members["study.toml"].decode()
        assert 'store = ""' in text
        members["study.toml"] = text.replace(
            'store = ""', f'store = "sqlite:///{other / "study.db"}"'
        ).encode()

    restored = restore_study(rewrite(made, tmp_path / "evil.zip", point), tmp_path / "again")
    assert contents(other) == before
    assert str(tmp_path / "again") in restored.store
    with Study.open(tmp_path / "again") as study:
        assert study.config.store == ""


def test_a_zip_bomb_is_bounded(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_SMALL", 2**20)
    with Archive.open(made) as archive:
        about = archive.about
    bomb = tmp_path / "bomb.zip"

    def write(claimed: int) -> None:
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
            written.writestr("study.toml", b"\0" * (64 * 2**20))
            members = {"study.toml": {"bytes": claimed, "sha256": "0" * 64}}
            written.writestr("manifest.json", json.dumps({**about, "members": members}))

    write(64 * 2**20)  # it says what it is: 900 times its size
    refused(bomb, tmp_path / "again", "no backup of its size")
    write(1000)  # it says something else: no more than that is ever read
    with Archive.open(bomb) as archive:
        with pytest.raises(StudyError, match="damaged"):
            archive.extract(tmp_path / "unpacked")
        assert (tmp_path / "unpacked" / "study.toml").stat().st_size <= 1000
