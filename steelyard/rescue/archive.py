"""The file of a backup: a zip whose manifest names every member with its size and SHA-256.

    manifest.json         format, version, time, schema revision, rows a table, members
    study.toml            configuration, without the address of the database
    catalog.arrow         what is compared (and catalog.features.npy or catalog.pixels.npy where they belong to it)
    store/study.db        the database: a SQLite file, or
    store/study.jsonl     a portable dump (docs/store.md), or
    store/study.pgdump    what pg_dump wrote
    models/round-007-…/   the newest model, or all

A file that comes from elsewhere is not trusted: names are compared with this list before anything is written, sizes are
bounded while reading, and nothing is used whose hash is not that of the manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from steelyard.errors import StudyError
from steelyard.files import sync_file
from steelyard.progress import Progress

__all__ = ["ENDING", "Archive", "ArchiveWriter", "Member", "safe_name"]

ENDING = ".steelyard.zip"
FORMAT = 1
_MANIFEST = "manifest.json"
_MOST_MEMBERS = 100_000
_LARGEST_MANIFEST = 64 * 2**20
_SMALL, _RATIO = (
    2**30,
    250,
)  # a backup of up to 1 GB, or of 250 times the size of its file; a zip bomb has 1,000 times
_BLOCK = 2**20
# What reading a damaged zip raises: OSError where a changed offset points before the file, RuntimeError where a changed
# bit claims that it is encrypted or compressed in a way that nobody knows.
_DAMAGE = (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError, zlib.error)
_ALLOWED = re.compile(
    r"study\.toml|catalog\.arrow|catalog\.[a-z]{1,20}\.npy|store/study\.(?:db|jsonl|pgdump)"
    r"|models/round-[0-9]{1,9}(?:-[0-9a-f]{8})?/[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}"
)


def safe_name(name: str) -> bool:
    """Whether a backup may hold a member of this name."""
    return _ALLOWED.fullmatch(name) is not None


@dataclass(frozen=True)
class Member:
    """A member: its size in bytes and the SHA-256 of its content."""

    name: str
    bytes: int
    sha256: str


class ArchiveWriter:
    """Writes members one after the other, and the manifest at the end."""

    def __init__(self, file: IO[bytes]) -> None:
        # Quickest compression: rows of a database shrink to a fifth with it, and a server has other things to do.
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self.members: list[Member] = []

    def add(self, name: str, source: Path) -> None:
        """Add a file under a name."""
        if not safe_name(name):
            raise StudyError(f"a backup cannot hold a file of this name: {name!r}")
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as file, self._zip.open(_entry(name), "w", force_zip64=True) as member:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
                member.write(block)
        self.members.append(Member(name, size, digest.hexdigest()))

    def finish(self, about: dict[str, Any]) -> None:
        """Write the manifest."""
        members = {m.name: {"bytes": m.bytes, "sha256": m.sha256} for m in self.members}
        manifest = {"steelyard": "backup", "format": FORMAT, **about, "members": members}
        with self._zip.open(_entry(_MANIFEST), "w") as member:
            member.write(json.dumps(manifest, indent=1, ensure_ascii=False).encode())
        self._zip.close()


@dataclass(frozen=True)
class Archive:
    """An open backup file.

    Attributes:
        path: of the file.
        about: its manifest without the members.
        members: by name.
    """

    path: Path
    about: dict[str, Any]
    members: dict[str, Member]
    _zip: zipfile.ZipFile = field(repr=False)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Archive]:
        """Read the manifest and compare it with what is in the file; contents are read by `verify` and `extract`.

        Raises:
            StudyError: it is no backup, not whole, of a newer format, or holds what no backup holds.
        """
        try:
            opened = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise StudyError(f"there is no backup {path}") from None
        except _DAMAGE as error:
            raise StudyError(
                f"{path} is not a backup, or not a complete one ({error}); take another backup file"
            ) from None
        with opened:
            about, members = _read_manifest(opened, path)
            yield cls(path, about, members, opened)

    def verify(self, progress: Progress | None = None) -> None:
        """Read every member and compare it with the manifest.

        Raises:
            StudyError: names the first that differs.
        """
        for number, member in enumerate(self.members.values()):
            if progress is not None:
                progress(number, len(self.members), "verifying the backup")
            self._copy(member, None)

    def extract(self, folder: Path, progress: Progress | None = None) -> None:
        """Write every member below a folder that is ours alone, comparing again; they are on disk afterwards."""
        for number, member in enumerate(self.members.values()):
            if progress is not None:
                progress(number, len(self.members), "writing files")
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                target.chmod(0o600)
                self._copy(member, file)
            sync_file(target)

    def _copy(self, member: Member, file: IO[bytes] | None) -> None:
        digest, size = hashlib.sha256(), 0
        for block in self._blocks(member):
            size += len(block)
            if size > member.bytes:
                break
            digest.update(block)
            if file is not None:
                file.write(block)
        if size != member.bytes or digest.hexdigest() != member.sha256:
            raise self._damaged(member, "its content is not what the manifest says")

    def _blocks(self, member: Member) -> Iterator[bytes]:
        """The content as it is unpacked, one byte more than promised at the most, whatever the compressed bytes go on to say."""
        left = member.bytes + 1
        try:
            with self._zip.open(member.name) as source:
                while left > 0 and (block := source.read(min(_BLOCK, left))):
                    left -= len(block)
                    yield block
        except _DAMAGE as error:
            raise self._damaged(member, str(error)) from None

    def _damaged(self, member: Member, reason: str) -> StudyError:
        return StudyError(
            f"{self.path} is damaged: {member.name} ({reason}); nothing was restored – take another backup file"
        )


def _read_manifest(opened: zipfile.ZipFile, path: Path) -> tuple[dict[str, Any], dict[str, Member]]:
    def refuse(why: str) -> StudyError:
        return StudyError(f"{path} is refused: {why}; take another backup file")

    entries = opened.infolist()
    if len(entries) > _MOST_MEMBERS:
        raise refuse(f"it holds {len(entries)} files")
    names = [entry.filename for entry in entries]
    if names.count(_MANIFEST) != 1:
        raise StudyError(
            f"{path} is not a backup of a study: it has no manifest; make one with: steelyard backup"
        )
    if len(set(names)) != len(names):
        raise refuse("two of its files have one name")
    for name in names:
        if name != _MANIFEST and not safe_name(name):
            raise refuse(f"it holds a file that no backup holds, {name!r}")
    try:
        with opened.open(_MANIFEST) as file:
            text = file.read(_LARGEST_MANIFEST + 1)
        if len(text) > _LARGEST_MANIFEST:
            raise refuse("its manifest is too large")
        manifest = json.loads(text)
        if not isinstance(manifest, dict) or manifest.get("steelyard") != "backup":
            raise refuse("its manifest is not that of a study")
        if manifest.get("format") != FORMAT:
            raise StudyError(
                f"{path} has format {manifest.get('format')!r}, and this Steelyard reads format {FORMAT}; upgrade Steelyard"
            )
        members = {
            str(name): Member(str(name), int(entry["bytes"]), str(entry["sha256"]))
            for name, entry in manifest.pop("members").items()
        }
    except (*_DAMAGE, KeyError, TypeError, AttributeError) as error:
        raise StudyError(f"{path} is damaged: its manifest ({error}); take another backup file") from None
    if set(members) != set(names) - {_MANIFEST}:
        raise refuse("what it holds is not what its manifest says")
    total, limit = sum(m.bytes for m in members.values()), max(_SMALL, _RATIO * path.stat().st_size)
    if total > limit or any(m.bytes < 0 for m in members.values()):
        raise refuse(f"it says that it unpacks to {total:,} bytes, which no backup of its size does")
    return manifest, members


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(
        name
    )  # the time of every member is 1980: it says nothing, and equal content is equal bytes
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry
