"""Folders that cannot be looked into are told of and never silently left out; pipes and the like are passed over."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import CatalogError, ImageError
from steelyard.images.catalog import Catalog
from steelyard.images.files import find_images, look_at
from tests.images.closing import close
from tests.images.drawn import draw


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for k, name in enumerate(["a.png", "closed/b.png", "closed/deep/c.png", "open/d.png"]):
        draw(tmp_path / "images" / name, k)
    return tmp_path / "images"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_folder_that_cannot_be_read_is_reported_or_fails(
    folder: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(monkeypatch, folder / "closed", number)
    catalog = Catalog.from_folder(folder)
    assert catalog.paths.tolist() == ["a.png", "open/d.png"]
    [bad] = catalog.report.bad
    assert bad.path == "closed"
    assert bad.reason.startswith(f"is a folder that cannot be read ({os.strerror(number)}): make it readable")
    assert "closed: is a folder that cannot be read" in str(catalog.report)
    with pytest.raises(ImageError, match="closed: is a folder that cannot be read"):
        Catalog.from_folder(folder, on_error="fail")


def test_nothing_is_taken_of_a_folder_whose_server_goes_away_in_the_middle(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    class Torn:
        def __init__(self, path: Any) -> None:
            self.entries = scandir(path)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            yield next(self.entries)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def __exit__(self, *_: object) -> None:
            self.entries.close()

    monkeypatch.setattr(
        os, "scandir", lambda path: Torn(path) if Path(path) == folder / "closed" else scandir(path)
    )
    search = find_images(folder)
    assert search.paths == ["a.png", "open/d.png"]
    assert [bad.path for bad in search.bad] == ["closed"]


def test_a_root_that_cannot_be_read_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close(monkeypatch, folder, errno.EACCES)
    with pytest.raises(CatalogError, match=r"cannot be read .Permission denied.; make it readable"):
        find_images(folder)

    def stale(_: Path) -> bool:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "is_dir", stale)
    with pytest.raises(CatalogError, match=r"cannot be read .Stale file handle"):
        find_images(folder)


def test_pipes_and_sockets_are_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.png")
    os.mkfifo(folder / ".hidden")
    (folder / "link.png").symlink_to(folder / "pipe")
    (folder / "null.png").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        # Its address may have 108 bytes, so it is bound from within the folder.
        before = Path.cwd()
        os.chdir(folder)
        try:
            listening.bind("socket.png")
        finally:
            os.chdir(before)
        catalog = Catalog.from_folder(folder, check=True)
    assert catalog.paths.tolist() == ["a.png", "closed/b.png", "closed/deep/c.png", "open/d.png"]
    assert catalog.report.bad == ()
    assert "passed over: 5 pipes, sockets and devices" in str(catalog.report)


def test_a_pipe_that_a_table_names_is_a_bad_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe.png")
    (folder / "labels.csv").write_text("image\na.png\npipe.png\n", encoding="utf-8")
    catalog = Catalog.from_csv(folder / "labels.csv")
    assert [str(bad) for bad in catalog.report.bad] == ["pipe.png: is a pipe, socket or device, not a file"]
    with pytest.raises(ImageError, match="is a pipe, socket or device"):
        look_at(folder, "pipe.png")
