"""A whole study as a few files that people can read, in a ZIP archive or in a folder."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from steelyard.errors import StudyError, command
from steelyard.files import write_atomically

__all__ = ["ABOUT", "FORMAT", "is_bundle", "read_about", "read_parts", "write_parts"]

FORMAT = "steelyard study 1"
ABOUT = "about.json"
_PARTS = {
    "answers.csv": "every answer that counts; docs/exchange.md explains the columns",
    "grades.csv": "every grade of an image that counts, by whom and when; code is its place among the grades",
    "exclusions.csv": "images that were taken out, by whom, when and why",
    "people.csv": "who answers and in which role; no passwords, links or tokens",
    "wording.toml": "the questions, the grades with their definitions, reasons and keys; how people are prepared and checked",
    "known.csv": "pairs whose answer is known, to warm people up or to check them; steelyard gold takes it",
    "images.csv": "the images: path, grade, patient (group) and content id; init --labels takes it",
    ABOUT: "what wrote this, when, and how much there is",
}
_LATER = ("images.csv", "known.csv")  # not in every export of earlier versions
_README = """\
A whole study, written by Steelyard. Times are in seconds since 1970, and beside them (…_utc) for people.
Take it into a study on the same images, which are known by their content: steelyard import STUDY THIS

"""
_MOST = 2 << 30  # bytes; a small archive may claim to be endless


def is_bundle(path: Path) -> bool:
    """Whether a file or folder may be a whole study rather than a table of answers."""
    return path.is_dir() or path.suffix.lower() == ".zip"


def write_parts(path: Path, parts: Mapping[str, str]) -> None:
    """Write the files, into an archive if the name ends in .zip, else into a folder.

    Raises:
        StudyError: it cannot be written, or the folder holds something else.
    """
    width = max(map(len, _PARTS))
    about = "".join(f"{name:<{width}}  {what}\n" for name, what in _PARTS.items())
    everything = {"README.txt": _README + about, **parts}
    try:
        if path.suffix.lower() == ".zip":
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
                for name, text in everything.items():
                    file.writestr(name, text)
            write_atomically(path, archive.getvalue(), private=False)
            return
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / ABOUT).exists())):
            raise StudyError(f"{path} is there and not an earlier export; name a new folder, or a file.zip")
        path.mkdir(parents=True, exist_ok=True)
        for name, text in everything.items():
            write_atomically(path / name, text, private=False)
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror or error}") from None


def read_parts(path: Path) -> dict[str, bytes]:
    """The files of an archive or folder, by name.

    Raises:
        StudyError: it is no whole study, or cannot be read.
    """
    try:
        found = _from_folder(path) if path.is_dir() else _from_archive(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise StudyError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    missing = [name for name in _PARTS if name not in found and name not in _LATER]
    if missing:
        raise StudyError(f"{path} is not a whole study: it lacks {', '.join(missing)}")
    return found


def read_about(path: Path, content: bytes) -> dict[str, Any]:
    """What `about.json` says.

    Raises:
        StudyError: it was written by a newer version, or by something else.
    """
    try:
        about = json.loads(content.decode("utf-8-sig"))
        form = about["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StudyError(f"{path}: {ABOUT} is not what Steelyard writes") from None
    if form != FORMAT:
        raise StudyError(f"{path}: {ABOUT} says format {str(form)[:80]!r}, not {FORMAT!r}; update Steelyard")
    return dict(about)


def _from_folder(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in _PARTS if (path / name).is_file()}


def _from_archive(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if any(member.filename.startswith("store/") for member in members):
            raise StudyError(
                f"{path} is a backup; make a study of it with: {command('restore', path, 'STUDY')}"
            )
        # Somebody may have packed the folder again, with its name before every file.
        wanted = {m.filename: m for m in members if PurePosixPath(m.filename).name in _PARTS}
        top = min((len(PurePosixPath(name).parts) for name in wanted), default=1)
        chosen = {
            PurePosixPath(name).name: member
            for name, member in wanted.items()
            if len(PurePosixPath(name).parts) == top and not name.startswith("__MACOSX/")
        }
        if sum(member.file_size for member in chosen.values()) > _MOST:
            raise StudyError(f"{path} would unpack to more than {_MOST >> 30} GB; that is no study")
        return {name: archive.read(member) for name, member in chosen.items()}
